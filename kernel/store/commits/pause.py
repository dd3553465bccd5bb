"""A person holds work back, and lets it go on: of one agent, or of a whole workflow."""

from typing import Final, cast

from kernel.policy.standing import AgentState
from kernel.store.commits.go_on import go_on
from kernel.store.commits.grant import grant, grant_agent
from kernel.store.commits.paused import keep_paused
from kernel.store.commits.release import release_agent
from kernel.store.commits.roster import set_agent_state
from kernel.store.commits.trip import wake
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.names import AgentKey, InstructionId, number_of, place_of

STATE: Final = "SELECT state, reason FROM agents WHERE key = ?"


def pause_agent(tx: Transaction, agent: AgentKey) -> None:
    """Lease nothing of ``agent`` any more; what runs gives way after its next entry. Paused already: no change.

    Raises Refused: unknown_agent; conflict where it is stopped or in error, which keeps its work back too.
    """
    state = _state(tx, agent)
    if state == "active":
        set_agent_state(tx, agent, "paused")
    elif state != "paused":
        raise Refused("conflict", f"{agent} does no work anyway: it is in state {state}", f"see: awk queue {agent}")


def resume_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Give a paused or stopped agent work again; one that was neither may ask again a provider that held it back.

    A time that its provider had named is kept (promise P12): ``reset`` is for those who know better.
    Returns its instructions that had waited for that. Raises Refused: unknown_agent; conflict where it is in error.
    """
    state = _state(tx, agent)
    if state == "error":
        raise Refused("conflict", f"{agent} is in state error, not paused", f"clear it: awk reset {agent}")
    if state != "active":
        set_agent_state(tx, agent, "active")
    timed = tx.conn.execute(TIMED, (agent,)).fetchone() is not None
    return () if timed else release_agent(tx, agent)


TIMED: Final = "SELECT 1 FROM agents WHERE key = ? AND hold_key IS NOT NULL AND hold_until_ms > 0"


def stop_agent(tx: Transaction, agent: AgentKey) -> None:
    """Lease nothing of ``agent`` until it is resumed or reset; the dispatcher ends what runs.

    Raises Refused (unknown_agent).
    """
    if _state(tx, agent) != "stopped":
        set_agent_state(tx, agent, "stopped")


CLEAR: Final = """
UPDATE agents SET state = 'active', reason = NULL, crash_streak = 0, crashed_ms = 0, stepped = 0, resume_at_ms = 0
WHERE key = ?
"""
FORGET_CRASHES: Final = "DELETE FROM crashes WHERE agent = ?"
DUE: Final = "UPDATE instructions SET not_before_ms = 0 WHERE agent = ? AND state IN ('queued', 'yielded')"


def reset_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Give ``agent`` work again at once, whatever kept it from it: error, crashes, backoff, a pause, a provider.

    Returns its instructions that had waited for a provider. Raises Refused (unknown_agent).
    """
    _state(tx, agent)
    tx.conn.execute(CLEAR, (agent,))
    tx.conn.execute(FORGET_CRASHES, (agent,))
    tx.conn.execute(DUE, (agent,))
    set_agent_state(tx, agent, "active")
    return release_agent(tx, agent)


def _state(tx: Transaction, agent: AgentKey) -> AgentState:
    row = tx.conn.execute(STATE, (agent,)).fetchone()
    if row is None:
        raise Refused("unknown_agent", f"there is no agent {agent!r}", "awk ls lists the agents")
    return cast(AgentState, row[0])


SET_PAUSED: Final = "UPDATE workflows SET paused = ? WHERE space = ? AND state = 'running' AND paused <> ? RETURNING id"
RUNS: Final = "SELECT 1 FROM workflows WHERE space = ? AND state = 'running'"
# What the index of a space's open instructions says comes first, so that it is used.
LANED: Final = """
SELECT id FROM instructions WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
  AND state IN ('queued', 'yielded') ORDER BY id
"""
KEPT: Final = """
SELECT id FROM instructions WHERE space = ? AND state IN ('queued', 'leased', 'running', 'yielded', 'waiting')
  AND state = 'waiting' AND waits_for = 'paused' ORDER BY id
"""


def pause_workflow(tx: Transaction, space: str) -> None:
    """Have all work of ``space`` wait; what runs there gives way after its next entry. Paused already: no change.

    A time that a queued one had been waiting for is forgotten. Raises Refused (workflow_not_running).
    """
    if _set_paused(tx, space, paused=True):
        for number in _numbers(tx, LANED, space):
            keep_paused(tx, number)


def resume_workflow(tx: Transaction, space: str) -> None:
    """Let the work of ``space`` go on that waited for this. Raises Refused (workflow_not_running)."""
    if _set_paused(tx, space, paused=False):
        for number in _numbers(tx, KEPT, space):
            wake(tx, number)


def continue_workflow(tx: Transaction, space: str) -> tuple[InstructionId, ...]:
    """Give ``space`` its limits once more: what waits for hops or a budget goes on. Returns those instructions.

    A paused workflow stays paused. Raises Refused (workflow_not_running).
    """
    granted = _kept(tx, grant(tx, space))
    _tell(tx, space, "running", "continued")
    return granted


def continue_agent(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Give ``agent`` its own budget once more: what waits for that goes on, and what it left incomplete is taken up.

    Returns those instructions. Where the budget of their workflow is used up too they will wait again.
    Raises Refused (unknown_agent).
    """
    _state(tx, agent)
    return (*_kept(tx, grant_agent(tx, agent)), *go_on(tx, agent))


def _kept(tx: Transaction, granted: tuple[InstructionId, ...]) -> tuple[InstructionId, ...]:
    """What a limit let go, held back again where its workflow is paused."""
    for one in granted:
        keep_paused(tx, number_of(one, "i") or 0)
    return granted


def _set_paused(tx: Transaction, space: str, *, paused: bool) -> bool:
    """Whether that is a change."""
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
