"""Resources: long texts of a space, stored once and read in parts."""

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
"""Maximum size of an answer to an agent, because tool results shown to models are limited (worker.conversation)."""


class ResourceRequest(InSpace, frozen=True, kw_only=True):
    """Text to store as a resource."""

    content: Annotated[str, msgspec.Meta(description="The text.")]
    type: Annotated[MediaType, msgspec.Meta(description="Media type of the text, such as text/x-diff.")] = "text/plain"


class ResourceReadRequest(Ask, frozen=True, kw_only=True):
    """Part of a resource."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=100, description="The ID of a reference resource:ID.")]
    offset: Annotated[int, msgspec.Meta(ge=0, le=LARGEST, description="Start at this character.")] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, description="Maximum number of characters.")] | None = None


class ResourceInSpaceRequest(ResourceReadRequest, frozen=True, kw_only=True):
    """Part of a resource of a space."""

    space: Space


class ResourceCreateResult(msgspec.Struct, frozen=True, kw_only=True):
    """Stored text. Members of your workspace can read it by its ``reference``."""

    id: str
    reference: str
    characters: int


class ResourceReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a resource with ``characters`` in total. Pass ``next`` as ``offset``. Null: the text ends here."""

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
    """List the resources of a workflow's current or latest run."""
    return resources.newest(conn, asked.space, asked.limit, asked.before)


def create(tx: Transaction, asked: ResourceRequest, actor: Actor) -> ResourceInfo | ResourceCreateResult:
    """Store a long text for your workspace. Use it for logs, diffs or files that are too long for a message. Returns a
    short reference, resource:ID, to put into messages."""
    kept = resources.create(tx, asked.space, asked.content, asked.type, author=actor.author)
    if actor.identity is None:
        return kept
    return ResourceCreateResult(id=kept.id, reference=f"{resources.PREFIX}{kept.id}", characters=kept.characters)


def show(conn: apsw.Connection, asked: ResourceReadRequest) -> ResourceText:
    """Return a resource of any space, or a part of its text by characters."""
    return _read(conn, asked, None)


def show_in_space(
    conn: apsw.Connection, asked: ResourceInSpaceRequest, actor: Actor
) -> ResourceText | ResourceReadResult:
    """Read a text that a message refers to as resource:ID. More text exists unless next is null. Fails if the resource
    belongs to another workspace."""
    if actor.identity is None:
        return _read(conn, asked, asked.space)
    found = resources.read(conn, asked.id, asked.space, asked.offset, asked.limit)
    if found is None:
        raise Refused(
            "not_found",
            f"resource {asked.id[:60]!r} not found in this workspace",
            "use the id in the message that refers to it",
        )
    return ResourceReadResult(**{name: getattr(found, name) for name in ResourceReadResult.__struct_fields__})


def _read(conn: apsw.Connection, asked: ResourceReadRequest, space: SpaceId | None) -> ResourceText:
    found = resources.read(conn, asked.id, space, asked.offset, asked.limit)
    if found is None:
        text = f"resource {asked.id[:60]!r} not found"
        raise Refused("not_found", text, "list the resources with `awk resource list`")
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
