"""Threads of work: continued by a new instruction, compacted, and extended with answers of agents.

Each change is part of another commit. An answer is a note in the asker's conversation, stored once, when neither
instruction has a live attempt: when the asked one ends or the asker is requeued. A continued thread is copied with the
same entry numbers, so that the keys of its calls do not change; its cost remains with the old instruction. The user's
new message becomes a note at its end. The new instruction inherits the trust of the old one.
"""

from typing import Final, NamedTuple, cast

import msgspec

from kernel.store import waits
from kernel.store.entries import of, store_body
from kernel.store.rows import Sql
from kernel.store.transaction import Transaction
from kernel.store.trust import lower, of_work
from protocol.agent_memory import least
from protocol.instruction import ENDED, LIVE, Status
from protocol.ipc import Entry
from protocol.names import InstructionId, instruction_id

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
  vouched = coalesce(instructions.vouched, old.vouched), trust = max(instructions.trust, old.trust)
FROM instructions AS old WHERE instructions.id = :new AND old.id = :old
"""

# If no entry was durable or none is retained, the work starts from the beginning, but its identity and trust remain.
FOLLOW: Final = """
UPDATE instructions SET continues = :old, vouched = coalesce(instructions.vouched, old.vouched),
  trust = max(instructions.trust, old.trust)
FROM instructions AS old WHERE instructions.id = :new AND old.id = :old
"""

NOTE: Final = """
INSERT INTO entries (instruction, k, epoch, kind, body, blob, at_ms) VALUES (?, ?, 0, 'note', ?, ?, ?)
"""

NOTE_CHARACTERS: Final = 100_000
"""Limit that keeps a note within one line of a worker's link, even after JSON escaping."""

_encode: Final = msgspec.json.Encoder().encode


def continue_thread(tx: Transaction, new: int, old: int, text: str) -> bool:
    """Continue the thread of ``old`` in instruction ``new``, with ``text`` as the last note.

    Return False if ``old`` has no entries: ``new`` starts from the beginning.
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
    """Store a note as entry ``k``. The caller increments the number of entries."""
    cut = text if len(text) <= NOTE_CHARACTERS else f"{text[:NOTE_CHARACTERS]}\n[cut here]"
    note = Entry(k=k, kind="note", text=cut)
    tx.conn.execute(NOTE, (number, k, *store_body(tx, _encode(note), number), tx.now_ms))


ASK_AGENT: Final = "ask_agent"
"""The tool after whose entry an attempt yields its slot until the answer arrives."""

STATE: Final = "SELECT state, waits_for FROM instructions WHERE id = ?"


def answer(tx: Transaction, asker: int) -> None:
    """Store the answers that ``asker`` has got; wake it if no answer is missing any more."""
    row = tx.conn.execute(STATE, (asker,)).fetchone()
    if row is None or row[0] in ENDED or row[0] in LIVE:
        return  # the asker has ended, or receives the answer when its attempt is requeued
    still_open = take_answers(tx, asker)
    if row != ("waiting", "answer"):
        return
    if still_open is None:
        waits.wake(tx, (asker,))
    else:
        waits.set_key(tx, asker, still_open)


class _Asked(NamedTuple):
    number: int
    name: str
    state: Status
    error_class: str | None
    cause: str | None
    text: str


ASKED: Final = """
SELECT id, name, state, error_class, cause, result_text FROM instructions INDEXED BY instructions_asked
WHERE asked_by = ? AND told = 0 ORDER BY id
"""

TOLD: Final = "UPDATE instructions SET told = 1 WHERE id = ?"

COUNT: Final = "UPDATE instructions SET entries = entries + 1 WHERE id = ? RETURNING entries - 1"


def take_answers(tx: Transaction, asker: int) -> InstructionId | None:
    """Store new answers as entries of ``asker``. Return the first request without an answer."""
    rows = [
        _Asked(*cast("tuple[int, str, Status, str | None, str | None, str]", row))
        for row in cast("list[object]", tx.conn.execute(ASKED, (asker,)).fetchall())
    ]
    for one in rows:
        if one.state in ENDED:
            (k,) = cast("tuple[int]", tx.conn.execute(COUNT, (asker,)).fetchone())
            # The note for the asker. Only if ``one`` is done, its text is the agent's answer.
            which = instruction_id(one.number)
            if one.state != "done":
                why = ": ".join(part for part in (one.error_class, one.cause) if part) or "cause unknown"
                words = f"({one.name} did not answer: {which} ended {one.state}, {why}.)"
            elif not one.text.strip():
                words = f"({one.name} completed {which} without a text.)"
            else:
                words = f"{one.name} answers ({which}):\n\n{one.text}"
            add_note(tx, asker, k, words)
            lower(tx, asker, least(("agent", of_work(tx.conn, one.number))))
            tx.conn.execute(TOLD, (one.number,))
    return next((instruction_id(one.number) for one in rows if one.state not in ENDED), None)


def wait_for_answers(tx: Transaction, asker: int) -> bool:
    """Let a queued instruction wait if an answer is missing. Return whether it waits."""
    still_open = take_answers(tx, asker)
    return still_open is not None and waits.wait(tx, asker, "answer", still_open)


INHERIT: Final = "UPDATE instructions SET asked_by = :new WHERE asked_by = :old AND told = 0"


def inherit_questions(tx: Transaction, new: int, old: int) -> None:
    """Let ``new``, which continues ``old``, wait for the answers that ``old`` expected."""
    tx.conn.execute(INHERIT, {"new": new, "old": old})
    wait_for_answers(tx, new)


forget_questions = Sql("UPDATE instructions SET told = 1 WHERE asked_by = ? AND told = 0").change()
"""Discard the open questions of an instruction that starts from the beginning: their answers reach no agent."""


NOTICE: Final = (
    "(The conversation exceeded the context limit. Earlier tool results are shortened from here on; "
    "call the tools again if you need more. Continue the work.)"
)

LAST: Final = "SELECT entries FROM instructions WHERE id = ? AND entries > 0"

COUNT_NOTE: Final = "UPDATE instructions SET entries = entries + 1 WHERE id = ?"


def compact(tx: Transaction, number: int) -> None:
    """Add a note to continue from, if the last reply was cut off at the context limit."""
    row = tx.conn.execute(LAST, (number,)).fetchone()
    if row is None:
        return
    count = int(str(row[0]))
    last = of(tx.conn, instruction_id(number), count - 1)
    if last and last[0].stop_reason == "context_overflow":
        add_note(tx, number, count, NOTICE)
        tx.conn.execute(COUNT_NOTE, (number,))
