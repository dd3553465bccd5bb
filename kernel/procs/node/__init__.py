"""A remote machine as a launcher: the kernel's session with it, and the node process that serves there.

One byte stream carries all data of its processes. When it ends, the node kills every tree, at the latest at the end of
its lease, and only then the kernel marks the work as lost. The next stream has a new session.
"""
