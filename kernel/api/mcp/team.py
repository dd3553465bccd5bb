"""Who works in the space."""

import msgspec

from kernel.api.context import Services
from kernel.api.mcp.tool import Ask, Caller
from kernel.store import agents
from protocol.names import place_of


class Members(Ask, frozen=True, kw_only=True):
    """Arguments of team_members."""

    include_status: bool = False


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One colleague. ``state`` is there when it was asked for."""

    name: str
    state: str | None = None


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a space, by name."""

    space: str
    members: tuple[Member, ...]


async def members(services: Services, caller: Caller, asked: Members) -> Team:
    """The colleagues in the caller's space, the caller among them."""
    space = caller.identity.space
    rows = services.reader.now(agents.members, space)
    found = tuple(Member(name=row.name, state=row.state if asked.include_status else None) for row in rows)
    return Team(space=place_of(space), members=found)
