"""Apply changes that are due: ended waits, breakers to probe, starved work and expired requests.

An instruction that waits for a person moves to another member at the user's request, or when no
answer came in time. It stays the same instruction, so that its author gets the answer of either
member. The channel is notified, and so is the first member, who may be about to answer.
"""

from typing import Final, cast

import apsw

from kernel.policy.circuit_breaker import HALF_OPEN_MS
from kernel.rule.assignment import not_running
from kernel.rule.draft import Draft, Fact
from kernel.store import circuit_breakers, tasks, waits
from kernel.store.circuit_breakers import probe, release_probe
from kernel.store.instructions import FoundInstruction, find
from kernel.store.rows import delivery_sql
from kernel.store.rules import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions.apply_effects import apply_fact
from kernel.store.transitions.approvals import expire
from kernel.store.transitions.close import WAITS_FOR_PERSON, close_incomplete
from kernel.store.transitions.voting import expire_proposals
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.message import SYSTEM
from protocol.names import AgentKey, instruction_id, is_personal, place_of, split_space


def reassign(tx: Transaction, instruction: str, to: str) -> None:
    """Move an instruction that waits for a person to the member ``to``; a model starts at once.

    Raises Refused: not_found; conflict if it waits for no person or was answered; not_a_participant.
    """
    found, see = find(tx.conn, instruction), f"see it: awk show {instruction}"
    if found.state in ENDED:
        raise Refused("conflict", f"{instruction} of {found.name} has ended: {found.state}", see)
    if tx.conn.execute(WAITS_FOR_PERSON, (found.number,)).fetchone() is None:
        raise Refused("conflict", f"{instruction} of {found.name} does not wait for a person's answer", see)
    if is_personal(found.space):
        text = f"{instruction} was sent only to {split_space(found.space)[1]}"
        raise Refused("not_a_participant", text, "send the message to another agent and cancel this instruction")
    view = TransactionView(tx.conn)
    if view.workspace(found.space) is None:
        raise not_running(found.space)
    key = view.member(found.space, to)
    if key is None:
        members = ", ".join(view.member_names(found.space))
        raise Refused(
            "not_a_participant", f"agent {to[:60]!r} is not a member of {place_of(found.space)} (members: {members})"
        )
    if key == found.agent:
        raise Refused("conflict", f"{instruction} is already assigned to {to}", see)
    if key in view.askers(found.number):
        raise Refused("conflict", f"{to} waits for the result of {instruction}", "choose another member")
    _move(tx, found, key, to, f"the user assigned {instruction} of {found.name} to {to}")


OVERDUE: Final = """
SELECT i.id, i.epoch, CASE WHEN m.backend IS NOT NULL OR a.definition IS NULL THEN NULL
  ELSE json_extract(CAST(a.definition AS TEXT), '$.timeouts.escalate') END
FROM instructions AS i INDEXED BY instructions_answer_by CROSS JOIN agents AS a ON a.key = i.agent
LEFT JOIN members AS m ON m.space = i.space AND m.name = i.name AND m.agent = i.agent
WHERE i.state = 'waiting' AND i.answer_by_ms > 0 AND i.answer_by_ms <= ? AND i.waits_for = 'person'
ORDER BY i.answer_by_ms, i.id
"""
# The message's recipients are or were asked already: work does not go back to them.
REACHED: Final = """
SELECT 1 FROM instructions AS i CROSS JOIN deliveries AS d ON d.message = i.message AND d.agent = ? WHERE i.id = ?
"""


def expire_answers(tx: Transaction) -> None:
    """Move work that no person answered in time to another member, or end it as incomplete."""
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
        text = f"{instruction_id(number)} of {found.name} was assigned to {to}: no answer in time"
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


def _move(tx: Transaction, found: FoundInstruction, key: AgentKey, name: str, text: str) -> None:
    values = {"id": found.number, "key": key, "name": name, "old": found.agent}
    for statement in (MOVE, DELIVER, RELEASE):
        tx.conn.execute(statement, {one: values[one] for one in values if f":{one}" in statement})
    tasks.hand_on(tx, name, found.number, found.name)
    waits.wake(tx, (found.number,))
    told = Draft(kind="document", space=found.space, sender=SYSTEM, text=f"[MOVED] {text}", mentions=(found.name,))
    apply_fact(tx, Fact(told))


AGED: Final = 500
"""Limit per commit, so that aging 100,000 instructions does not block other writers."""
AGE: Final = """
UPDATE instructions SET lane = 0, promoted = 1
WHERE id IN (SELECT i.id FROM instructions AS i
  WHERE i.state IN ('queued', 'yielded') AND i.lane > 0 AND i.enqueued_ms <= ? ORDER BY i.enqueued_ms, i.id LIMIT ?)
RETURNING id, name, space, state
"""

OVER: Final = """
SELECT id FROM instructions INDEXED BY instructions_timed
WHERE state = 'waiting' AND not_before_ms > 0 AND not_before_ms <= ? AND wait_key IS NULL AND waits_for <> 'paused'
ORDER BY lane, id
"""

# Half-open breakers: the probing instruction, and the time at which another one may probe instead.
PLACES: Final = """
SELECT b.probe, CASE
  -- it can be leased but was not yet: it keeps the slot for :patience
  WHEN EXISTS (SELECT 1 FROM instructions AS i
    CROSS JOIN agents AS a ON a.key = i.agent AND a.state = 'active' AND a.hold_key IS NULL
    WHERE i.id = b.probe AND i.state IN ('queued', 'yielded')) THEN b.changed_ms + :patience
  -- it cannot be leased: the slot is free at once
  ELSE 1 END
FROM breakers AS b WHERE b.state = 'half_open'
  -- skip breakers whose agent is already trying,
  AND NOT EXISTS (SELECT 1 FROM instructions AS i
    CROSS JOIN instructions AS live ON live.agent = i.agent AND live.state IN ('leased', 'running')
    CROSS JOIN attempts AS t ON t.instruction = live.id AND t.epoch = live.epoch AND t.started_ms >= b.changed_ms
    WHERE i.id = b.probe)
  -- and breakers for which no other work or agent waits
  AND (EXISTS (SELECT 1 FROM instructions AS w CROSS JOIN agents AS a ON a.key = w.agent AND a.state = 'active'
      WHERE w.state = 'waiting' AND w.wait_key = b.key)
    OR EXISTS (SELECT 1 FROM agents AS h WHERE h.hold_key = b.key AND h.state = 'active'))
"""


def _places(conn: apsw.Connection) -> list[tuple[int, int]]:
    return cast("list[tuple[int, int]]", conn.execute(PLACES, {"patience": HALF_OPEN_MS}).fetchall())


# An account precedes its models, which are not probed while the account's breaker is open.
# A lasting breaker without waiting work stays open: the next attempt that needs the model claims the probe.
WANTED: Final = """AND (NOT b.lasting
    OR EXISTS (SELECT 1 FROM instructions WHERE state = 'waiting' AND wait_key = b.key)
    OR EXISTS (SELECT 1 FROM agents WHERE hold_key = b.key))"""
PROBE: Final = """
SELECT b.key FROM breakers AS b WHERE b.state = 'open' AND b.open_until_ms > 0 AND b.open_until_ms <= ?
  AND NOT EXISTS (SELECT 1 FROM breakers AS a
    WHERE a.state <> 'closed' AND a.key || '/' = substr(b.key, 1, length(a.key) + 1))
{wanted}
ORDER BY b.key
""".replace("{wanted}", WANTED)


def apply_due(tx: Transaction, starvation_ms: int) -> None:
    """Apply some of the due changes; call again until nothing is due. Writes nothing then."""
    aged = tx.conn.execute(AGE, (tx.now_ms - starvation_ms, AGED)).fetchall()
    for number, name, space, state in cast("list[tuple[int, str, str, str]]", aged):
        waits.tell_queued(tx, number, name, space, 0, state)
    over = cast("list[tuple[int]]", tx.conn.execute(OVER, (tx.now_ms,)).fetchall())
    circuit_breakers.wake(tx, (number for (number,) in over))
    for number, free_ms in _places(tx.conn):
        if free_ms <= tx.now_ms:
            release_probe(tx, number)
    for (key,) in tx.conn.execute(PROBE, (tx.now_ms,)).fetchall():
        probe(tx, str(key))
    expire(tx)
    expire_proposals(tx)
    expire_answers(tx)


NEXT: Final = """
SELECT min(
  -- starved work, the end of a wait, a probe of a breaker, the deadline of an approval or a vote
  coalesce((SELECT min(i.enqueued_ms) + :starvation FROM instructions AS i INDEXED BY instructions_aging
    WHERE i.state IN ('queued', 'yielded') AND i.lane > 0), :never),
  coalesce((SELECT min(i.not_before_ms) FROM instructions AS i INDEXED BY instructions_timed
    WHERE i.state = 'waiting' AND i.not_before_ms > 0 AND i.wait_key IS NULL AND i.waits_for <> 'paused'), :never),
  coalesce((SELECT min(b.open_until_ms) FROM breakers AS b WHERE b.state = 'open' AND b.open_until_ms > 0
    AND NOT EXISTS (SELECT 1 FROM breakers AS a
      WHERE a.state <> 'closed' AND a.key || '/' = substr(b.key, 1, length(a.key) + 1)) {wanted}), :never),
  coalesce((SELECT min(p.expires_ms) FROM approvals AS p WHERE p.state = 'open'), :never),
  coalesce((SELECT min(v.expires_ms) FROM ballots AS v WHERE v.state = 'open'), :never),
  -- the deadline of a person's answer
  coalesce((SELECT min(i.answer_by_ms) FROM instructions AS i INDEXED BY instructions_answer_by
    WHERE i.state = 'waiting' AND i.answer_by_ms > 0 AND i.waits_for = 'person'), :never))
""".replace("{wanted}", WANTED)
NEVER: Final = 2**62


def next_due_ms(conn: apsw.Connection, starvation_ms: int) -> int | None:
    """Return the time of the next due change, or None."""
    row = conn.execute(NEXT, {"starvation": starvation_ms, "never": NEVER}).fetchone()
    due_ms = min((NEVER if row is None else int(row[0]), *(free_ms for _probe, free_ms in _places(conn))))
    return None if due_ms == NEVER else due_ms
