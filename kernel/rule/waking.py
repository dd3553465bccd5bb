"""Waking an agent with a message, and what a limit of its workflow makes of that: the work waits. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kernel.rule.draft import Draft
from kernel.rule.effects import Append, Assign, Deliver, Effect, LimitedBy, Put, RunLimited
from kernel.rule.fact import Fact
from kernel.rule.view import Workspace
from protocol.instruction import Lane, WaitReason
from protocol.message import SYSTEM
from protocol.names import AgentKey, AgentName


def wake(
    agent: AgentKey,
    name: str,
    lane: Lane,
    hops: int,
    *,
    joins: bool = False,
    waits_for: WaitReason | None = None,
    continues: int | None = None,
    asked_by: int | None = None,
) -> tuple[Effect, ...]:
    """Give the agent the message as work. What the rest means, kernel.rule.effects says."""
    called = AgentName(name)
    return (Assign(agent, called, lane, hops, joins, waits_for, continues, asked_by), Deliver(agent, called))


def call_upon(fact: Fact, workspace: Workspace, whom: Iterable[tuple[AgentKey, str]]) -> tuple[Effect, ...]:
    """Wake every one of these as a mention does. Where a limit of the workflow holds their work is kept, and waits."""
    called = tuple(whom)
    limit = limit_reached(fact, workspace, len(called))
    waits_for = None if limit is None else limit.waits_for
    woken = (
        effect
        for key, name in called
        for effect in wake(key, name, "immediate", fact.hops, joins=True, waits_for=waits_for)
    )
    return (*woken, *(limited(fact.space, workspace, limit) if called and limit is not None else ()))


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that holds: which, what the work it holds back waits for, and how it is told.

    To wait for ``hops`` is to wait for any limit but money: somebody has to continue the workflow.
    """

    by: LimitedBy
    waits_for: WaitReason
    text: str


_SPENT: Final[Mapping[str, Limit]] = MappingProxyType(
    {
        "budget": Limit("budget", "budget", "the budget"),
        "wall_time": Limit("wall_time", "hops", "the wall time"),
    }
)
"""Limits that hold whatever is said, until somebody continues the workflow."""


def limit_reached(fact: Fact, workspace: Workspace, more: int) -> Limit | None:
    """The limit that keeps ``more`` from being woken by ``fact``."""
    if (spent := _SPENT.get(workspace.limited_by or "")) is not None:
        return spent
    if fact.hops > workspace.hops_limit:
        return Limit("hops", "hops", f"the hop limit of {workspace.hops_limit}")
    if workspace.assigned + more > workspace.instructions_limit:
        return Limit("instructions", "hops", f"the limit of {workspace.instructions_limit} instructions")
    return None


def limited(space: str, workspace: Workspace, limit: Limit) -> tuple[Effect, ...]:
    """Told once in a run: a notice for every message would be a flood of its own."""
    if workspace.limited:
        return ()
    until = f" until somebody continues it (awk continue @{workspace.name}:{workspace.tag})"
    text = f"{limit.text} is reached: nobody is woken{until if workspace.mode == 'start' else ''}"
    return (
        Put(RunLimited(space=space, by=limit.by)),
        Append(Draft(kind="system", space=space, sender=SYSTEM, text=text)),
    )
