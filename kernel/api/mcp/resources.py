"""Tools for long texts: kept once for the space of the caller, read by the piece by whoever works there."""

from typing import Annotated, Final

import msgspec

from kernel.api.mcp.spaces import InSpace, space_named
from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import StoreAccess
from kernel.store import resources
from protocol.api.messages import MediaType
from protocol.errors import Refused
from protocol.instruction import LARGEST

READ_CHARACTERS: Final = 32_000
MOST_CHARACTERS: Final = 100_000
"""In one answer: what a model is shown of a result has an end (worker.entry_limits)."""


class ResourceCreateArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of resource_create."""

    content: Annotated[str, msgspec.Meta(min_length=1, description="The text.")]
    type: Annotated[MediaType, msgspec.Meta(description="Its media type, such as text/x-diff.")] = "text/plain"


class ResourceCreateResult(msgspec.Struct, frozen=True, kw_only=True):
    """It is kept. Whoever is given ``reference`` in your workspace can read it."""

    id: str
    reference: str
    characters: int


class ResourceReadArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of resource_read."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=100, description="What stands behind resource:")]
    offset: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="From this character on.")] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_CHARACTERS, description="At most so many characters.")] = (
        READ_CHARACTERS
    )
    space: InSpace | None = None


class ResourceReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """A part of it, of ``characters`` in all. ``next`` goes into ``offset``; null: that is the end."""

    id: str
    type: str
    content: str
    offset: int
    characters: int
    next: int | None


async def resource_create(caller: Caller, asked: ResourceCreateArguments, store: StoreAccess) -> ResourceCreateResult:
    """Keep a text for the caller's space. A repeated call is answered alike."""
    kept = await store.writer.commit(
        resources.create, caller.identity.space, asked.content, asked.type, author=caller.author
    )
    return ResourceCreateResult(id=kept.id, reference=f"{resources.PREFIX}{kept.id}", characters=kept.characters)


async def resource_read(caller: Caller, asked: ResourceReadArguments, store: StoreAccess) -> ResourceReadResult:
    """A part of a text of the caller's space: another space's is as if it were not there."""
    space = space_named(caller, asked.space, store)
    found = await store.reader.read(resources.read, asked.id, space, asked.offset, asked.limit)
    if found is None:
        raise Refused("not_found", f"there is no resource {asked.id[:60]!r} here", "its id is in the message it is of")
    return ResourceReadResult(
        id=found.id,
        type=found.type,
        content=found.content,
        offset=found.offset,
        characters=found.characters,
        next=found.next,
    )
