"""The rules of a workflow's start, and of wakeups by a schedule. Pure.

A schedule wakes its agent in the background, in the workspace it names if that runs, else at home: its personal space,
or the workspace of the workflow whose file has the schedule. A workspace that a limit holds is left alone: work nobody
asked for must not pile up there.
"""

from typing import Final

import msgspec

from kernel.rule.assignment import assign_mentioned
from kernel.rule.draft import Draft, Fact, GuardAsked, RunSpec, Wakes, WakeupDue
from kernel.rule.effects import (
    Append,
    Assign,
    Deliver,
    Effect,
    LimitRun,
    Rule,
    SetMembers,
    StartRun,
    WriteRow,
)
from kernel.rule.view import View
from protocol.errors import Refused
from protocol.instruction import Lane
from protocol.message import SYSTEM
from protocol.names import AgentKey, AgentName, is_personal, name_of, place_of, split_space, workflow_space
from protocol.workflow import RunLimits


def decide_wakeup(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Wake the agent here, or where it would rather be; a guard here, in its own space; whose space is closed here."""
    due = fact.draft.payload
    if isinstance(due, GuardAsked):
        return _wake(due.agent, name_of(due.agent), fact.hops, "immediate" if due.waited_for else "background")
    if isinstance(due, Wakes):
        workspace = view.workspace(fact.draft.space)
        return () if workspace is None else assign_mentioned(fact, workspace, ((due.agent, due.name),))
    if not isinstance(due, WakeupDue):
        return ()
    elsewhere = None if due.workspace is None else _running(due.agent, due.workspace, view)
    if elsewhere is not None and elsewhere != fact.draft.space:
        there = WakeupDue(agent=due.agent)
        return (
            Append(Draft(kind="due", space=elsewhere, sender=fact.draft.sender, text=fact.draft.text, payload=there)),
        )
    if is_personal(fact.draft.space):
        return _wake(due.agent, split_space(fact.draft.space)[1], fact.hops) if view.agent_exists(due.agent) else ()
    return _in_workspace(fact, due.agent, view)


def _running(agent: AgentKey, wanted: str, view: View) -> str | None:
    """The space that ``wanted`` means: without a tag any that runs with the agent in it, ``main`` first."""
    workflow, _, tag = wanted.partition(":")
    spaces = [seat.space for seat in view.seats(agent, workflow)]
    return next((space for space in spaces if not tag or place_of(space) == workflow_space(workflow, tag)), None)


def _in_workspace(fact: Fact, agent: AgentKey, view: View) -> tuple[Effect, ...]:
    workspace = view.workspace(fact.draft.space)
    if workspace is None or workspace.limited:
        return ()
    name = next((seat.name for seat in view.seats(agent, workspace.name) if seat.space == fact.draft.space), None)
    if name is None:
        return ()
    if workspace.assigned >= workspace.instructions_limit:
        target = f"@{workspace.name}:{workspace.tag}"
        text = (
            f"the limit of {workspace.instructions_limit} instructions is reached: schedules wake nobody until "
            f"somebody continues it (awk continue {target})"
        )
        notice = Draft(kind="system", space=fact.draft.space, sender=SYSTEM, text=text)
        return (WriteRow(LimitRun(space=fact.draft.space, by="instructions")), Append(notice))
    return _wake(agent, name, fact.hops)


def _wake(agent: AgentKey, name: str, hops: int, lane: Lane = "background") -> tuple[Effect, ...]:
    return (Assign(agent, AgentName(name), lane, hops), Deliver(agent, AgentName(name)))


WAKEUP: Final = Rule(name="wakeup", kinds=frozenset({"due"}), decide=decide_wakeup)


class _Limited(msgspec.Struct, frozen=True):
    limits: RunLimits = RunLimits()


_definition: Final = msgspec.json.Decoder(_Limited)


def decide_workflow(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Start the workflow of the fact's space; other status messages change nothing. Raises Refused."""
    match fact.draft.payload:
        case RunSpec() as started:
            if view.workspace(fact.draft.space) is not None:
                hint = f"stop it first: awk stop @{started.name}:{started.tag}"
                raise Refused("already_running", f"{place_of(fact.draft.space)} is already running", hint)
            limits = _definition.decode(started.definition).limits
            begin = StartRun(space=fact.draft.space, spec=started, limits=limits)
            kickoff: tuple[Effect, ...]
            if not started.kickoff:
                kickoff = ()
            else:
                draft = Draft(
                    kind="kickoff",
                    space=fact.draft.space,
                    sender=SYSTEM,
                    text=started.kickoff,
                    to=started.kickoff_to,
                    mentions=started.kickoff_mentions,
                )
                kickoff = (Append(draft),)
            return (WriteRow(begin), WriteRow(SetMembers(space=fact.draft.space, members=started.members)), *kickoff)
        case _:
            return ()


WORKFLOW: Final = Rule(name="workflow", kinds=frozenset({"status"}), decide=decide_workflow)
