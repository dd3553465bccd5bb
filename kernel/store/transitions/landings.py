"""Landings go on: requested once, begun, checked, and merged or refused; what was refused may become work again."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import apsw
import msgspec

from kernel.policy.landing import TRANSITIONS, LandingStep
from kernel.rule.draft import Draft
from kernel.store import landings, workflows
from kernel.store.landings import Landing, LandingTerms, merge_id
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import Appended, append_all
from kernel.store.workflows import WorkflowRecord
from protocol.api.merges import MergeOutcome, MergeRequest
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import InstructionId, branch_fault, run_id
from protocol.workflow import RUN_SECONDS, Deliver

INSERT: Final = """
INSERT INTO landings (run, space, repository, state, branch, terms, delivers, after, requested_ms)
VALUES (:run, :space, :repository, 'requested', :branch, :terms, :delivers, :after, :now)
"""

NO_TREES: Final = "its agents have no branches: it has no workspace: {git: worktree}"


class MergePlan(NamedTuple):
    """A request as it comes out with what the workflow's file says of it."""

    repository: str
    branch: str
    terms: LandingTerms


def plan_landing(
    conn: apsw.Connection, record: WorkflowRecord, asked: MergeRequest, deliver: Deliver | None
) -> MergePlan:
    """The landing that ``asked`` comes to for the run ``record``. Raises Refused (bad_request): no branch for it."""
    repository = landings.repository_of(conn, record.id)
    if repository is None:
        raise Refused("bad_request", f"{run_id(record.id)} has nothing to merge: {NO_TREES}")
    own = deliver or Deliver()
    branch = asked.into
    if branch is None:
        branch = own.into or landings.began_on(conn, record.id) or None
    if branch is None:
        text = f"nobody noted which branch {run_id(record.id)} began from"
        raise Refused("bad_request", text, "name the branch to merge into: --into BRANCH")
    if (fault := branch_fault(branch)) is not None:
        raise Refused("bad_request", fault, "name another branch, without refs/heads/: --into main, or deliver.into")
    check = own.check if asked.check is None else asked.check or None
    squash = own.squash if asked.squash is None else asked.squash
    return MergePlan(repository, branch, LandingTerms(asked.agent, squash, check, asked.give_back))


def request_landing(tx: Transaction, record: WorkflowRecord, plan: MergePlan, *, delivers: bool = False) -> Landing:
    """Put a landing of the run into the queue."""
    values = {
        "run": record.id,
        "space": record.space,
        "repository": plan.repository,
        "branch": plan.branch,
        "terms": msgspec.json.encode(plan.terms),
        "delivers": delivers,
        "after": landings.newest_instruction(tx.conn, record.id),
        "now": tx.now_ms,
    }
    tx.conn.execute(INSERT, values)
    number = tx.conn.last_insert_rowid()
    data = {"id": merge_id(number), "run": run_id(record.id), "into": plan.branch}
    tx.emit("merge.requested", space=record.space, data=data)
    found = landings.by_id(tx.conn, number)
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
    now = landings.by_id(tx.conn, landing.id)
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


def begin_landings(tx: Transaction, batch: Sequence[Landing]) -> tuple[Landing, ...]:
    """Begin to merge them; what a run was to deliver that was stopped is refused. Returns those that were begun."""
    begun: list[Landing] = []
    for one in batch:
        record = workflows.by_id(tx.conn, one.run)
        if record is None or (one.delivers and record.state != "running"):
            _step(tx, one, "refuse", MergeOutcome(why=STOPPED))
        elif _step(tx, one, "begin", MergeOutcome()):
            found = landings.by_id(tx.conn, one.id)
            assert found is not None, one
            begun.append(found)
    return tuple(begun)


def landings_again(tx: Transaction, batch: Sequence[Landing], why: str) -> None:
    """Put them back into the queue, in their place."""
    for one in batch:
        _step(tx, one, "again", MergeOutcome(why=why))


class Sound(NamedTuple):
    """A landing that is sound, with the commit that is its own among those that land together."""

    landing: Landing
    result: str
    outcome: MergeOutcome


def landings_checked(tx: Transaction, batch: Sequence[Sound], expected: str, tip: str) -> tuple[Landing, ...]:
    """Note from where to where the branch is to be moved, before it is."""
    for one in batch:
        _step(tx, one.landing, "pass", one.outcome, moves=(expected, tip, one.result))
    found = (landings.by_id(tx.conn, one.landing.id) for one in batch)
    return tuple(one for one in found if one is not None and one.state == "checked")


def landings_merged(tx: Transaction, batch: Sequence[Landing], note: str = "") -> None:
    """They are on the branch."""
    for one in batch:
        outcome = msgspec.structs.replace(one.outcome, commit=one.result or None, why=note or one.outcome.why)
        _step(tx, one, "land", outcome, moves=(one.expected, one.tip, one.result))


class Return(NamedTuple):
    """Work that goes back to the agent called ``agent``, in these words."""

    agent: str
    text: str


def landing_refused(
    tx: Transaction, landing: Landing, outcome: MergeOutcome, returns: Sequence[Return] = ()
) -> tuple[InstructionId, ...]:
    """Refuse it; what it ``returns`` becomes work in its run, which goes on for it. Returns the instructions."""
    made, why = give_back(tx, landing, returns) if returns else ((), "")
    note = f"{outcome.why}; {why}" if why else outcome.why
    _step(tx, landing, "refuse", msgspec.structs.replace(outcome, why=note, returned_to=made))
    return made


def give_back(tx: Transaction, landing: Landing, returns: Sequence[Return]) -> tuple[tuple[InstructionId, ...], str]:
    """Give work back to its authors, one hop further than what they did last. Returns the instructions, and why not."""
    record = workflows.by_id(tx.conn, landing.run)
    if record is None or (record.state != "running" and not _take_up(tx, record)):
        return (
            (),
            "it could not be given back, for its run is over and another one of that name runs, or its words are gone",
        )
    made: list[InstructionId] = []
    why = ""
    for one in returns:
        hops = landings.work_of(tx.conn, landing.run, one.agent)[1] + 1
        draft = Draft(
            kind="said", space=record.space, sender=SYSTEM, text=one.text, to=(one.agent,), mentions=(), hops=hops
        )
        [result] = append_all(tx, [(draft, None)])
        if isinstance(result, Appended):
            made += result.instruction_ids
        else:
            why = f"it could not be given back to {one.agent}: {result.text}"
    return tuple(made), why


MAY_GO_ON: Final = """
SELECT 1 FROM workflows AS w WHERE w.id = :run AND w.state = 'stopped' AND w.workspace <> 'memory'
  AND NOT EXISTS (SELECT 1 FROM workflows AS n WHERE n.name = w.name AND n.tag = w.tag AND n.state = 'running')
  AND NOT EXISTS (SELECT 1 FROM workflows AS n WHERE n.space = w.space AND n.id > w.id)
"""
# It has as much time once more; what was started, and stopped, ends by itself now.
TAKE_UP: Final = """
UPDATE workflows SET state = 'running', mode = 'run', status = NULL, exit_code = NULL, ended_ms = NULL,
  deadline_ms = :now + coalesce(CASE mode WHEN 'run' THEN deadline_ms - started_ms END, wall_time_ms, :usual)
WHERE id = :run
"""
# What was kept is worked in again: what is done there is committed at the end of each instruction, as before.
WORK_ON: Final = "UPDATE worktrees SET state = 'made', why = '' WHERE run = ? AND state = 'kept'"
# A tree in which nothing would have been lost is gone: whoever is woken there gets it anew, unless its place is taken.
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
