"""Work that waits for a person, moved to another member: by the user, or because nobody answered in time.

The instruction stays the same, so who asked goes on with the answer of whoever gives it. The channel is told, and so is
the one who was asked before, who may be about to answer.
"""

from typing import Final, cast

from kernel.rule.assignment import not_running
from kernel.rule.draft import Draft, Fact
from kernel.store import tasks, waits
from kernel.store.instructions import Found, find
from kernel.store.rows import delivery_sql
from kernel.store.rule_view import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions.apply_effects import apply_fact
from kernel.store.transitions.close import WAITS_FOR_PERSON, close_incomplete
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.message import SYSTEM
from protocol.names import AgentKey, instruction_id, is_personal, place_of, split_space


def reassign(tx: Transaction, instruction: str, to: str) -> None:
    """Have the member ``to`` asked in place of the person that ``instruction`` waits for. A model takes it up at once.

    Raises Refused: not_found; conflict where it waits for no person, or has been answered; not_a_participant.
    """
    found, see = find(tx.conn, instruction), f"see it: awk show {instruction}"
    if found.state in ENDED:
        raise Refused("conflict", f"{instruction} of {found.name} has ended: {found.state}", see)
    if tx.conn.execute(WAITS_FOR_PERSON, (found.number,)).fetchone() is None:
        raise Refused("conflict", f"{instruction} of {found.name} waits for no answer of a person", see)
    if is_personal(found.space):
        text = f"{instruction} was said to {split_space(found.space)[1]} alone"
        raise Refused("not_a_participant", text, "send it to somebody else, and cancel this one")
    view = TransactionView(tx.conn)
    if view.workspace(found.space) is None:
        raise not_running(found.space)
    key = view.member(found.space, to)
    if key is None:
        members = ", ".join(view.member_names(found.space))
        raise Refused("not_a_participant", f"{to[:60]!r} is not in {place_of(found.space)} (members: {members})")
    if key == found.agent:
        raise Refused("conflict", f"{instruction} is {to}'s already", see)
    if key in view.askers(found.number):
        raise Refused("conflict", f"{to} waits for what comes of {instruction}", "ask somebody else")
    _move(tx, found, key, to, f"{instruction} of {found.name} is {to}'s now, as the user says")


OVERDUE: Final = """
SELECT i.id, i.epoch, CASE WHEN m.backend IS NOT NULL OR a.definition IS NULL THEN NULL
  ELSE json_extract(CAST(a.definition AS TEXT), '$.timeouts.escalate') END
FROM instructions AS i INDEXED BY instructions_answer_by CROSS JOIN agents AS a ON a.key = i.agent
LEFT JOIN members AS m ON m.space = i.space AND m.name = i.name AND m.agent = i.agent
WHERE i.state = 'waiting' AND i.answer_by_ms > 0 AND i.answer_by_ms <= ? AND i.waits_for = 'person'
ORDER BY i.answer_by_ms, i.id
"""
# Whoever the message reached was asked too, or has been before: nobody is asked in a circle.
REACHED: Final = """
SELECT 1 FROM instructions AS i CROSS JOIN deliveries AS d ON d.message = i.message AND d.agent = ? WHERE i.id = ?
"""


def expire_answers(tx: Transaction) -> None:
    """Have somebody else asked what no person has answered in time, or end it as incomplete."""
    overdue = cast("list[tuple[int, int, str | None]]", tx.conn.execute(OVERDUE, (tx.now_ms,)).fetchall())
    for number, epoch, to in overdue:
        found, view = find(tx.conn, instruction_id(number)), TransactionView(tx.conn)
        key = None
        if to is not None and not is_personal(found.space) and view.workspace(found.space) is not None:
            key = view.member(found.space, to)
        asks = key is not None and key in view.askers(number)
        if to is None or key is None or asks or tx.conn.execute(REACHED, (key, number)).fetchone() is not None:
            close_incomplete(tx, number, epoch, "total_timeout")
            continue
        text = f"{instruction_id(number)} of {found.name} is {to}'s now: nobody answered in time"
        _move(tx, found, key, to, text)


MOVE: Final = "UPDATE instructions SET agent = :key, name = :name, answer_by_ms = 0 WHERE id = :id"
DELIVER: Final = """
INSERT OR IGNORE INTO deliveries (message, agent, name, space, state, instruction)
SELECT d.message, :key, :name, d.space, 'queued', :id FROM deliveries AS d
WHERE d.instruction = :id AND d.agent = :old
"""
RELEASE: Final = delivery_sql("""
UPDATE deliveries SET state = {ack}, instruction = NULL WHERE instruction = :id AND agent = :old AND state {before ack}
""")


def _move(tx: Transaction, found: Found, key: AgentKey, name: str, text: str) -> None:
    values = {"id": found.number, "key": key, "name": name, "old": found.agent}
    for statement in (MOVE, DELIVER, RELEASE):
        tx.conn.execute(statement, {one: values[one] for one in values if f":{one}" in statement})
    tasks.hand_on(tx, found.number, found.name, name)
    waits.wake(tx, (found.number,))
    told = Draft(kind="document", space=found.space, sender=SYSTEM, text=f"[MOVED] {text}", mentions=(found.name,))
    apply_fact(tx, Fact(told))
