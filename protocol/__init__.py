"""What crosses a wall: frozen wire types, ids, grammars and error codes.

Leaf package: it imports nothing of ours and does no I/O, so the kernel, the workers and the
interfaces can all rely on it. It is not a place for behaviour that only one of them needs.
"""
