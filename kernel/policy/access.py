"""Access: what the token of a request opens. Decided before anything of the request is looked at but its route.

The scopes are steps, each opens what those before it do. ``read``: look. ``operate``: give work and steer it.
``approve``: decide what waits for a person's yes or no, perhaps of some agents only. ``admin``: what changes what may
run here, or erases; no token that is made opens that, only the administrator's.
"""

from collections.abc import Mapping
from typing import Final

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
