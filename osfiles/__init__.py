"""Files as the operating system has them: opened without following links, and replaced as a whole.

Leaf package: it does I/O and imports nothing of ours. It does not know what a file is for.
"""
