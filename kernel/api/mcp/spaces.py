"""Tools to open a space below that of the run, and to say who is in it; and how a call names such a space.

A call is made in the space of the caller's work. Where a tool takes ``space``, its name there stands for another space
of the same run that the caller is in: whether it is, the commit looks at.
"""

from typing import Annotated, Final

import msgspec

from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import StoreAccess
from kernel.policy.spaces import MOST_MEMBERS, Change
from kernel.store import spaces
from kernel.store.transitions import spaces as transitions
from kernel.store.transitions.spaces import Opened, missing
from protocol.errors import Refused
from protocol.names import NameRejected, SpaceId, base_space, check_name
from protocol.spaces import SpaceInfo

LONGEST_NAME: Final = 64

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Names = Annotated[list[Name], msgspec.Meta(max_length=MOST_MEMBERS)]
InSpace = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=LONGEST_NAME, description="A space that you are in; unset: where you work."),
]


class SpaceCreateArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of space_create."""

    name: Annotated[Name, msgspec.Meta(description="What it is called: lower-case letters, digits, - and _.")]
    members: Annotated[Names, msgspec.Meta(description="Who is in it beside you: members of your workspace.")]


class SpaceMembersArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of space_members. Without a change they ask who is in it."""

    name: Annotated[Name, msgspec.Meta(description="The space.")]
    add: Annotated[Names, msgspec.Meta(description="Who joins; they can read all that was said there.")] = []
    remove: Annotated[Names, msgspec.Meta(description="Who leaves; their work there is cancelled.")] = []


async def space_create(caller: Caller, asked: SpaceCreateArguments, store: StoreAccess) -> SpaceInfo:
    """Open a space. Raises Refused (bad_request, forbidden, not_a_participant, conflict)."""
    try:
        name = check_name(asked.name)
    except NameRejected as error:
        raise Refused("bad_request", str(error)) from error
    wanted = Opened(name, _called(asked.members))
    space, author, key = caller.identity.space, caller.author, caller.call_key
    return await store.writer.commit(transitions.open_space, space, wanted, author=author, call_key=key)


async def space_members(caller: Caller, asked: SpaceMembersArguments, store: StoreAccess) -> SpaceInfo:
    """Let others in, and have them leave. Raises Refused (not_found, forbidden, not_a_participant, conflict)."""
    change = Change(_called(asked.add), _called(asked.remove))
    space, author, key = caller.identity.space, caller.author, caller.call_key
    return await store.writer.commit(transitions.change_members, space, asked.name, change, author=author, call_key=key)


def space_named(caller: Caller, name: str | None, store: StoreAccess) -> SpaceId:
    """The space that a call is made in: ``name``, which is below that of the caller's run, or where it works.

    Raises Refused (not_found): it is not there, or the caller is not in it.
    """
    identity = caller.identity
    if name is None:
        return identity.space
    row = store.reader.now(spaces.find_open, base_space(identity.space), name)
    if row is None or not store.reader.now(spaces.is_in, row.space, identity.agent):
        raise missing(name)
    return row.space


def _called(names: list[str]) -> tuple[str, ...]:
    return tuple(name.removeprefix("@").lower() for name in names)
