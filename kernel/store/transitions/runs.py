"""Start a run, once for each Idempotency-Key, and end it: when it is complete or its workflow is stopped.

Completion and end are one transaction, so that no message falls between them and nothing in its space stays open.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.landing import delivers, exit_by_delivery, next_delivery
from kernel.policy.run_completion import (
    RunCompletion,
    exit_by_agent,
    exit_by_output,
    exit_by_tasks,
    exit_by_verdict,
    run_completion,
)
from kernel.rule.draft import Draft, MemberSpec, RunSpec, not_done
from kernel.store import agents, documents, run_outcomes, spaces, voting, workflows
from kernel.store.circuit_breakers import release_agent
from kernel.store.feed import event_range
from kernel.store.idempotency import RequestKey, find_response, record_response
from kernel.store.mirrors import mark_redo
from kernel.store.tasks import unfinished
from kernel.store.transaction import Transaction
from kernel.store.transitions import landings, tasks
from kernel.store.transitions.append import Appended, append
from kernel.store.transitions.close import close_cancelled, close_incomplete
from kernel.store.transitions.close import close_space as close_below
from kernel.store.transitions.creations import CHARGE, PlannedStart, confined, end_start
from kernel.store.transitions.guarding import ask_guard
from kernel.store.transitions.landings import plan_landing, request_landing
from kernel.store.transitions.rules import define_of_file
from kernel.store.transitions.tasks import plan_of_file
from kernel.store.transitions.voting import ELECTION, HeldKickoff, call_off, elect_owner, expire_proposals
from kernel.store.transitions.worktrees import TreePlan, plan_worktrees
from kernel.store.workflows import running_runs
from protocol.api.runs import MergeRequest
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import (
    DEFAULT_TAG,
    AgentKey,
    AttemptId,
    InstructionId,
    SpaceId,
    attempt_id,
    inline_key,
    instruction_id,
    place_of,
    run_space,
    workflow_space,
)
from protocol.rules import RuleSpec
from protocol.tasks import TaskSpec
from protocol.workflow import ELECT, Deliver, WorkflowDefinition


class StartedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Run that was started. The events of the run have numbers above ``after``."""

    run: int
    name: str
    tag: str
    space: str
    mode: Literal["start", "run"]
    members: tuple[str, ...]
    started_ms: int
    after: int
    message_id: str
    left_behind: int = 0
    """Number of uncommitted files that an agent on a node does not get."""

    @property
    def place(self) -> SpaceId:
        """Return the public name of the run's space."""
        return workflow_space(self.name, self.tag)


_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(StartedRun)


class _Planning(msgspec.Struct, frozen=True):
    tasks: tuple[TaskSpec, ...] = ()
    rules: tuple[RuleSpec, ...] = ()


_definition: Final = msgspec.json.Decoder(_Planning)


# The person who starts a run may have fixed the cause of a hold: let held members probe.
HELD_MEMBERS: Final = """
SELECT m.agent FROM members AS m CROSS JOIN agents AS a ON a.key = m.agent
WHERE m.space = ? AND a.hold_key IS NOT NULL AND a.hold_until_ms = 0
"""


def started_before(conn: apsw.Connection, request: RequestKey, now_ms: int) -> StartedRun | None:
    """Return the run that the same ``request`` has started, or None.

    Raises Refused (key_reused) if its key belongs to another request.
    """
    recorded = find_response(conn, request, now_ms)
    return None if recorded is None else _decoder.decode(recorded.response)


def start_run(
    tx: Transaction,
    draft: Draft,
    request: RequestKey | None = None,
    trees: TreePlan | None = None,
    *,
    continues: bool = False,
) -> StartedRun:
    """Start the run that the payload of ``draft`` describes. If ``request`` did so before, return that run.

    The run gets a new space, unless ``continues`` is set, or this run and the previous one are bound: then it continues
    in the previous run's space. Raises Refused (already_running, key_reused, and errors of proposals).
    """
    if request is not None and (before := started_before(tx.conn, request, tx.now_ms)) is not None:
        return before
    after = event_range(tx.conn).newest
    started = draft.payload
    assert isinstance(started, RunSpec), started
    if (number := planned_number(request)) is not None:
        started, charges = confined(tx.conn, number, started)
        tx.conn.executemany(CHARGE, charges)
    draft, begins = _in_its_space(tx.conn, draft, started, continues=continues)
    appended = _begin(tx, draft)
    for (agent,) in tx.conn.execute(HELD_MEMBERS, (draft.space,)).fetchall():
        release_agent(tx, AgentKey(str(agent)))
    record = workflows.by_space(tx.conn, draft.space)
    assert record is not None, draft.space
    members = agents.members(tx.conn, record.space)
    if begins and started.mirror is not None:
        mark_redo(tx, record.space)  # the mirror files contain messages of earlier runs
    file = _definition.decode(started.definition)
    define_of_file(tx, record.space, file.rules)
    if begins and file.tasks:
        plan_of_file(tx, record.space, file.tasks)
    elif not begins:
        tasks.give_out_again(tx, record.space)
    if trees is not None:
        plan_worktrees(tx, record.id, record.space, trees, {member.name: member.key for member in members})
    begun = StartedRun(
        run=record.id,
        name=record.name,
        tag=record.tag,
        space=record.space,
        mode=record.mode,
        members=tuple(member.name for member in members),
        started_ms=record.started_ms,
        after=after,
        message_id=appended.message_id,
    )
    if request is not None:
        record_response(tx, request, _encode(begun), status=201)
    if number is not None:
        end_start(tx, number, record.space)
    return begun


RULES: Final = "rules"
"""Principal of the starts that rules plan; the key is the number of the creation."""


def planned_number(request: RequestKey | None) -> int | None:
    """Return the number of the planned start behind ``request``, or None."""
    return int(request.key) if request is not None and request.principal == RULES else None


def refuse_start(tx: Transaction, one: PlannedStart, why: str) -> None:
    """End a planned start that is not possible, with a note in the space of the rule."""
    if end_start(tx, one.number, None):
        append(tx, not_done(one.space, one.rule, why))


def open_for_person(tx: Transaction, name: str, members: Sequence[str] = (), *, is_open: bool = True) -> SpaceId:
    """Open the space ``name`` for agents until a person closes it; return its id. Raises Refused (already_running)."""
    definition = _encode(WorkflowDefinition(name=name, agents={}))
    seats = tuple(MemberSpec(name=one, key=AgentKey(one), origin="file") for one in dict.fromkeys(members))
    spec = RunSpec(
        name=name, tag=DEFAULT_TAG, mode="start", file="", definition=definition, members=seats, is_open=is_open
    )
    draft = Draft(kind="status", space=workflow_space(name), sender=SYSTEM, text="started", payload=spec)
    return SpaceId(start_run(tx, draft).space)


class _OwnerTerms(msgspec.Struct, frozen=True):
    document_owner: str | None = None


class _Owned(msgspec.Struct, frozen=True):
    workspace: _OwnerTerms | bool = _OwnerTerms()


_owned: Final = msgspec.json.Decoder(_Owned)


def _begin(tx: Transaction, draft: Draft) -> Appended:
    started = draft.payload
    assert isinstance(started, RunSpec), started
    workspace = _owned.decode(started.definition).workspace
    owner = workspace.document_owner if isinstance(workspace, _OwnerTerms) and len(started.members) > 1 else None
    if owner != ELECT:
        appended = append(tx, draft)
        documents.begin(tx, draft.space, owner)
        return appended
    waiting = msgspec.structs.replace(started, kickoff=None)
    appended = append(tx, msgspec.structs.replace(draft, payload=waiting))
    documents.begin(tx, draft.space, None)
    kickoff = HeldKickoff(
        election=ELECTION,
        text=started.kickoff or "",
        to=started.kickoff_to,
        mentions=started.kickoff_mentions,
        sender=started.kickoff_by,
    )
    elect_owner(tx, draft.space, kickoff)
    return appended


def _in_its_space(conn: apsw.Connection, draft: Draft, started: RunSpec, *, continues: bool) -> tuple[Draft, bool]:
    """Return ``draft`` for the run's space and members, and whether that space is new.

    If the workflow is running, the draft goes to the running run, so that a rule refuses it.
    """
    before = workflows.newest_at(conn, draft.space)
    goes_on = before is not None and (
        before.state == "running" or continues or (started.bound and workflows.bound(conn, before.id))
    )
    in_memory = before is not None and before.space in workflows.memory_spaces(conn, "")
    if before is not None and goes_on and before.state != "running" and in_memory != (started.workspace == "memory"):
        text = f"{draft.space} cannot be continued: this run and its messages do not have the same provider"
        raise Refused("conflict", text, "start it without --continue, in a new space")
    space = before.space if before is not None and goes_on else run_space(draft.space, workflows.next_run(conn))
    members = tuple(_living_in(member, space) for member in started.members)
    said_there = msgspec.structs.replace(draft, space=space, payload=msgspec.structs.replace(started, members=members))
    return said_there, not goes_on


def _living_in(member: MemberSpec, space: SpaceId) -> MemberSpec:
    if member.origin != "inline":
        return member
    return msgspec.structs.replace(member, key=inline_key(member.name, space))


class StoppedWork(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions that a stop has ended.

    ``incomplete``: they waited for a limit or budget, or for the answer of such an instruction.
    ``live``: attempts whose workers the kernel has yet to end; they can no longer write.
    """

    cancelled: tuple[InstructionId, ...]
    incomplete: tuple[InstructionId, ...]
    live: tuple[AttemptId, ...]


class _OpenInstruction(NamedTuple):
    number: int
    epoch: int
    live: bool
    limit: Literal["budget", "limit"] | None
    """Limit that blocks it permanently."""
    asked: int | None
    """Instruction whose answer it waits for."""


OPEN: Final = """
SELECT id, epoch, state IN ('leased', 'running'),
  CASE WHEN state = 'waiting' THEN CASE waits_for WHEN 'budget' THEN 'budget' WHEN 'hops' THEN 'limit' END END,
  CASE waits_for WHEN 'answer' THEN CAST(substr(wait_key, 2) AS INTEGER) END
FROM instructions
WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting') ORDER BY id
"""


CANCEL_STARTS: Final = """
UPDATE creations SET state = 'refused' WHERE state = 'planned'
  AND space IN (SELECT ?1 UNION ALL SELECT s.space FROM subspaces AS s WHERE s.base = ?1)
"""


def stop_workflow(tx: Transaction, space: str, status: str, exit_code: int, reason: str = "") -> StoppedWork:
    """End the run in ``space`` and all its work; if cancelled, also planned starts. Raises Refused
    (workflow_not_running)."""
    if status == "cancelled":
        tx.conn.execute(CANCEL_STARTS, (space,))
    text = f"{place_of(space)} ended: {reason or status}"
    expire_proposals(tx, over=space)  # before call_off cancels all other proposals
    below = spaces.open_below(tx.conn, space)
    for opened in below:
        close_below(tx, opened, "its run has ended")
    workflows.end(tx, space, status, exit_code)
    append(tx, Draft(kind="status", space=space, sender=SYSTEM, text=text))
    call_off(tx, space, "the workflow has ended")
    there = (space, *(opened.space for opened in below))
    found = (row for place in there for row in tx.conn.execute(OPEN, (place,)).fetchall())
    rows = sorted((_OpenInstruction(*cast("_OpenInstruction", row)) for row in found), key=lambda row: row.number)
    # Find the work at a limit and the work that waits for its answer. A question is newer than its asker.
    held: dict[int, Literal["budget", "limit"]] = {}
    for row in reversed(rows):
        by = row.limit or held.get(row.asked or 0)
        if by is not None:
            held[row.number] = by
    for one in rows:
        limit = held.get(one.number)
        if limit is None:
            close_cancelled(tx, one.number, one.epoch)
        else:
            close_incomplete(tx, one.number, one.epoch, limit)
    ask_guard(tx, space)
    return StoppedWork(
        cancelled=tuple(instruction_id(one.number) for one in rows if one.number not in held),
        incomplete=tuple(instruction_id(one.number) for one in rows if one.number in held),
        live=tuple(attempt_id(instruction_id(one.number), one.epoch) for one in rows if one.live),
    )


class RunJudgement(NamedTuple):
    """Check of the answer ``seq`` against the output schema. ``misfit``: None if it fits."""

    seq: int
    misfit: str | None


def end_run(tx: Transaction, run: int, judged: RunJudgement | None = None) -> bool:
    """End a complete run. Return False if it continues, has ended, or has an unchecked answer."""
    progress = next(iter(running_runs(tx.conn, tx.now_ms, run)), None)
    over = None if progress is None else run_completion(progress, tx.now_ms)
    if progress is None or not isinstance(over, RunCompletion):
        return False
    expected = run_outcomes.expected(tx.conn, run)
    if expected.exit_from is not None:
        over = exit_by_agent(over, run_outcomes.chosen(tx.conn, run, expected.exit_from))
    if expected.schema is not None:
        if judged is None or judged.seq != run_outcomes.last_reply(tx.conn, run, expected.exit_from).seq:
            return False
        over = exit_by_output(over, judged.misfit)
    expire_proposals(tx, over=progress.space)  # the timer may not have fired yet, but results count
    choice = None
    if expected.verdict is not None:
        answer = voting.of_run(tx.conn, run, expected.verdict.id)
        over, choice = exit_by_verdict(over, answer), answer.choice
    excused = expected.exit_from is not None or choice == "yes"
    over = exit_by_tasks(over, unfinished(tx.conn, progress.space), excused=excused)
    if expected.deliver is not None and delivers(expected.deliver.when, over, choice):
        last = landings.last_delivery(tx.conn, run)
        match next_delivery(last, landings.newest_instruction(tx.conn, run)):
            case "request":
                try:
                    _deliver(tx, run, expected.deliver)
                except Refused as refused:
                    why = f"{refused.text}: {refused.hint}" if refused.hint else refused.text
                    over = over if over.exit_code else RunCompletion("failed", 1, f"not merged: {why}")
                else:
                    return False
            case "wait":
                return False
            case "over":
                landing = landings.newest(tx.conn, run, delivers=True)
                assert last is not None, run
                assert landing is not None, run
                over = exit_by_delivery(over, last, landing.branch)
    stop_workflow(tx, progress.space, over.status, over.exit_code, over.reason)
    return True


def _deliver(tx: Transaction, run: int, deliver: Deliver) -> None:
    record = workflows.by_id(tx.conn, run)
    assert record is not None, run
    asked = MergeRequest(give_back=True)
    request_landing(tx, record, plan_landing(tx.conn, record, asked, deliver), delivers=True)
