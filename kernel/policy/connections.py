"""Decides whose connection gives way when there are too many (promise P9).

Who has no token can connect all the same: that must not take the descriptors that the kernel works with, nor keep out
the owner. So strangers have a share, each attempt has one, and some descriptors are never given away. In a full share
the newest comes in and the oldest goes: who has just connected is about to ask something.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

STRANGER: Final = ""
"""Stands for everybody whose connection has not carried a valid token yet."""
NODE: Final = "node "
"""Before the name of a node, for those that come through it and have not shown a token yet: no node has the others'."""
KEPT_BACK: Final = 64
"""Descriptors for the database, logs and files, however few there are."""
STRANGERS_LIMIT: Final = 256
EACH_ATTEMPT_LIMIT: Final = 64
ALL_LIMIT: Final = 8192


class Shares(NamedTuple):
    """Limits of open connections."""

    strangers: int
    each_attempt: int
    all: int


def shares(descriptors: int) -> Shares:
    """The shares of a process that may have ``descriptors`` open. Half of them are for workers: each takes several."""
    free = max(descriptors - KEPT_BACK, 4)
    return Shares(
        strangers=min(STRANGERS_LIMIT, free // 4),
        each_attempt=min(EACH_ATTEMPT_LIMIT, free // 4),
        all=min(ALL_LIMIT, free // 2),
    )


def gives_way(counts: Mapping[str, int], limits: Shares, owner: str) -> str | None:
    """The holder of whose connections the oldest is to be closed; None: there is room.

    ``counts`` is by holder of a token, STRANGER among them. ``owner`` is bounded by the whole only.
    """
    if counts.get(STRANGER, 0) > limits.strangers:
        return STRANGER
    for holder, count in counts.items():
        if count > limits.each_attempt and holder not in {STRANGER, owner}:
            return holder
    if sum(counts.values()) > limits.all:
        return max(counts, key=lambda holder: counts[holder])
    return None
