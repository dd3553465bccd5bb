"""A workflow's start and end: its row, its members, its kickoff."""

from typing import Final

import msgspec

from kernel.rule.draft import Draft, WorkflowStarted, WorkflowStopped
from kernel.rule.effects import Append, Effect, Put, Refuse, Roster, WorkflowBegin, WorkflowEnd
from kernel.rule.fact import Fact
from kernel.rule.proposal import Proposal
from kernel.rule.view import View
from protocol.message import SYSTEM
from protocol.names import place_of
from protocol.workflow import RunLimits


class _Limited(msgspec.Struct, frozen=True):
    limits: RunLimits = RunLimits()


_definition: Final = msgspec.json.Decoder(_Limited)


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Start or end the workflow of the fact's space; other status messages change nothing."""
    match fact.payload:
        case WorkflowStarted() as started:
            return _begin(fact, started, view)
        case WorkflowStopped() as stopped:
            return _end(fact, stopped, view)
        case _:
            return ()


def _begin(fact: Fact, started: WorkflowStarted, view: View) -> tuple[Effect, ...]:
    if view.workspace(fact.space) is not None:
        target = f"@{started.name}:{started.tag}"
        return (
            Refuse(
                "already_running", f"{place_of(fact.space)} is already running", f"stop it first: awk stop {target}"
            ),
        )
    limits = _definition.decode(started.definition).limits
    begin = WorkflowBegin(
        space=fact.space,
        name=started.name,
        tag=started.tag,
        mode=started.mode,
        file=started.file,
        definition=started.definition,
        params=started.params,
        vouched=started.vouched,
        deadline_ms=started.deadline_ms,
        hops=limits.hops,
        instructions=limits.instructions,
        wall_time_ms=started.wall_time_ms,
        budget_tokens=started.budget.tokens,
        budget_usd=started.budget.usd,
        workspace=started.workspace,
        mirror=started.mirror,
        bound=started.bound,
        exit_from=started.exit_from,
        approval=started.approval,
        attended=started.attended,
    )
    return (Put(begin), Put(Roster(space=fact.space, members=started.members)), *_kickoff(fact, started))


def _kickoff(fact: Fact, started: WorkflowStarted) -> tuple[Effect, ...]:
    if not started.kickoff:
        return ()
    draft = Draft(
        kind="kickoff",
        space=fact.space,
        sender=SYSTEM,
        text=started.kickoff,
        to=started.kickoff_to,
        mentions=started.kickoff_mentions,
    )
    return (Append(draft),)


def _end(fact: Fact, stopped: WorkflowStopped, view: View) -> tuple[Effect, ...]:
    if view.workspace(fact.space) is None:
        return (Refuse("workflow_not_running", f"{place_of(fact.space)} is not running"),)
    return (Put(WorkflowEnd(space=fact.space, status=stopped.status, exit_code=stopped.exit_code)),)


WORKFLOW: Final = Proposal(name="workflow", kinds=frozenset({"status"}), decide=decide)
