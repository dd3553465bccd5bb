"""Assigns work to agents by mentions, questions and ``continue``, and refuses invalid requests. Pure.

A limit of the workflow makes work wait. An agent may ask another one in its workspace, but not in a cycle. A cycle
would not deadlock, because waiting agents do other work meanwhile, but it would only repeat the question.
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
from protocol.names import DEFAULT_TAG, GLOBAL, AgentKey, AgentName, is_below, place_of, split_space

_ASKS: Final = re.compile(r"\s*continue\b", re.IGNORECASE)


def continues(fact: Fact, agent: AgentKey, view: RuleView) -> int | None:
    """Return the number of the instruction of ``agent`` that the message continues, or None."""
    if fact.draft.kind != "said" or fact.draft.sender != USER or _ASKS.match(fact.draft.text) is None:
        return None
    return view.incomplete(fact.draft.space, agent)


def check_recipient(space: str) -> Refused:
    """Return the refusal of a question in a personal space."""
    text = f"space {space} has no other agents: it is between {split_space(space)[1]} and the user"
    return Refused("not_a_participant", text, "agents ask each other in a workspace; ask the user in your final answer")


def check_question(fact: Fact, asked: Iterable[AgentKey], view: RuleView) -> None:
    """Raise Refused (conflict) if the sender of ``fact`` may not ask ``asked``, members of its workspace."""
    waiting = view.askers(fact.cause) if fact.cause is not None else ()
    for key in asked:
        if key == fact.speaker:
            raise Refused("conflict", f"agent {fact.draft.sender!r} cannot ask itself", "ask a colleague")
        if key in waiting:
            name = fact.draft.to[0]
            text = (
                f"agent {fact.draft.sender!r} cannot wait for {name!r}, which already waits for {fact.draft.sender!r}"
            )
            raise Refused(
                "conflict", text, "answer with what you know, and name the missing information in your final answer"
            )


def channel_of(view: RuleView, space: str) -> RunningWorkspace:
    """Return the running workflow of ``space``, whose agents share a channel. Raises Refused."""
    workspace = view.workspace(space)
    if workspace is None:
        raise not_running(space)
    if not workspace.has_channel:
        raise no_channel(space)
    return workspace


def not_running(space: str) -> Refused:
    """Return the refusal for a workflow that is not running, or for a closed subspace of a run."""
    if is_below(space):
        hint = "use the space of the run, or open another one"
        return Refused("workflow_not_running", f"space {place_of(space)} is closed", hint)
    name, tag = split_space(space)
    if name == GLOBAL:
        return Refused("workflow_not_running", f"space {GLOBAL} is not open", f"send a message to @{GLOBAL}")
    option = "" if tag == DEFAULT_TAG else f" --tag {tag}"
    return Refused(
        "workflow_not_running", f"workflow {place_of(space)} is not running", f"start it: awk start {name}{option}"
    )


def no_channel(space: str) -> Refused:
    """Return the refusal for a workflow without a channel."""
    hint = "work alone: your final answer goes to the user"
    return Refused(
        "not_a_participant", f"workflow {place_of(space)} has no channel: its agents cannot communicate", hint
    )


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
    """Return the effects that deliver the message to the agent's inbox and assign it; options
    are fields of ``Assign``."""
    called = AgentName(name)
    return (Assign(agent, called, lane, hops, joins, waits_for, continues, asked_by), InboxDelivery(agent, called))


def assign_mentioned(
    fact: Fact, workspace: RunningWorkspace, whom: Iterable[tuple[AgentKey, str]]
) -> tuple[Effect, ...]:
    """Return the effects that wake the agents ``whom``, as mentions do. At a limit of the
    workflow, their work waits."""
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
    """Reached limit: its name, the wait reason of the instructions that it stops, and its name in messages.

    The reason ``hops`` stands for every limit except money, and means that a person has to continue the workflow."""

    by: LimitedBy
    waits_for: WaitReason
    text: str


_SPENT: Mapping[str, Limit] = {
    "budget": Limit("budget", "budget", "the budget"),
    "wall_time": Limit("wall_time", "hops", "the wall time"),
}
"""Limits that hold until a person continues the workflow."""


def limit_reached(fact: Fact, workspace: RunningWorkspace, more: int) -> Limit | None:
    """Return the limit that prevents ``fact`` from waking ``more`` agents, or None."""
    if (spent := _SPENT.get(workspace.limited_by or "")) is not None:
        return spent
    if fact.hops > workspace.hops_limit:
        return Limit("hops", "hops", f"the hop limit of {workspace.hops_limit}")
    if workspace.assigned + more > workspace.instructions_limit:
        return Limit("instructions", "hops", f"the limit of {workspace.instructions_limit} instructions")
    return None


def limited(space: str, workspace: RunningWorkspace, limit: Limit) -> tuple[Effect, ...]:
    """Return the effects that record and announce a reached limit; none if it was already announced in this run."""
    if workspace.limited:
        return ()
    until = f" until you continue the workflow (awk continue @{workspace.name}:{workspace.tag})"
    text = f"{limit.text} is reached: agents start no new work{until if workspace.mode == 'start' else ''}"
    return (
        WriteRow(LimitRun(space=space, by=limit.by)),
        Append(Draft(kind="system", space=space, sender=SYSTEM, text=text)),
    )
