"""Safe file access: files are opened without following links, and replaced atomically.

Leaf package: it does I/O and imports no other package of this project. It does not depend on the purpose of a file.
"""
