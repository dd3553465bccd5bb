"""Spaces below that of a run as the API and Daemon MCP show them."""

from typing import Literal

import msgspec

from protocol.api.document import Body, Document

SpaceState = Literal["open", "closed"]


class SpaceRow(Body, frozen=True, kw_only=True):
    """One space that an agent opened in a run. ``space`` is what people call it: ``review:main~design``."""

    name: str
    space: str
    run: str
    opener: str
    instruction: str
    """The work that it was opened in."""
    state: SpaceState
    members: tuple[str, ...]
    """Of one that is closed, those that it had then."""
    opened_at: str
    closed_at: str | None


class SpaceDocument(SpaceRow, frozen=True, kw_only=True):
    """One space by itself."""

    schema: str = "awk/space/1"


class SpaceList(Document, frozen=True, kw_only=True):
    """``awk space list``: those of one run, or of all that run, in the order in which they were opened."""

    spaces: tuple[SpaceRow, ...]
    total: int
    schema: str = "awk/spaces/1"


class SpaceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A space as its opener is told. ``message_id``: the message that changed it, in its own channel."""

    space: str
    name: str
    members: tuple[str, ...]
    message_id: str | None
