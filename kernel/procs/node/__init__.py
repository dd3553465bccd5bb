"""A machine elsewhere as a launcher: a kernel's session with it, and the process that serves there.

One stream of bytes carries all that its processes say and are told. It may break and be opened anew within the lease;
what is not acknowledged is sent again, and takes effect once. Past the lease the node has ended every tree, and only
after that the kernel calls its work lost.
"""
