"""Lifecycle of landings: requested, started, checked, and merged or refused. Refused work may return to its author."""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.landing import TRANSITIONS, LandingState, LandingStep, LastDelivery, Queued
from kernel.rule.draft import Draft
from kernel.store import rows, workflows
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from kernel.store.transitions.append import Appended, append_all
from kernel.store.workflows import WorkflowRecord
from protocol.api.runs import MergeInfo, MergeOutcome, MergeRequest
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import InstructionId, branch_fault, run_id
from protocol.workflow import RUN_SECONDS, Deliver


class LandingTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """Terms of a landing: which branches (of ``agent``, or of all agents) are merged, and how."""

    agent: str | None = None
    squash: bool = False
    check: str | None = None
    give_back: bool = False


class Landing(Queued, frozen=True):
    """Landing. If it is checked, ``branch`` is to move from commit ``expected`` to ``tip``."""

    run: int
    space: str
    state: LandingState
    terms: LandingTerms
    delivers: bool
    after: int
    tries: int
    expected: str
    tip: str
    result: str
    outcome: MergeOutcome
    requested_ms: int
    ended_ms: int | None


_terms: Final = msgspec.json.Decoder(LandingTerms)
_outcome: Final = msgspec.json.Decoder(MergeOutcome)


def _landing(
    id: int, repository: str, branch: str, terms: bytes, delivers: int, outcome: bytes, **columns: object
) -> Landing:
    asked = _terms.decode(terms)
    return Landing(
        id=id,
        repository=repository,
        branch=branch,
        check=asked.check,
        terms=asked,
        delivers=bool(delivers),
        outcome=_outcome.decode(outcome),
        **columns,  # type: ignore[arg-type]
    )


COLUMNS: Final = """
SELECT id, run, space, repository, state, branch, terms, delivers, after, tries, expected, tip, result, outcome,
  requested_ms, ended_ms
FROM landings
"""


unfinished = Sql(f"""
{COLUMNS} WHERE state IN ('requested', 'merging', 'checked') ORDER BY id LIMIT 1000
""").rows(_landing)
"""Return the first thousand landings that have not ended, in the order of their requests."""


by_id = Sql(f"{COLUMNS} WHERE id = ?").row(_landing)
"""Return one landing."""


NEWEST: Final = f"{COLUMNS} WHERE run = :run AND (NOT :delivers OR delivers) ORDER BY id DESC LIMIT 1"


def newest(conn: apsw.Connection, run: int, *, delivers: bool = False) -> Landing | None:
    """Return the newest landing of ``run``, or None; with ``delivers``, of its workflow's file."""
    return rows.one(conn.execute(NEWEST, {"run": run, "delivers": delivers}), NEWEST, _landing)


BEFORE: Final = f"{COLUMNS} WHERE run = ? AND id < ? AND delivers ORDER BY id DESC LIMIT 1"


def came_back_unchanged(conn: apsw.Connection, landing: Landing, agent: str, tip: str) -> bool:
    """Return whether the last delivery returned the same commit (``tip``) to ``agent`` already."""
    before = rows.one(conn.execute(BEFORE, (landing.run, landing.id)), BEFORE, _landing) if landing.delivers else None
    if before is None or not before.outcome.returned_to:
        return False
    return any((one.agent, one.tip) == (agent, tip) for one in before.outcome.branches)


def last_delivery(conn: apsw.Connection, run: int) -> LastDelivery | None:
    """Return the newest landing that the workflow's file requested in ``run``, or None."""
    found = newest(conn, run, delivers=True)
    return None if found is None else LastDelivery(found.state, found.after, found.outcome.why)


newest_instruction = Sql("SELECT coalesce(max(id), 0) FROM instructions WHERE run = ?").scalar(int)
"""Return the number of the last instruction of ``run``, or 0."""


WORK: Final = """
SELECT id, max(hops) OVER () FROM instructions WHERE run = ? AND name = ? ORDER BY id DESC LIMIT 50
"""


def work_of(conn: apsw.Connection, run: int, name: str) -> tuple[tuple[int, ...], int]:
    """Return the last 50 instructions of ``name`` in ``run``, oldest first, and the most hops."""
    found = cast("list[tuple[int, int]]", conn.execute(WORK, (run, name)).fetchall())
    return tuple(number for number, _ in reversed(found)), max((hops for _, hops in found), default=0)


repository_of = Sql("SELECT repository FROM worktrees WHERE run = ? ORDER BY agent LIMIT 1").optional(str)
"""Return the repository of the working trees of ``run``, including deleted ones; None if it never had any."""


began_on = Sql("SELECT began_on FROM workflows WHERE id = ?").scalar(str, "")
"""Return the branch that the working trees of ``run`` started from; "" if unknown."""


def merge_id(landing: int) -> str:
    """Return the public id of a landing, such as ``g3``."""
    return f"g{landing}"


def info_of(landing: Landing) -> MergeInfo:
    """Return the public view of a landing."""
    return MergeInfo(
        id=merge_id(landing.id),
        run=run_id(landing.run),
        state=landing.state,
        into=landing.branch,
        squash=landing.terms.squash,
        check=landing.terms.check,
        delivers=landing.delivers,
        tries=landing.tries,
        requested_at=rfc3339(landing.requested_ms),
        ended_at=optional_rfc3339(landing.ended_ms),
        **{name: getattr(landing.outcome, name) for name in MergeOutcome.__struct_fields__},
    )


INSERT: Final = """
INSERT INTO landings (run, space, repository, state, branch, terms, delivers, after, requested_ms)
VALUES (:run, :space, :repository, 'requested', :branch, :terms, :delivers, :after, :now)
"""

NO_TREES: Final = "its agents have no branches: it has no workspace: {git: worktree}"


class MergePlan(NamedTuple):
    """Landing to request: a request's terms, completed by the workflow's file."""

    repository: str
    branch: str
    terms: LandingTerms


def plan_landing(
    conn: apsw.Connection, record: WorkflowRecord, asked: MergeRequest, deliver: Deliver | None
) -> MergePlan:
    """Return the landing that ``asked`` means. Raises Refused (bad_request) without a branch."""
    repository = repository_of(conn, record.id)
    if repository is None:
        raise Refused("bad_request", f"{run_id(record.id)} has nothing to merge: {NO_TREES}")
    own = deliver or Deliver()
    branch = asked.into
    if branch is None:
        branch = own.into or began_on(conn, record.id) or None
    if branch is None:
        text = f"target branch of {run_id(record.id)} unknown: its start branch was not recorded"
        raise Refused("bad_request", text, "name the branch to merge into: --into BRANCH")
    if (fault := branch_fault(branch)) is not None:
        raise Refused("bad_request", fault, "name another branch, without refs/heads/: --into main, or deliver.into")
    check = own.check if asked.check is None else asked.check or None
    squash = own.squash if asked.squash is None else asked.squash
    return MergePlan(repository, branch, LandingTerms(asked.agent, squash, check, asked.give_back))


def request_landing(tx: Transaction, record: WorkflowRecord, plan: MergePlan, *, delivers: bool = False) -> Landing:
    """Add a landing of the run to the queue, and return it."""
    values = {
        "run": record.id,
        "space": record.space,
        "repository": plan.repository,
        "branch": plan.branch,
        "terms": msgspec.json.encode(plan.terms),
        "delivers": delivers,
        "after": newest_instruction(tx.conn, record.id),
        "now": tx.now_ms,
    }
    tx.conn.execute(INSERT, values)
    number = tx.conn.last_insert_rowid()
    data = {"id": merge_id(number), "run": run_id(record.id), "into": plan.branch}
    tx.emit("merge.requested", space=record.space, data=data)
    found = by_id(tx.conn, number)
    assert found is not None, number
    return found


SET: Final = """
UPDATE landings SET state = :state, outcome = :outcome, tries = tries + :began, expected = :expected, tip = :tip,
  result = :result, ended_ms = :ended WHERE id = :id
"""


def _step(
    tx: Transaction,
    landing: Landing,
    step: LandingStep,
    outcome: MergeOutcome,
    *,
    moves: tuple[str, str, str] = ("", "", ""),
) -> bool:
    now = by_id(tx.conn, landing.id)
    if now is None or step not in TRANSITIONS[now.state]:
        return False
    state = TRANSITIONS[now.state][step]
    over = not TRANSITIONS[state]
    expected, tip, result = moves
    values = {
        "id": landing.id,
        "state": state,
        "outcome": msgspec.json.encode(outcome),
        "began": step == "begin",
        "expected": expected,
        "tip": tip,
        "result": result,
        "ended": tx.now_ms if over else None,
    }
    tx.conn.execute(SET, values)
    if over:
        data = {
            "id": merge_id(landing.id),
            "run": run_id(landing.run),
            "into": landing.branch,
            "state": state,
            "commit": outcome.commit,
            "why": outcome.why,
        }
        tx.emit("merge.ended", space=landing.space, data=data)
    return True


STOPPED: Final = "its run was stopped before it was merged"


# A delivery ends with its run; a landing that a person requested does not.
def begin_landings(tx: Transaction, batch: Sequence[Landing]) -> tuple[Landing, ...]:
    """Start the landings of ``batch`` and return them; refuse those whose run was stopped."""
    begun: list[Landing] = []
    for one in batch:
        record = workflows.by_id(tx.conn, one.run)
        if record is None or (one.delivers and record.state != "running"):
            _step(tx, one, "refuse", MergeOutcome(why=STOPPED))
        elif _step(tx, one, "begin", MergeOutcome()):
            found = by_id(tx.conn, one.id)
            assert found is not None, one
            begun.append(found)
    return tuple(begun)


def landings_again(tx: Transaction, batch: Sequence[Landing], why: str) -> None:
    """Return the landings to their places in the queue, for the reason ``why``."""
    for one in batch:
        _step(tx, one, "again", MergeOutcome(why=why))


class Sound(NamedTuple):
    """Landing that passed its checks. ``result``: its own commit on the branch."""

    landing: Landing
    result: str
    outcome: MergeOutcome


def landings_checked(tx: Transaction, batch: Sequence[Sound], expected: str, tip: str) -> tuple[Landing, ...]:
    """Record that the branch is about to move to ``tip``. Return the checked landings."""
    for one in batch:
        _step(tx, one.landing, "pass", one.outcome, moves=(expected, tip, one.result))
    found = (by_id(tx.conn, one.landing.id) for one in batch)
    return tuple(one for one in found if one is not None and one.state == "checked")


def landings_merged(tx: Transaction, batch: Sequence[Landing], note: str = "") -> None:
    """Record that the branch contains the landings."""
    for one in batch:
        outcome = msgspec.structs.replace(one.outcome, commit=one.result or None, why=note or one.outcome.why)
        _step(tx, one, "land", outcome, moves=(one.expected, one.tip, one.result))


class Return(NamedTuple):
    """Work that is returned to ``agent`` with the message ``text``."""

    agent: str
    text: str


def landing_refused(
    tx: Transaction, landing: Landing, outcome: MergeOutcome, returns: Sequence[Return] = ()
) -> tuple[InstructionId, ...]:
    """Refuse a landing and give ``returns`` back to its run. Return the new instructions."""
    made, why = give_back(tx, landing, returns) if returns else ((), "")
    note = f"{outcome.why}; {why}" if why else outcome.why
    _step(tx, landing, "refuse", msgspec.structs.replace(outcome, why=note, returned_to=made))
    return made


def give_back(tx: Transaction, landing: Landing, returns: Sequence[Return]) -> tuple[tuple[InstructionId, ...], str]:
    """Make instructions of refused work in its run. Return them, and why one is missing, or ""."""
    record = workflows.by_id(tx.conn, landing.run)
    if record is None or (record.state != "running" and not _take_up(tx, record)):
        return (
            (),
            "it was not returned: its run has ended, and its name is used by another run or its messages were deleted",
        )
    made: list[InstructionId] = []
    why = ""
    for one in returns:
        hops = work_of(tx.conn, landing.run, one.agent)[1] + 1
        draft = Draft(
            kind="said", space=record.space, sender=SYSTEM, text=one.text, to=(one.agent,), mentions=(), hops=hops
        )
        [result] = append_all(tx, [(draft, None)])
        if isinstance(result, Appended):
            made += result.instruction_ids
        else:
            why = f"it was not returned to {one.agent}: {result.text}"
    return tuple(made), why


MAY_GO_ON: Final = """
SELECT 1 FROM workflows AS w WHERE w.id = :run AND w.state = 'stopped' AND w.workspace <> 'memory'
  AND NOT EXISTS (SELECT 1 FROM workflows AS n WHERE n.name = w.name AND n.tag = w.tag AND n.state = 'running')
  AND NOT EXISTS (SELECT 1 FROM workflows AS n WHERE n.space = w.space AND n.id > w.id)
"""
# The run gets its whole time again. It now ends automatically, even if started without an end.
TAKE_UP: Final = """
UPDATE workflows SET state = 'running', mode = 'run', status = NULL, exit_code = NULL, ended_ms = NULL,
  deadline_ms = :now + coalesce(CASE mode WHEN 'run' THEN deadline_ms - started_ms END, wall_time_ms, :usual)
WHERE id = :run
"""
# Agents use retained trees again. Files in these are committed when each instruction ends.
WORK_ON: Final = "UPDATE worktrees SET state = 'made', why = '' WHERE run = ? AND state = 'kept'"
# A deleted tree is planned again for its agent, unless its path is used by another tree.
PLAN_AGAIN: Final = """
UPDATE worktrees SET state = 'planned', git_dir = '', why = '' WHERE run = :run AND state = 'gone'
  AND NOT EXISTS (SELECT 1 FROM worktrees AS t WHERE t.path = worktrees.path AND t.state <> 'gone')
"""


def _take_up(tx: Transaction, record: WorkflowRecord) -> bool:
    if tx.conn.execute(MAY_GO_ON, {"run": record.id}).fetchone() is None:
        return False
    tx.conn.execute(TAKE_UP, {"run": record.id, "now": tx.now_ms, "usual": round(RUN_SECONDS * 1000)})
    tx.conn.execute(WORK_ON, (record.id,))
    tx.conn.execute(PLAN_AGAIN, {"run": record.id})
    data = {"run": record.place, "state": "running", "reason": "returned"}
    tx.emit("workflow.changed", space=record.space, data=data)
    return True
