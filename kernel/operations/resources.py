"""Resources: long texts of spaces, kept once and read by the piece, by people of all spaces and by agents of theirs."""

from typing import Annotated

import apsw
import msgspec

from kernel.operations.operation import Actor, Backward, BackwardInSpace, InSpace, Space, ToolFront, operation
from kernel.store import resources
from kernel.store.transaction import Transaction
from protocol.api.document import Ask
from protocol.api.messages import MediaType, ResourceInfo, ResourceList, ResourceText
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.names import SpaceId

READ_CHARACTERS = 32_000
MOST_CHARACTERS = 100_000
"""In one answer to an agent: what a model is shown of a result has an end (worker.conversation)."""


class ResourceRequest(InSpace, frozen=True, kw_only=True):
    """A text to keep."""

    content: Annotated[str, msgspec.Meta(description="The text.")]
    type: Annotated[MediaType, msgspec.Meta(description="Its media type, such as text/x-diff.")] = "text/plain"


class ResourceReadRequest(Ask, frozen=True, kw_only=True):
    """A part of a resource."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=100, description="The ID of a reference resource:ID.")]
    offset: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="From this character on.")] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, description="Maximum number of characters.")] | None = None


class ResourceInSpaceRequest(ResourceReadRequest, frozen=True, kw_only=True):
    """A part of a resource of a space."""

    space: Space


class ResourceCreateResult(msgspec.Struct, frozen=True, kw_only=True):
    """It is kept. Whoever is given ``reference`` in your workspace can read it."""

    id: str
    reference: str
    characters: int


class ResourceReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """A part of it, of ``characters`` in all. ``next`` goes into ``offset``; null: that is the end."""

    id: str
    type: str
    content: str
    offset: int
    characters: int
    next: int | None


def list_all(conn: apsw.Connection, asked: Backward) -> ResourceList:
    """List the resources of all spaces, the newest first."""
    return resources.newest(conn, None, asked.limit, asked.before)


def list_in_space(conn: apsw.Connection, asked: BackwardInSpace) -> ResourceList:
    """List the resources of the workflow that runs there, or ran there last."""
    return resources.newest(conn, asked.space, asked.limit, asked.before)


def create(tx: Transaction, asked: ResourceRequest, actor: Actor) -> ResourceInfo | ResourceCreateResult:
    """Keep a long text for your workspace, and get a short reference that you can put into messages."""
    kept = resources.create(tx, asked.space, asked.content, asked.type, author=actor.author)
    if actor.identity is None:
        return kept
    return ResourceCreateResult(id=kept.id, reference=f"{resources.PREFIX}{kept.id}", characters=kept.characters)


def show(conn: apsw.Connection, asked: ResourceReadRequest) -> ResourceText:
    """Return the text of a resource of any space, or a part of it by characters."""
    return _read(conn, asked, None)


def show_in_space(
    conn: apsw.Connection, asked: ResourceInSpaceRequest, actor: Actor
) -> ResourceText | ResourceReadResult:
    """Read a text that a message refers to as resource:ID. Unless next is null there is more."""
    if actor.identity is None:
        return _read(conn, asked, asked.space)
    found = resources.read(conn, asked.id, asked.space, asked.offset, asked.limit)
    if found is None:
        raise Refused("not_found", f"there is no resource {asked.id[:60]!r} here", "its id is in the message it is of")
    return ResourceReadResult(**{name: getattr(found, name) for name in ResourceReadResult.__struct_fields__})


def _read(conn: apsw.Connection, asked: ResourceReadRequest, space: SpaceId | None) -> ResourceText:
    found = resources.read(conn, asked.id, space, asked.offset, asked.limit)
    if found is None:
        text = f"there is no resource {asked.id[:60]!r}"
        raise Refused("not_found", text, "awk resource list shows what there is")
    return found


RESOURCES = "/spaces/<space>/resources"
_READ = ToolFront("resource_read", limits=(READ_CHARACTERS, MOST_CHARACTERS), in_space=True)
OPERATIONS = (
    operation(list_all, "GET /resources"),
    operation(show, "GET /resources/<id>"),
    operation(list_in_space, f"GET {RESOURCES}"),
    operation(create, f"POST {RESOURCES}", status=201, team=ToolFront("resource_create", needs=("content",))),
    operation(show_in_space, f"GET {RESOURCES}/<id>", team=_READ),
)
