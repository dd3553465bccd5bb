"""How the heap of a kernel is kept: when the cycle collector runs, and that what was large goes back to the system."""

import ctypes
import gc
from typing import Final

COLLECTED_AFTER: Final = (2_000, 20, 20)
"""Objects that are not freed by themselves; and collections of the young before one of the older."""
MAPPED_BYTES: Final = 128 * 1024
"""Blocks of so many bytes are mapped each by itself, and unmapped when they are freed."""
_M_MMAP_THRESHOLD: Final = -3
"""mallopt(3)."""


def settle_heap() -> None:
    """What there is now stays: the collector need not look at it again, nor at what is new after each few hundred."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def give_back_large_blocks() -> None:
    """Hold glibc to the threshold it begins with: it raises it at the first large block that is freed.

    From then on bodies of megabytes lie on the heap among what is small, and stay when they are freed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # there are other libraries than glibc
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
