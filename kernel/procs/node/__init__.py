"""A machine elsewhere as a launcher: a kernel's session with it, and the process that serves there.

One stream of bytes carries all that its processes say and are told. When it ends the node ends every tree, at the
latest with its lease, and only after that the kernel calls its work lost. The next stream has another session.
"""
