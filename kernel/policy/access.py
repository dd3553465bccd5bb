"""Access: what the token of a request opens, and whose connection gives way when there are too many.

A token is judged before anything of the request is read but its route.

Its scopes are steps, each opens what those before it do. ``read``: look. ``operate``: give work and steer it.
``approve``: decide what waits for a person's yes or no, perhaps of some agents only. ``admin``: what changes what may
run here, or erases; no token that is made opens that, only the administrator's.

Clients without a token can connect all the same: that must not take the descriptors that the kernel works with, nor
keep out the owner (promise P9). So strangers have a share, each attempt has one, and some descriptors are never given
away. In a full share the newest connection comes in and the oldest is closed: a new one is about to ask something.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from protocol.api.tokens import RouteScope
from protocol.names import number_of

_STEP: Mapping[RouteScope, int] = {"read": 0, "operate": 1, "approve": 2, "admin": 3}

ADMIN_NAME: Final = "admin"
"""The holder of the administrator's token, as idempotency keys of the REST API and shares of what is scarce name it."""


class Access(msgspec.Struct, frozen=True):
    """The holder of a token that is no attempt's: ``admin``, or ``k3``, the id of a token that somebody made."""

    name: str = ADMIN_NAME
    scope: RouteScope = "admin"
    agents: frozenset[str] | None = None
    """It decides for these only; None: for all."""

    @property
    def number(self) -> int | None:
        """The number of a token that somebody made, and may take back; None for the kernel's own."""
        return number_of(self.name, "k")

    def opens(self, needed: RouteScope) -> bool:
        """Return whether the token opens what needs ``needed``."""
        return _STEP[self.scope] >= _STEP[needed]

    def decides_for(self, agent: str) -> bool:
        """Return whether it may approve and deny calls of ``agent``, by its name."""
        return self.opens("approve") and (self.agents is None or agent in self.agents)


ADMIN: Final = Access()
RECORD: Final = Access("record", "operate")
"""The token in the discovery record, for programs on this machine: a limited one, as somebody would make it."""
STRANGER: Final = Access("stranger", "read")
"""Nobody's token: it opens what needs none, and no other route (kernel.operations.operation)."""


NO_TOKEN: Final = ""
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

    ``counts`` is by holder of a token, NO_TOKEN among them. ``owner`` is bounded by the whole only.
    """
    if counts.get(NO_TOKEN, 0) > limits.strangers:
        return NO_TOKEN
    for holder, count in counts.items():
        if count > limits.each_attempt and holder not in {NO_TOKEN, owner}:
            return holder
    if sum(counts.values()) > limits.all:
        return max(counts, key=lambda holder: counts[holder])
    return None
