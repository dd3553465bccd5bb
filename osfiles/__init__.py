"""File operations of the operating system: opening without following links, and atomic replacement.

Leaf package: it does I/O, imports no other package of the project, and does not know the purpose of files.
"""
