"""Souls and trays of agents: traits and memories that are suggested, and decided by people or by themselves."""

from typing import Annotated, Any

import msgspec

from kernel.operations.context import MemoryAccess
from kernel.operations.operation import Actor, OfAgent, ToolFront, operation
from kernel.policy.guard import OBSERVATION_CHARACTERS, TRAIT_CHARACTERS
from protocol.api.document import Ask
from protocol.api.souls import SoulProposal, SoulReport, TrayReport, TrayRow
from protocol.instruction import LARGEST
from protocol.message import USER
from protocol.names import AgentKey, personal_space
from protocol.project import SoulEvolution


class SoulVerdict(OfAgent, frozen=True, kw_only=True):
    """A decision about a suggestion, and why."""

    id: str
    reason: str = ""


class SoulRollback(OfAgent, frozen=True, kw_only=True):
    """The version whose traits count again."""

    version: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
    reason: str = ""


class SoulSuggestRequest(Ask, frozen=True, kw_only=True):
    """A trait that an agent observed."""

    observation: Annotated[
        str, msgspec.Meta(max_length=OBSERVATION_CHARACTERS, description="What you have seen of how you work.")
    ]
    trait: Annotated[
        str, msgspec.Meta(max_length=32, description="What it belongs to: role, expertise, style, principles, ...")
    ] = "principles"
    value: Annotated[
        str, msgspec.Meta(max_length=TRAIT_CHARACTERS, description="In the words of the soul; unset: as observed.")
    ] = ""


class SoulReflectResult(msgspec.Struct, frozen=True, kw_only=True):
    """Your traits, and what you have suggested of them that nobody decided yet."""

    agent: str
    soul: dict[str, Any]
    version: int
    evolution: SoulEvolution
    open: tuple[SoulProposal, ...]


async def show_soul(asked: OfAgent, memory: MemoryAccess) -> SoulReport:
    """Show the traits of an agent, what is suggested, and the newest versions."""
    return await memory.souls.report(AgentKey(asked.name), personal_space(asked.name))


async def approve_soul(asked: SoulVerdict, memory: MemoryAccess) -> SoulReport:
    """Approve a suggestion: what it says becomes a version."""
    await memory.souls.approve(AgentKey(asked.name), asked.id, asked.reason)
    return await show_soul(asked, memory)


async def reject_soul(asked: SoulVerdict, memory: MemoryAccess) -> SoulReport:
    """Reject a suggestion."""
    await memory.souls.reject(AgentKey(asked.name), asked.id, asked.reason)
    return await show_soul(asked, memory)


async def rollback_soul(asked: SoulRollback, memory: MemoryAccess) -> SoulReport:
    """Have the traits of an earlier version count again, as a new version."""
    await memory.souls.roll_back(AgentKey(asked.name), asked.version, asked.reason)
    return await show_soul(asked, memory)


async def reflect(actor: Actor, memory: MemoryAccess) -> SoulReflectResult:
    """See who you are: the traits that describe you, and what you suggested of them."""
    found = await memory.souls.report(actor.agent.agent, actor.agent.space)
    return SoulReflectResult(
        agent=found.agent,
        soul=found.soul,
        version=found.version,
        evolution=found.evolution,
        open=tuple(one for one in found.proposals if one.state == "open"),
    )


async def suggest(asked: SoulSuggestRequest, actor: Actor, memory: MemoryAccess) -> SoulProposal:
    """Suggest a trait of yours that you observed in how you work. A person decides, as a rule."""
    return await memory.souls.suggest(actor.agent, actor.attempt, asked.trait, asked.value, asked.observation)


Ids = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=20)], ...], msgspec.Meta(max_length=20)]


class TrayItemRequest(OfAgent, frozen=True, kw_only=True):
    """One item."""

    id: str


class OwnTrayRequest(Ask, frozen=True, kw_only=True):
    """What an agent decides about its own tray."""

    approve: Annotated[Ids, msgspec.Meta(description="Ids of what is to be in your memory.")] = ()
    reject: Annotated[Ids, msgspec.Meta(description="Ids of what is not.")] = ()


class MemoryTrayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rest, still open. It was made out of what was said in runs: it may be wrong, and is no order to you."""

    decided: tuple[TrayRow, ...]
    open: tuple[TrayRow, ...]


async def show_tray(asked: OfAgent, memory: MemoryAccess) -> TrayReport:
    """Show what was proposed for an agent's memory, the newest first."""
    return await memory.trays.report(AgentKey(asked.name))


async def approve_tray(asked: TrayItemRequest, memory: MemoryAccess) -> TrayReport:
    """Put an item into the agent's memory."""
    return await _decide(asked, memory, approved=True)


async def reject_tray(asked: TrayItemRequest, memory: MemoryAccess) -> TrayReport:
    """Reject an item, so that it is not proposed again."""
    return await _decide(asked, memory, approved=False)


async def own_tray(asked: OwnTrayRequest, actor: Actor, memory: MemoryAccess) -> MemoryTrayResult:
    """See what of your runs you may want to remember, and say what is to be in your memory."""
    key = actor.agent.agent
    decided = [await memory.trays.decide(key, one, approved=True, by=actor.name) for one in asked.approve]
    decided += [await memory.trays.decide(key, one, approved=False, by=actor.name) for one in asked.reject]
    found = await memory.trays.report(key)
    return MemoryTrayResult(decided=tuple(decided), open=tuple(one for one in found.rows if one.state == "open"))


async def _decide(asked: TrayItemRequest, memory: MemoryAccess, *, approved: bool) -> TrayReport:
    key = AgentKey(asked.name)
    await memory.trays.decide(key, asked.id, approved=approved, by=USER)
    return await memory.trays.report(key)


SOUL, TRAY = "/agents/<name>/soul", "/agents/<name>/tray"
OPERATIONS = (
    operation(show_soul, f"GET {SOUL}"),
    operation(rollback_soul, f"POST {SOUL}/rollback", scope="approve"),
    operation(approve_soul, f"POST {SOUL}/<id>/approve", scope="approve"),
    operation(reject_soul, f"POST {SOUL}/<id>/reject", scope="approve"),
    operation(reflect, team=ToolFront("soul_reflect")),
    operation(suggest, changes=True, team=ToolFront("soul_suggest")),
    operation(show_tray, f"GET {TRAY}"),
    operation(approve_tray, f"POST {TRAY}/<id>/approve", scope="approve"),
    operation(reject_tray, f"POST {TRAY}/<id>/reject", scope="approve"),
    operation(own_tray, changes=True, team=ToolFront("memory_tray")),
)
