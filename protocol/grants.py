"""Grants as the API and Daemon MCP show them, and what is asked to make one."""

from typing import Annotated, Final, Literal

import msgspec

from protocol.agent import Scope
from protocol.api.document import Body, Page

GrantState = Literal["in force", "used", "expired", "revoked", "void"]
"""``used``: as often as it may be. ``void``: something that it derives from counts no more, or its run has ended."""
LONGEST_TEXT: Final = 64
MOST_USES: Final = 1_000_000

Until = Annotated[
    str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT, description="A duration (2h) or a time (RFC 3339).")
]
Uses = Annotated[int, msgspec.Meta(ge=1, le=MOST_USES, description="How many calls it is for; unset: any number.")]


class GrantRow(Body, frozen=True, kw_only=True):
    """One grant: who may use which scope, by whose leave, and what it comes to now."""

    id: str
    scope: Scope | None
    """None: it answered ``request``."""
    request: str | None
    to: str
    space: str
    by: str
    state: GrantState
    uses: int | None
    used: int
    """Times, those of what was handed on from it included."""
    until: str | None
    given_at: str
    parent: str | None
    """The grant that its giver has the same by."""
    warrant: str | None
    """The grant by which its giver may give anything."""
    revoked_at: str | None
    revoked_by: str | None


class GrantInfo(GrantRow, frozen=True, kw_only=True):
    """One grant by itself."""

    schema: str = "awk/grant/1"


class GrantList(Page, frozen=True, kw_only=True):
    """``awk grant list``, in the order in which they were given. ``next`` goes into ``after``."""

    grants: tuple[GrantRow, ...]
    schema: str = "awk/grants/1"
