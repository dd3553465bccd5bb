"""Assigning work to agents: by a mention, by a question, by the word to continue; and the refusals around it. Pure.

A limit of the workflow makes work wait. An agent may ask another within its workspace, and never in a circle: no circle
of waits could lock anybody up, because an agent that waits does other work meanwhile, but a question that comes back to
who waits for its answer would only be asked again.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kernel.rule.draft import Draft, Fact
from kernel.rule.effects import (
    Append,
    Assign,
    Effect,
    InboxDelivery,
    LimitedBy,
    LimitRun,
    RuleView,
    RunningWorkspace,
    WriteRow,
)
from protocol.errors import Refused
from protocol.instruction import Lane, WaitReason
from protocol.message import SYSTEM, USER
from protocol.names import DEFAULT_TAG, AgentKey, AgentName, is_below, place_of, split_space

_ASKS: Final = re.compile(r"\s*continue\b", re.IGNORECASE)


def continues(fact: Fact, agent: AgentKey, view: RuleView) -> int | None:
    """The instruction of ``agent`` whose thread the message takes up; None where it is a message like any other."""
    if fact.draft.kind != "said" or fact.draft.sender != USER or _ASKS.match(fact.draft.text) is None:
        return None
    return view.incomplete(fact.draft.space, agent)


def check_recipient(space: str) -> Refused:
    """Return the refusal of a question in a personal space."""
    text = f"there is nobody to ask in {space}: it is between {split_space(space)[1]} and the user"
    return Refused("not_a_participant", text, "agents ask each other in a workspace; ask the user in your final answer")


def check_question(fact: Fact, asked: Iterable[AgentKey], view: RuleView) -> None:
    """Raise Refused (conflict) where the speaker of ``fact`` may not ask ``asked``, members of its workspace."""
    waiting = view.askers(fact.cause) if fact.cause is not None else ()
    for key in asked:
        if key == fact.speaker:
            raise Refused("conflict", f"{fact.draft.sender} cannot ask itself", "think it over, or ask a colleague")
        if key in waiting:
            name = fact.draft.to[0]
            text = f"{name} waits for {fact.draft.sender} already, so {fact.draft.sender} cannot wait for {name}"
            raise Refused("conflict", text, "answer with what you know, and say in your final answer what is missing")


def channel_of(view: RuleView, space: str) -> RunningWorkspace:
    """Return the running workflow of ``space``, whose agents hear each other. Raises Refused."""
    workspace = view.workspace(space)
    if workspace is None:
        raise not_running(space)
    if not workspace.has_channel:
        raise no_channel(space)
    return workspace


def not_running(space: str) -> Refused:
    """Return the refusal where the workflow does not run or, of a space below that of a run, it is closed."""
    if is_below(space):
        hint = "say it in the space of the run, or open another"
        return Refused("workflow_not_running", f"the space {place_of(space)} is closed", hint)
    name, tag = split_space(space)
    option = "" if tag == DEFAULT_TAG else f" --tag {tag}"
    return Refused(
        "workflow_not_running", f"workflow {place_of(space)} is not running", f"start it: awk start {name}{option}"
    )


def no_channel(space: str) -> Refused:
    """Return the refusal where agents do not hear each other."""
    hint = "do your part alone: your final answer goes to the user"
    return Refused("not_a_participant", f"{place_of(space)} has no channel: its agents do not hear each other", hint)


def assign(
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
    return (Assign(agent, called, lane, hops, joins, waits_for, continues, asked_by), InboxDelivery(agent, called))


def assign_mentioned(
    fact: Fact, workspace: RunningWorkspace, whom: Iterable[tuple[AgentKey, str]]
) -> tuple[Effect, ...]:
    """Wake every one of these as a mention does. Where a limit of the workflow holds their work is kept, and waits."""
    called = tuple(whom)
    limit = limit_reached(fact, workspace, len(called))
    waits_for = None if limit is None else limit.waits_for
    woken = (
        effect
        for key, name in called
        for effect in assign(key, name, "immediate", fact.hops, joins=True, waits_for=waits_for)
    )
    return (*woken, *(limited(fact.draft.space, workspace, limit) if called and limit is not None else ()))


class Limit(msgspec.Struct, frozen=True):
    """A limit that holds: which, what the work it holds back waits for, and how it is told.

    To wait for ``hops`` is to wait for any limit but money: somebody has to continue the workflow.
    """

    by: LimitedBy
    waits_for: WaitReason
    text: str


_SPENT: Mapping[str, Limit] = {
    "budget": Limit("budget", "budget", "the budget"),
    "wall_time": Limit("wall_time", "hops", "the wall time"),
}
"""Limits that hold whatever is said, until somebody continues the workflow."""


def limit_reached(fact: Fact, workspace: RunningWorkspace, more: int) -> Limit | None:
    """The limit that keeps ``more`` from being woken by ``fact``."""
    if (spent := _SPENT.get(workspace.limited_by or "")) is not None:
        return spent
    if fact.hops > workspace.hops_limit:
        return Limit("hops", "hops", f"the hop limit of {workspace.hops_limit}")
    if workspace.assigned + more > workspace.instructions_limit:
        return Limit("instructions", "hops", f"the limit of {workspace.instructions_limit} instructions")
    return None


def limited(space: str, workspace: RunningWorkspace, limit: Limit) -> tuple[Effect, ...]:
    """Told once in a run: a notice for every message would be a flood of its own."""
    if workspace.limited:
        return ()
    until = f" until somebody continues it (awk continue @{workspace.name}:{workspace.tag})"
    text = f"{limit.text} is reached: nobody is woken{until if workspace.mode == 'start' else ''}"
    return (
        WriteRow(LimitRun(space=space, by=limit.by)),
        Append(Draft(kind="system", space=space, sender=SYSTEM, text=text)),
    )
