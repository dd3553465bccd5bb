"""Tools for an agent's own soul: what it is now, and what it observed of itself that belongs into it."""

from typing import Annotated, Any

import msgspec

from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import MemoryAccess
from kernel.policy.soul import OBSERVATION_CHARACTERS, VALUE_CHARACTERS
from protocol.api.souls import SoulProposal
from protocol.guard import SoulEvolution


class SoulReflectArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of soul_reflect."""


class SoulReflectResult(msgspec.Struct, frozen=True, kw_only=True):
    """Your traits, and what you have suggested of them that nobody decided yet."""

    agent: str
    soul: dict[str, Any]
    version: int
    evolution: SoulEvolution
    open: tuple[SoulProposal, ...]


class SoulSuggestArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of soul_suggest."""

    observation: Annotated[
        str, msgspec.Meta(max_length=OBSERVATION_CHARACTERS, description="What you have seen of how you work.")
    ]
    trait: Annotated[
        str, msgspec.Meta(max_length=32, description="What it belongs to: role, expertise, style, principles, ...")
    ] = "principles"
    value: Annotated[
        str, msgspec.Meta(max_length=VALUE_CHARACTERS, description="In the words of the soul; unset: as observed.")
    ] = ""


async def soul_reflect(caller: Caller, asked: SoulReflectArguments, memory: MemoryAccess) -> SoulReflectResult:
    """The caller's soul."""
    del asked  # it says nothing
    found = await memory.souls.report(caller.identity.agent, caller.identity.space)
    return SoulReflectResult(
        agent=found.agent,
        soul=found.soul,
        version=found.version,
        evolution=found.evolution,
        open=tuple(one for one in found.proposals if one.state == "open"),
    )


async def soul_suggest(caller: Caller, asked: SoulSuggestArguments, memory: MemoryAccess) -> SoulProposal:
    """Suggest a change of the caller's own soul."""
    return await memory.souls.suggest(caller.identity, caller.author, asked.trait, asked.value, asked.observation)
