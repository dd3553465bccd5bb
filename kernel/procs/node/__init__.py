"""A remote machine as a launcher: the kernel's session with a node, and the node process on that machine.

One byte stream carries all data of the session's processes. When the stream ends, the node kills every tree, at the
latest when its lease expires. Only then the kernel marks the node's work as lost. The next stream has a new session.
"""
