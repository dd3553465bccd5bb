"""Access control: the routes that a token opens, and the connection to close when there are too many.

A request is authorized by its route before its body is read.

Scopes are ordered; each includes the ones before it. ``read``: view state. ``operate``: assign and steer work.
``approve``: decide approvals, possibly of selected agents only. ``admin``: change what may run here, and erase data.
Only the administrator's token has ``admin``; created tokens never do.

Clients without a token can also connect. They must not use up the descriptors that the kernel works with, nor lock out
the owner (promise P9). So connections without a token and of each attempt are limited, and some
descriptors are reserved. At a limit, the oldest connection is closed: the newest will be used next.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from protocol.api.tokens import RouteScope
from protocol.names import number_of

_STEP: Mapping[RouteScope, int] = {"read": 0, "operate": 1, "approve": 2, "admin": 3}

ADMIN_NAME: Final = "admin"
"""Name of the administrator in idempotency keys of the REST API and in connection limits."""


class Access(msgspec.Struct, frozen=True):
    """Caller without an attempt's token; ``name`` is ``admin`` or a created token's id (``k3``)."""

    name: str = ADMIN_NAME
    scope: RouteScope = "admin"
    agents: frozenset[str] | None = None
    """Agents whose approvals the holder may decide; None: all agents."""

    @property
    def number(self) -> int | None:
        """Return the number of a created token (3 for ``k3``); None for the kernel's own tokens."""
        return number_of(self.name, "k")

    def opens(self, needed: RouteScope) -> bool:
        """Return whether the token includes the scope ``needed``."""
        return _STEP[self.scope] >= _STEP[needed]

    def decides_for(self, agent: str) -> bool:
        """Return whether the holder may approve and deny calls of ``agent`` (by name)."""
        return self.opens("approve") and (self.agents is None or agent in self.agents)


ADMIN: Final = Access()
RECORD: Final = Access("record", "operate")
"""Access of the token in the discovery record, which programs on this machine use; limited like a created token."""
STRANGER: Final = Access("stranger", "read")
"""Access without a token: opens only routes that need none (kernel.operations.operation)."""


NO_TOKEN: Final = ""
"""Holder of all connections that have not yet carried a valid token."""
NODE: Final = "node "
"""Prefix of the holder of unauthenticated connections through a node, followed by the node's name."""
KEPT_BACK: Final = 64
"""Descriptors that are always reserved for the database, logs and files."""
STRANGERS_LIMIT: Final = 256
EACH_ATTEMPT_LIMIT: Final = 160
ALL_LIMIT: Final = 8192


class Shares(NamedTuple):
    """Limits of open connections: without a token, of each attempt, and of all together."""

    strangers: int
    each_attempt: int
    all: int


def shares(descriptors: int) -> Shares:
    """Return the connection limits for ``descriptors`` file descriptors; half are for workers."""
    free = max(descriptors - KEPT_BACK, 4)
    return Shares(
        strangers=min(STRANGERS_LIMIT, free // 4),
        each_attempt=min(EACH_ATTEMPT_LIMIT, free // 4),
        all=min(ALL_LIMIT, free // 2),
    )


def holder_over_limit(counts: Mapping[str, int], limits: Shares, owner: str) -> str | None:
    """Return the holder whose oldest connection has to be closed; None: no limit is exceeded.

    ``counts``: connections by token holder, or NO_TOKEN. ``owner`` has only the limit ``all``.
    """
    if counts.get(NO_TOKEN, 0) > limits.strangers:
        return NO_TOKEN
    for holder, count in counts.items():
        if count > limits.each_attempt and holder not in {NO_TOKEN, owner}:
            return holder
    if sum(counts.values()) > limits.all:
        return max(counts, key=lambda holder: counts[holder])
    return None
