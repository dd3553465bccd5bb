"""Changes that a person makes to work: pause, resume, stop, reset, continue, promote, retry, dismiss and rename."""

from typing import Final, cast

from kernel.policy.agent_status import AgentState
from kernel.store import waits
from kernel.store.agents import AgentSpec, put_agent, remove_agent, require_idle, set_agent_state
from kernel.store.approvals import unbind
from kernel.store.circuit_breakers import forget_closed, release_agent
from kernel.store.holdings import RENAMING
from kernel.store.instructions import find
from kernel.store.mirrors import mark_redo
from kernel.store.rows import delivery_sql, instruction_sql
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import continue_work
from kernel.store.transitions.limits import grant, grant_agent
from kernel.store.transitions.threads import forget_questions, wait_for_answers
from protocol.errors import Refused
from protocol.instruction import LIVE
from protocol.names import AgentKey, InstructionId, instruction_id, is_personal, number_of, personal_space, place_of

STATE: Final = "SELECT state, reason FROM agents WHERE key = ?"


def pause_agent(tx: Transaction, agent: AgentKey) -> None:
    """Stop leasing work of ``agent``; running work yields after its next entry. A paused agent is unchanged.

    Raises Refused: unknown_agent; conflict if the agent is stopped or in error, which blocks its work too.
    """
    state = _state(tx, agent)
    if state == "active":
        set_agent_state(tx, agent, "paused")
    elif state != "paused":
        raise Refused("conflict", f"agent {agent} cannot be paused: it is in state {state}", f"see: awk queue {agent}")


def resume_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Resume a paused or stopped agent, forget closed models, and end a hold unless the provider named its time.

    Only ``reset_agent`` overrides that time (P12). Return the instructions that no longer wait.
    Raises Refused: unknown_agent; conflict if the agent is in error.
    """
    state = _state(tx, agent)
    if state == "error":
        raise Refused("conflict", f"{agent} is in state error, not paused", f"clear it: awk reset {agent}")
    if state != "active":
        set_agent_state(tx, agent, "active")
    forget_closed(tx)
    timed = tx.conn.execute(TIMED, (agent,)).fetchone() is not None
    return () if timed else release_agent(tx, agent)


TIMED: Final = "SELECT 1 FROM agents WHERE key = ? AND hold_key IS NOT NULL AND hold_until_ms > 0"


def stop_agent(tx: Transaction, agent: AgentKey) -> None:
    """Stop leasing work of ``agent`` until it is resumed or reset; the dispatcher ends its running work.

    Raises Refused (unknown_agent).
    """
    if _state(tx, agent) != "stopped":
        set_agent_state(tx, agent, "stopped")


CLEAR: Final = """
UPDATE agents SET state = 'active', reason = NULL, crash_streak = 0, crashed_ms = 0, stepped = 0, resume_at_ms = 0
WHERE key = ?
"""
FOR_A_NODE: Final = """
SELECT id FROM instructions WHERE agent = ? AND state = 'waiting' AND waits_for = 'node' ORDER BY lane, id
"""
FORGET_CRASHES: Final = "DELETE FROM crashes WHERE agent = ?"
INSTANCES: Final = "SELECT key FROM agents WHERE replica_of = ?1 AND key <> ?1 ORDER BY key"


def reset_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Clear what blocks ``agent`` and its instances: an error, crashes, a backoff, a pause or a provider's hold.

    Return the instructions that waited for a provider or a node. Raises Refused (unknown_agent).
    """
    _state(tx, agent)
    tx.conn.execute(CLEAR, (agent,))
    tx.conn.execute(FORGET_CRASHES, (agent,))
    waits.make_due(tx, agent)
    set_agent_state(tx, agent, "active")
    looked_for = cast("list[tuple[int]]", tx.conn.execute(FOR_A_NODE, (agent,)).fetchall())
    waits.wake(tx, [number for (number,) in looked_for])
    instances = cast("list[tuple[str]]", tx.conn.execute(INSTANCES, (agent,)).fetchall())
    freed = (one for (key,) in instances for one in reset_agent(tx, AgentKey(key)))
    return (*release_agent(tx, agent), *(instruction_id(number) for (number,) in looked_for), *freed)


def _state(tx: Transaction, agent: AgentKey) -> AgentState:
    row = tx.conn.execute(STATE, (agent,)).fetchone()
    if row is None:
        raise Refused("unknown_agent", f"agent {agent!r} not found", "list the agents: awk agent list")
    return cast(AgentState, row[0])


SET_PAUSED: Final = "UPDATE workflows SET paused = ? WHERE space = ? AND state = 'running' AND paused <> ? RETURNING id"
RUNS: Final = "SELECT 1 FROM workflows WHERE space = ? AND state = 'running'"
# The first condition repeats the states of the index of a space's open instructions, so that SQLite uses it.
LANED: Final = """
SELECT id FROM instructions
WHERE space IN (SELECT ?1 UNION ALL SELECT s.space FROM subspaces AS s WHERE s.base = ?1 AND s.closed_ms IS NULL)
  AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
  AND state IN ('queued', 'yielded') ORDER BY id
"""
KEPT: Final = """
SELECT id FROM instructions
WHERE space IN (SELECT ?1 UNION ALL SELECT s.space FROM subspaces AS s WHERE s.base = ?1 AND s.closed_ms IS NULL)
  AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
  AND state = 'waiting' AND waits_for = 'paused' ORDER BY id
"""


def pause_workflow(tx: Transaction, space: str) -> None:
    """Let all work of ``space`` wait; live attempts yield after their next entry. May be repeated.

    The time of a retry is preserved. Raises Refused (workflow_not_running).
    """
    if _set_paused(tx, space, paused=True):
        for number in _numbers(tx, LANED, space):
            waits.settle(tx, number)


def resume_workflow(tx: Transaction, space: str) -> None:
    """Wake the work of ``space`` that waits because of the pause. Raises Refused (workflow_not_running)."""
    if _set_paused(tx, space, paused=False):
        waits.wake(tx, _numbers(tx, KEPT, space))


def continue_workflow(tx: Transaction, space: str) -> tuple[InstructionId, ...]:
    """Grant the workflow in ``space`` its limits again. Return the instructions that continue.

    A paused workflow stays paused. Raises Refused (workflow_not_running).
    """
    granted = _kept(tx, grant(tx, space))
    _tell(tx, space, "running", "continued")
    return granted


def continue_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Grant ``agent`` its own budget again: waiting and incomplete work continues. Return those instructions.

    If the budget of their workflow is also used up, they wait again. Raises Refused (unknown_agent).
    """
    _state(tx, agent)
    return (*_kept(tx, grant_agent(tx, agent)), *continue_work(tx, agent))


def _kept(tx: Transaction, granted: tuple[InstructionId, ...]) -> tuple[InstructionId, ...]:
    for one in granted:
        waits.settle(tx, number_of(one, "i") or 0)
    return granted


def _set_paused(tx: Transaction, space: str, *, paused: bool) -> bool:
    if tx.conn.execute(SET_PAUSED, (paused, space, paused)).fetchone() is None:
        if tx.conn.execute(RUNS, (space,)).fetchone() is None:
            name = space.partition(":")[0][:32]
            raise Refused(
                "workflow_not_running",
                f"workflow {place_of(space)[:100]} is not running",
                f"start it: awk start {name}",
            )
        return False
    _tell(tx, space, "paused" if paused else "running", None)
    return True


def _tell(tx: Transaction, space: str, state: str, reason: str | None) -> None:
    tx.emit("workflow.changed", space=space, data={"run": place_of(space), "state": state, "reason": reason})


def _numbers(tx: Transaction, statement: str, whose: str) -> list[int]:
    return [number for (number,) in cast("list[tuple[int]]", tx.conn.execute(statement, (whose,)).fetchall())]


PROMOTE: Final = """
UPDATE instructions SET lane = 0, promoted = 1 WHERE id = ? AND state IN ('queued', 'yielded', 'waiting')
RETURNING state
"""


def promote(tx: Transaction, instruction: str) -> None:
    """Move an instruction to the most urgent lane, and protect its next step from preemption.

    A waiting one keeps waiting. Raises Refused: not_found, conflict (it runs or has ended).
    """
    found = find(tx.conn, instruction)
    row = tx.conn.execute(PROMOTE, (found.number,)).fetchone()
    if row is None:
        too_late: Refused
        if found.state in LIVE:
            too_late = Refused("conflict", f"{instruction} runs already", f"see it: awk show {instruction}")
        else:
            hint = f"run it again: awk retry {instruction}" if found.state in ("failed", "dead") else None
            too_late = Refused("conflict", f"{instruction} has ended: {found.state}", hint)
        raise too_late
    waits.tell_queued(tx, found.number, found.name, found.space, 0, row[0])


# The age restarts, so that an old failure does not count as starved. It joins the current run.
RETRY: Final = instruction_sql("""
UPDATE instructions SET state = {revive}, attempts = 0, crashes = 0, throttled_ms = 0, kernel_deaths = 0,
  progress_mark = -1, promoted = 0, preempted = 0, {no_wait},
  enqueued_ms = :now, ended_ms = NULL, cause = NULL, error_class = NULL, result_text = '', dismissed = 0,
  run = coalesce((SELECT s.run FROM subspaces AS s WHERE s.space = instructions.space),
    (SELECT w.id FROM workflows AS w WHERE w.space = instructions.space AND w.state = 'running'))
WHERE id = :id AND state {before revive}
RETURNING lane
""")

REVIVE: Final = delivery_sql("UPDATE deliveries SET state = {revive} WHERE instruction = ? AND state {before revive}")

FORGET_ENTRIES: Final = "DELETE FROM entries WHERE instruction = ?"
FORGET_EFFECTS: Final = "DELETE FROM effects WHERE instruction = ?"
FORGET_HANDOVER: Final = "DELETE FROM handovers WHERE instruction = ?"
START_AFRESH: Final = """
UPDATE instructions SET entries = 0, steps = 0, prefix = NULL, aside = 0, manifest = NULL, carried_steps = 0,
  compacted = 0
WHERE id = ?
"""

CLEARED: Final = """
SELECT 1 FROM instructions AS i CROSS JOIN messages AS m ON m.seq = i.message WHERE i.id = ? AND m.cleared = 1
"""

AGENT_THERE: Final = "SELECT 1 FROM agents WHERE key = ?"
MEMBER_NOW: Final = """
SELECT 1 FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
WHERE m.space = ?1 AND m.agent IN (?2, (SELECT r.replica_of FROM agents AS r WHERE r.key = ?2))
UNION ALL SELECT 1 FROM members AS m CROSS JOIN subspaces AS s ON s.space = m.space AND s.closed_ms IS NULL
WHERE m.space = ?1 AND m.agent IN (?2, (SELECT r.replica_of FROM agents AS r WHERE r.key = ?2))
"""


def retry(tx: Transaction, instruction: str, *, fresh: bool = False) -> None:
    """Requeue a failed or dead instruction with all its retries. It continues after its last entry.

    ``fresh``: it starts from the beginning; its calls may have side effects twice. Raises Refused:
    not_found; conflict in any other state; unknown_agent, workflow_not_running if no agent can run
    it.
    """
    found = find(tx.conn, instruction)
    if found.state not in ("failed", "dead"):
        hints = {
            "incomplete": f'continue it: awk send {found.name} "continue"',
            "done": "send the message again to have it done again",
            "cancelled": "send the message again",
        }
        hint = hints.get(found.state, f"see it: awk show {instruction}")
        raise Refused("conflict", f"{instruction} is {found.state}: only failed or dead work can be retried", hint)
    # Work never runs outside of its workflow (fault TF08), nor for a deleted agent.
    if tx.conn.execute(AGENT_THERE, (found.agent,)).fetchone() is None:
        raise Refused("unknown_agent", f"agent {found.name} was deleted", "list the agents: awk agent list")
    if not is_personal(found.space) and tx.conn.execute(MEMBER_NOW, (found.space, found.agent)).fetchone() is None:
        name = found.space.partition(":")[0]
        text = f"agent {found.name} is not a member of a running workflow {place_of(found.space)}"
        raise Refused("workflow_not_running", text, f"start it: awk start {name}")
    if tx.conn.execute(CLEARED, (found.number,)).fetchone() is not None:
        raise Refused("conflict", f"the message of {instruction} was cleared", "send the message again")
    tx.conn.execute(RETRY, {"id": found.number, "now": tx.now_ms}).fetchall()
    tx.conn.execute(REVIVE, (found.number,))
    unbind(tx, found.number, fresh)
    if fresh:
        tx.conn.execute(FORGET_ENTRIES, (found.number,))
        tx.conn.execute(FORGET_EFFECTS, (found.number,))
        tx.conn.execute(FORGET_HANDOVER, (found.number,))
        tx.conn.execute(START_AFRESH, (found.number,))
        forget_questions(tx, found.number)
    if not wait_for_answers(tx, found.number) and waits.settle(tx, found.number) is None:
        waits.tell_queued(tx, found.number, found.name, found.space, found.lane)


DISMISS: Final = "UPDATE instructions SET dismissed = 1 WHERE state IN ('failed', 'dead') AND dismissed = 0"


def dismiss(tx: Transaction) -> int:
    """Hide all failed and dead instructions in lists; return how many. Retries stay possible."""
    tx.conn.execute(DISMISS)
    return tx.conn.changes()


SOULS: Final = """
UPDATE soul_versions SET agent = :new,
  version = version + (SELECT coalesce(max(v.version), 0) FROM soul_versions AS v WHERE v.agent = :new)
WHERE agent = :old
"""
QUESTIONS: Final = """
UPDATE guard_jobs SET evidence = CAST(replace(CAST(evidence AS TEXT), json_quote(:old), json_quote(:new)) AS BLOB),
  call = replace(call, '/' || :here || '/', '/' || :there || '/')
WHERE state = 'open' OR space = :here
"""


def rename(tx: Transaction, old: AgentKey, spec: AgentSpec) -> None:
    """Rename agent ``old`` and store ``spec``. Raises Refused: unknown_agent, conflict."""
    require_idle(tx, old)
    here, there = personal_space(old), personal_space(spec.key)
    for statement in (SOULS, QUESTIONS, *RENAMING):
        tx.conn.execute(statement, {"old": old, "new": spec.key, "here": here, "there": there})
    remove_agent(tx, old)
    put_agent(tx, spec)
    mark_redo(tx, there)
