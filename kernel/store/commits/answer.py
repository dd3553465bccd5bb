"""The answer to what an agent asked another: a note in its conversation, written once. Part of commits, never a job.

Who asked is told when neither is at work: as the asked work ends, or, where the asker's attempt is still under way,
as that is put back. Work that waits for an answer is ``waiting`` for ``answer``, and holds neither a worker nor its
agent.
"""

from typing import Final, NamedTuple, cast

from kernel.store.commits.take_up import add_note
from kernel.store.commits.trip import wake
from kernel.store.transaction import Transaction
from protocol.instruction import ENDED, LANES, LIVE, Status
from protocol.names import InstructionId, instruction_id

ASK_AGENT: Final = "ask_agent"
"""The tool after whose entry an attempt makes room until the answer is there."""

STATE: Final = "SELECT state, waits_for FROM instructions WHERE id = ?"

NEXT_KEY: Final = "UPDATE instructions SET wait_key = ? WHERE id = ?"


def answer(tx: Transaction, asker: int) -> None:
    """Something that ``asker`` had asked for has ended: tell it, and let it go on once all is there."""
    row = tx.conn.execute(STATE, (asker,)).fetchone()
    if row is None or row[0] in ENDED or row[0] in LIVE:
        return  # nobody is left to be told, or it is told when its attempt is put back
    still_open = take_answers(tx, asker)
    if row != ("waiting", "answer"):
        return
    if still_open is None:
        wake(tx, asker)
    else:
        tx.conn.execute(NEXT_KEY, (still_open, asker))


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
    """Write down every answer that ``asker``, which nobody holds, has not had. Returns the first still to come."""
    rows = [_Asked(*cast("tuple[int, str, Status, str | None, str | None, str]", row)) for row in _asked(tx, asker)]
    for one in rows:
        if one.state in ENDED:
            (k,) = cast("tuple[int]", tx.conn.execute(COUNT, (asker,)).fetchone())
            add_note(tx, asker, k, _words(one))
            tx.conn.execute(TOLD, (one.number,))
    return next((instruction_id(one.number) for one in rows if one.state not in ENDED), None)


def _asked(tx: Transaction, asker: int) -> list[object]:
    return cast("list[object]", tx.conn.execute(ASKED, (asker,)).fetchall())


def _words(asked: _Asked) -> str:
    """What the asker is told. Only an answer is told in the agent's own words."""
    which = instruction_id(asked.number)
    if asked.state != "done":
        why = ": ".join(part for part in (asked.error_class, asked.cause) if part) or "cause unknown"
        return f"(No answer comes from {asked.name}: {which} ended {asked.state}, {why}.)"
    if not asked.text.strip():
        return f"({asked.name} is done with {which} and said nothing.)"
    return f"{asked.name} answers ({which}):\n\n{asked.text}"


WAIT: Final = """
UPDATE instructions SET state = 'waiting', waits_for = 'answer', wait_key = ?, not_before_ms = 0
WHERE id = ? AND state IN ('queued', 'yielded') RETURNING name, space, lane
"""


def keep_asking(tx: Transaction, asker: int) -> bool:
    """Have an instruction that was put into its lane wait where an answer is still to come. Returns whether it does."""
    still_open = take_answers(tx, asker)
    row = None if still_open is None else tx.conn.execute(WAIT, (still_open, asker)).fetchone()
    if row is None:
        return False
    name, space, lane = row
    data = {"status": "waiting", "lane": LANES[lane], "not_before": None, "waits_for": "answer"}
    tx.emit("instruction.queued", space=space, agent=name, instruction=asker, data=data)
    return True


INHERIT: Final = "UPDATE instructions SET asked_by = :new WHERE asked_by = :old AND told = 0"


def inherit_questions(tx: Transaction, new: int, old: int) -> None:
    """``new`` goes on where ``old`` stopped: what that had asked is answered to it, and it waits for what is open."""
    tx.conn.execute(INHERIT, {"new": new, "old": old})
    keep_asking(tx, new)


FORGET: Final = "UPDATE instructions SET told = 1 WHERE asked_by = ? AND told = 0"


def forget_questions(tx: Transaction, asker: int) -> None:
    """The work begins afresh: what it had asked is answered to nobody."""
    tx.conn.execute(FORGET, (asker,))
