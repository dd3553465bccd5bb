"""A person looks at what was given up: it is tried again, or listed no more."""

from typing import Final

from kernel.store.commits.answer import forget_questions, keep_asking
from kernel.store.commits.approval_rows import unbind
from kernel.store.commits.find import Found, find
from kernel.store.commits.paused import keep_paused
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.instruction import LANES
from protocol.names import is_personal, place_of

# Its age counts from now: what failed last week is not starved. It belongs to the run that is there today.
RETRY: Final = """
UPDATE instructions SET state = 'queued', attempts = 0, crashes = 0, throttled_ms = 0, kernel_deaths = 0,
  progress_mark = -1, promoted = 0, preempted = 0, not_before_ms = 0, waits_for = NULL, wait_key = NULL,
  enqueued_ms = :now, ended_ms = NULL, cause = NULL, error_class = NULL, result_text = '', dismissed = 0,
  run = (SELECT w.id FROM workflows AS w WHERE w.space = instructions.space AND w.state = 'running')
WHERE id = :id AND state IN ('failed', 'dead')
RETURNING lane
"""

REVIVE: Final = "UPDATE deliveries SET state = 'queued' WHERE instruction = ? AND state = 'dead'"

FORGET_ENTRIES: Final = "DELETE FROM entries WHERE instruction = ?"
FORGET_EFFECTS: Final = "DELETE FROM effects WHERE instruction = ?"
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
WHERE m.space = ? AND m.agent = ?
"""


def retry(tx: Transaction, instruction: str, *, fresh: bool = False) -> None:
    """Put a failed or dead instruction back into its lane, as if never tried. It goes on after its last entry.

    ``fresh``: it begins again, and what its calls did may happen once more. Raises Refused: not_found; conflict in
    any other state; unknown_agent, workflow_not_running and not_a_participant where nobody could do it.
    """
    found = find(tx.conn, instruction)
    if found.state not in ("failed", "dead"):
        raise _not_given_up(found, instruction)
    _check_place(tx, found)
    if tx.conn.execute(CLEARED, (found.number,)).fetchone() is not None:
        raise Refused("conflict", f"what {instruction} was asked to do has been cleared", "send the message again")
    tx.conn.execute(RETRY, {"id": found.number, "now": tx.now_ms}).fetchall()
    tx.conn.execute(REVIVE, (found.number,))
    unbind(tx, found.number, everything=fresh)
    if fresh:
        tx.conn.execute(FORGET_ENTRIES, (found.number,))
        tx.conn.execute(FORGET_EFFECTS, (found.number,))
        tx.conn.execute(START_AFRESH, (found.number,))
        forget_questions(tx, found.number)
    if not keep_asking(tx, found.number) and not keep_paused(tx, found.number):
        data = {"status": "queued", "lane": LANES[found.lane], "not_before": None}
        tx.emit("instruction.queued", space=found.space, agent=found.name, instruction=found.number, data=data)


DISMISS: Final = "UPDATE instructions SET dismissed = 1 WHERE state IN ('failed', 'dead') AND dismissed = 0"


def dismiss(tx: Transaction) -> int:
    """List what is given up by now no more; it can still be shown, and tried again. Returns how many that were."""
    tx.conn.execute(DISMISS)
    return tx.conn.changes()


def _not_given_up(found: Found, instruction: str) -> Refused:
    hints = {
        "incomplete": f'go on with it: awk send {found.name} "continue"',
        "done": "send the message again to have it done again",
        "cancelled": "send the message again",
    }
    hint = hints.get(found.state, f"see it: awk show {instruction}")
    return Refused("conflict", f"{instruction} is {found.state}; retry takes what failed or is dead", hint)


def _check_place(tx: Transaction, found: Found) -> None:
    """Work never runs detached from its workflow (fault TF08), nor for an agent that is gone."""
    if tx.conn.execute(AGENT_THERE, (found.agent,)).fetchone() is None:
        raise Refused("unknown_agent", f"the agent {found.name} is gone", "awk ls lists the agents")
    if is_personal(found.space) or tx.conn.execute(MEMBER_NOW, (found.space, found.agent)).fetchone() is not None:
        return
    name = found.space.partition(":")[0]
    text = f"{found.name} is in no workflow {place_of(found.space)} now"
    raise Refused("workflow_not_running", text, f"start it: awk start {name}")
