"""Give a new instruction the thread of one that was left incomplete. Part of the commit that makes it, never a job.

Its entries are copied under the same numbers, so the keys of its calls stay what they were; what they cost stays
booked where it was. What the user said then is a note at their end. What the old one was trusted to do, the new one is.
"""

from typing import Final

import msgspec

from kernel.store.commits.entry_body import store_body
from kernel.store.transaction import Transaction
from protocol.ipc import Entry

COPY: Final = """
INSERT INTO entries (instruction, k, epoch, kind, body, blob, at_ms)
SELECT :new, e.k, 0, e.kind, e.body, e.blob, e.at_ms
FROM instructions AS old CROSS JOIN entries AS e ON e.instruction = old.id AND e.k >= old.aside
WHERE old.id = :old ORDER BY e.k
RETURNING k, kind
"""

TAKE: Final = """
UPDATE instructions SET continues = :old, entries = :entries, carried_steps = :steps, prefix = old.prefix,
  manifest = old.manifest, aside = old.aside, compacted = old.compacted,
  vouched = coalesce(instructions.vouched, old.vouched)
FROM instructions AS old WHERE instructions.id = :new AND old.id = :old
"""

# Nothing was durable, or it is not kept any more: the work begins anew, and is still the same work.
FOLLOW: Final = """
UPDATE instructions SET continues = :old, vouched = coalesce(instructions.vouched, old.vouched)
FROM instructions AS old WHERE instructions.id = :new AND old.id = :old
"""

NOTE: Final = """
INSERT INTO entries (instruction, k, epoch, kind, body, blob, at_ms) VALUES (?, ?, 0, 'note', ?, ?, ?)
"""

NOTE_CHARACTERS: Final = 100_000
"""Whatever JSON makes of them, they fit into one line of a worker's link."""

_encode: Final = msgspec.json.Encoder().encode


def take_up(tx: Transaction, new: int, old: int, text: str) -> bool:
    """Let instruction ``new`` go on where ``old`` stopped, with ``text`` as what was said to it then.

    Returns whether there was anything to go on from.
    """
    copied = tx.conn.execute(COPY, {"new": new, "old": old}).fetchall()
    if not copied:
        tx.conn.execute(FOLLOW, {"new": new, "old": old})
        return False
    k = max(int(str(row[0])) for row in copied) + 1
    steps = sum(row[1] == "reply" for row in copied)
    tx.conn.execute(TAKE, {"new": new, "old": old, "entries": k + 1, "steps": steps})
    add_note(tx, new, k, text)
    return True


def add_note(tx: Transaction, number: int, k: int, text: str) -> None:
    """Write a note as entry ``k``; the caller counts it."""
    cut = text if len(text) <= NOTE_CHARACTERS else f"{text[:NOTE_CHARACTERS]}\n[cut here]"
    note = Entry(k=k, kind="note", text=cut)
    tx.conn.execute(NOTE, (number, k, *store_body(tx, _encode(note)), tx.now_ms))
