"""Frozen types, ids, grammars and error codes that processes exchange.

Leaf package: it imports no other package of this project and does no I/O, so the kernel, the workers and the
interfaces can all use it. Behavior that only one of them needs does not belong here.
"""
