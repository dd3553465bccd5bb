"""Make one entry of an attempt durable, and return whether the attempt should yield.

The commit of the first entry also stores the attempt's prompt.
"""

from typing import Final, Literal

import msgspec

from kernel.policy.provenance import class_of_entry
from kernel.store.attempts import Beginning, held, stale, started, tell_started, use
from kernel.store.entries import FrozenPrompt, put, store_body
from kernel.store.rows import amounts_of, delivery_sql, instruction_sql
from kernel.store.transaction import Transaction
from kernel.store.transitions.limits import spend
from kernel.store.transitions.threads import ASK_AGENT
from protocol.agent_memory import CLASSES
from protocol.errors import Refused
from protocol.instruction import Usage
from protocol.ipc import Entry
from protocol.names import number_of
from protocol.text import encode_json

FREEZE: Final = """
UPDATE instructions SET prefix = :prefix, aside = :aside,
  carried_steps = CASE WHEN :aside > aside THEN 0 ELSE carried_steps END
WHERE id = :id
"""


class PromptSnapshot(msgspec.Struct, frozen=True):
    """Prompt to store with the first entry. Entries below ``aside`` belong to another prompt."""

    prompt: FrozenPrompt
    aside: int = 0


def save_prompt(tx: Transaction, number: int, frozen: PromptSnapshot) -> None:
    """Store the prompt of instruction ``number`` for all its later attempts."""
    prompt = frozen.prompt
    part = put(tx, prompt.system.encode(), number) if prompt.system else None
    prefix = put(tx, encode_json(msgspec.structs.replace(prompt, system="")), number, part=part)
    tx.conn.execute(FREEZE, {"id": number, "prefix": prefix, "aside": frozen.aside})


_encode: Final = msgspec.json.Encoder().encode
_NO_USAGE: Final = Usage()

# Fence, order and cost in one statement: zero rows mean a stale attempt, or not the next entry.
ADVANCE: Final = instruction_sql("""
UPDATE instructions SET state = {entry}, entries = entries + 1, steps = steps + :step, {add},
  throttled_ms = 0, trust = max(trust, :trust)
WHERE id = :id AND epoch = :epoch AND entries = :k AND state {before entry}
RETURNING agent, name, space, run, lane, steps,
  input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, cost_usd
""")

INSERT_ENTRY: Final = """
INSERT INTO entries (instruction, k, epoch, kind, body, blob, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
"""

INJECTED: Final = delivery_sql("UPDATE deliveries SET state = {inject} WHERE instruction = ? AND state {before inject}")

Pressing = Literal["urgent", "paused", "asked"]
"""Why an attempt should yield: more urgent work of its agent, a pause, or an open question of its own."""


def journal(
    tx: Transaction,
    instruction: str,
    epoch: int,
    entry: Entry,
    *,
    first: int = 0,
    frozen: PromptSnapshot | None = None,
    beginning: Beginning | None = None,
    metered: bool = False,
) -> Pressing | None:
    """Store an entry and book its usage; repeating it changes nothing. Return why to yield, or None.

    ``first`` is the number of this attempt's first entry, with which the prompt ``frozen`` is
    stored. ``beginning`` is set if the worker's start is not recorded yet. ``metered``: the entry
    counts against the instruction's quota of bytes. Raises Refused (stale_attempt; quota_reached;
    conflict if k is not the next number, or is taken by another body).
    """
    number = number_of(instruction, "i")
    usage = entry.usage or _NO_USAGE
    values = {
        "id": number,
        "epoch": epoch,
        "k": entry.k,
        "step": entry.kind == "reply",
        **amounts_of(usage),
        "trust": CLASSES.index(class_of_entry(entry)),
    }
    row = tx.conn.execute(ADVANCE, values).fetchone()
    if row is None:
        _check_repeated(tx, instruction, epoch, entry)
        if beginning is not None:
            started(tx, instruction, epoch, beginning)
        return None
    agent, name, space, run, lane, steps, tokens, cost_usd = row
    if beginning is not None and number is not None:
        tell_started(tx, number, epoch, name, space, beginning)
    body = _encode(entry)
    if metered:
        use(tx, held(tx.conn, instruction, epoch), text=body)
    tx.conn.execute(INSERT_ENTRY, (number, entry.k, epoch, entry.kind, *store_body(tx, body, number), tx.now_ms))
    if entry.k == first:
        tx.conn.execute(INJECTED, (number,))
        if frozen is not None and number is not None:
            save_prompt(tx, number, frozen)
    data = {"k": entry.k, "kind": entry.kind, "step": steps, "name": entry.name}
    if tokens:
        data |= {"tokens": tokens, "cost_usd": cost_usd}
    if entry.is_error:
        data |= {"is_error": True, "refused": entry.refused}
    tx.emit("instruction.step", space=space, agent=name, instruction=number, data=data)
    spend(tx, agent=agent, run=run, usage=usage, instruction=number)
    if entry.last:
        return None
    return "asked" if _asks(tx, number, entry) else _pressing(tx, agent, run, lane)


ASKS: Final = "SELECT 1 FROM instructions INDEXED BY instructions_asked WHERE asked_by = ? AND told = 0 LIMIT 1"


def _asks(tx: Transaction, number: int | None, entry: Entry) -> bool:
    """Return whether the entry has asked an agent. Only that tool's entries cost a query."""
    asked = entry.kind == "tool" and entry.name == ASK_AGENT
    return asked and tx.conn.execute(ASKS, (number,)).fetchone() is not None


PRESSING: Final = """
SELECT (SELECT 1 FROM instructions AS i INDEXED BY instructions_queue
    WHERE i.state IN ('queued', 'yielded') AND i.agent = :agent AND i.lane < :lane AND i.not_before_ms <= :now LIMIT 1),
  (SELECT a.state <> 'active' FROM agents AS a WHERE a.key = :agent),
  (SELECT w.paused FROM workflows AS w WHERE w.id = :run)
"""


def _pressing(tx: Transaction, agent: str, run: int | None, lane: int) -> Pressing | None:
    urgent, idle, paused = tx.conn.execute(
        PRESSING, {"agent": agent, "lane": lane, "now": tx.now_ms, "run": run}
    ).fetchone() or (None, None, None)
    return "paused" if idle or paused else "urgent" if urgent else None


STORED: Final = """
SELECT i.entries, CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM instructions AS i LEFT JOIN entries AS e ON e.instruction = i.id AND e.k = :k
  LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE i.id = :id AND i.epoch = :epoch AND i.state IN ('leased', 'running')
"""


def _check_repeated(tx: Transaction, instruction: str, epoch: int, entry: Entry) -> None:
    values = {"id": number_of(instruction, "i"), "epoch": epoch, "k": entry.k}
    row = tx.conn.execute(STORED, values).fetchone()
    if row is None:
        raise stale(instruction, epoch)
    entries, body = row
    if body is None:
        raise Refused("conflict", f"entry {entry.k} of {instruction} is out of order: the next is {entries}")
    if body != _encode(entry):
        raise Refused("conflict", f"entry {entry.k} of {instruction} was already written with different content")
