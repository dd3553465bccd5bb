"""How the cycle collector runs in a kernel."""

import gc
from typing import Final

COLLECTED_AFTER: Final = (2_000, 20, 20)
"""Objects that are not freed by themselves; and collections of the young before one of the older."""


def settle_heap() -> None:
    """What there is now stays: the collector need not look at it again, nor at what is new after each few hundred."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)
