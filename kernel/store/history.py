"""History of agents, read from the log: their messages, the messages delivered to them, and the steps of their work.

A step is a reply with all its calls and their results: a call is never shown without its result, or a result without
its call. Deleted data is not included. A closing reply appears as its message.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

import apsw

from kernel.store.entries import ReplyStep, steps_of
from kernel.store.messages import MESSAGES, message_of
from kernel.store.recall_index import IndexProgress
from kernel.store.rows import Sql
from kernel.store.transaction import rfc3339
from kernel.store.turn_index import IndexedTurn, TurnPlace
from kernel.store.workflows import memory_spaces
from protocol.api.history import HistoryCall, HistoryTurn
from protocol.names import base_space, instruction_id, message_id, name_of, place_of

BATCH: Final = 500
"""Messages or instructions per commit of the index."""

log_name = Sql("SELECT at_ms || '-' || pid FROM boots ORDER BY id LIMIT 1").scalar(str, "")
"""Return the identifier of this log: the time and pid of its first start."""

NEWEST: Final = """
SELECT (SELECT coalesce(max(seq), 0) FROM messages),
  (SELECT max(coalesce((SELECT max(seq) FROM events), 0), k.events) FROM kept AS k WHERE k.id = 1),
  (SELECT coalesce(max(id), 0) FROM instructions)
"""


def newest(conn: apsw.Connection) -> tuple[int, int, int]:
    """Return the numbers of the newest message, event and instruction."""
    return cast("tuple[int, int, int]", conn.execute(NEWEST).fetchone())


# The agent that sent a message, if any, and each agent that received it.
SAID: Final = """
SELECT m.seq, m.space, m.at_ms, m.sender, m.text, i.agent
FROM messages AS m CROSS JOIN instructions AS i ON i.id = m.cause
WHERE m.seq > :after AND m.seq <= :upto AND m.cleared = 0 AND m.text <> ''
  AND m.kind NOT IN ('approval', 'due', 'done', 'failed') AND i.name = m.sender
UNION
SELECT m.seq, m.space, m.at_ms, m.sender, m.text, d.agent
FROM messages AS m CROSS JOIN deliveries AS d ON d.message = m.seq
WHERE m.seq > :after AND m.seq <= :upto AND m.cleared = 0 AND m.text <> ''
  AND m.kind NOT IN ('approval', 'due', 'done', 'failed')
ORDER BY 1
"""
WORKED: Final = """
SELECT e.seq, e.type, e.instruction, e.space, e.agent, json_extract(CAST(e.data AS TEXT), '$.state')
FROM events AS e WHERE e.seq > ? AND e.seq <= ? AND (e.type IN ('instruction.ended', 'attempt.ended', 'space.cleared')
  OR e.type = 'agent.changed') ORDER BY e.seq LIMIT ?
"""
OLDER: Final = "SELECT id FROM instructions WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
OLDEST_EVENT: Final = "SELECT events FROM kept WHERE id = 1"


class TurnChanges(NamedTuple):
    """Changes of the log: new turns, cleared spaces, deleted agents; and the next position."""

    turns: tuple[IndexedTurn, ...]
    spaces: tuple[str, ...]
    agents: tuple[str, ...]
    upto: IndexProgress
    more: bool


def changes(conn: apsw.Connection, at: IndexProgress) -> TurnChanges:
    """Return the next changes that the index lacks. May read many rows: call in a thread."""
    message, event, instruction = newest(conn)
    last = at.last_instruction
    since = at.event
    if since < int(conn.execute(OLDEST_EVENT).get) or (at.event == 0 and last == 0):
        # Read every instruction if events since ``at`` were deleted, and at the first time.
        since, last, at = event, instruction, at._replace(instruction=0)
    upto = min(message, at.message + BATCH)
    turns = list(_messages(conn, at.message, upto))
    rows = conn.execute(WORKED, (since, event, BATCH)).fetchall()
    full = len(rows) == BATCH
    reached = int(str(rows[-1][0])) if full else event
    spaces = tuple(str(row[3]) for row in rows if row[1] == "space.cleared")
    agents = tuple(str(row[4]) for row in rows if row[1] == "agent.changed" and row[5] == "deleted")
    older = [int(str(row[0])) for row in conn.execute(OLDER, (at.instruction, last, BATCH))]
    done = older[-1] if older else last
    for number in dict.fromkeys([*(int(str(row[2])) for row in rows if row[2] is not None), *older]):
        turns += _steps(conn, number)
    in_memory = memory_spaces(conn, "")  # no file contains their words
    turns = [one for one in turns if base_space(one.place.space) not in in_memory]
    following = IndexProgress(at.log, upto, reached, done, last)
    return TurnChanges(tuple(turns), spaces, agents, following, upto < message or full or done < last)


def _messages(conn: apsw.Connection, after: int, upto: int) -> Iterator[IndexedTurn]:
    for row in conn.execute(SAID, {"after": after, "upto": upto}):
        seq, space, at_ms, sender, text, agent = cast("tuple[int, str, int, str, str, str]", row)
        yield IndexedTurn(agent, TurnPlace("message", seq, 0, space, at_ms), f"{sender} {text}")


OWNER: Final = "SELECT agent, space, result_text FROM instructions WHERE id = ?"


def _steps(conn: apsw.Connection, number: int) -> Iterator[IndexedTurn]:
    row = conn.execute(OWNER, (number,)).fetchone()
    if row is None:
        return
    agent, space, result = cast("tuple[str, str, str]", row)
    for step in steps_of(conn, number):
        if step.calls or (step.text.strip() and step.text.strip() != result.strip()):
            called = (f"{call.tool} {call.input} {call.output}" for call in step.calls)
            yield IndexedTurn(
                agent, TurnPlace("step", number, step.k, space, step.at_ms), "\n".join([step.text, *called])
            )


OWN: Final = """
WHERE seq = :seq AND cleared = 0
  AND (EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message = messages.seq AND d.agent = :agent)
    OR EXISTS (SELECT 1 FROM instructions AS i WHERE i.id = messages.cause AND i.agent = :agent))
"""
MESSAGE: Final = f"{MESSAGES} {OWN}"


def texts(conn: apsw.Connection, agent: str, places: Iterable[TurnPlace]) -> dict[TurnPlace, HistoryTurn]:
    """Return the texts of turns of ``agent``; deleted turns and other agents' are omitted."""
    found: dict[TurnPlace, HistoryTurn] = {}
    works: dict[int, Sequence[ReplyStep]] = {}
    for place in places:
        if place.kind == "message":
            row = conn.execute(MESSAGE, {"seq": place.number, "agent": agent}).fetchone()
            if row is not None:
                said = message_of(row)
                found[place] = HistoryTurn(
                    id=message_id(place.number),
                    at=said.at,
                    space=place_of(place.space),
                    sender=said.sender,
                    to=said.to,
                    text=said.text,
                )
            continue
        if place.number not in works:
            owner = conn.execute(OWNER, (place.number,)).fetchone()
            works[place.number] = steps_of(conn, place.number) if owner is not None and owner[0] == agent else ()
        step = next((one for one in works[place.number] if one.k == place.k), None)
        if step is not None:
            found[place] = HistoryTurn(
                id=f"{instruction_id(place.number)}.{place.k + 1}",
                at=rfc3339(step.at_ms),
                space=place_of(place.space),
                sender=name_of(agent),
                text=step.text,
                calls=tuple(HistoryCall(tool=one.tool, input=one.input, output=one.output) for one in step.calls),
            )
    return found


GONE: Final = """
SELECT NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.seq = ? AND m.cleared = 0)
"""
GONE_STEP: Final = "SELECT NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.instruction = ? AND e.k = ?)"


def gone(conn: apsw.Connection, places: Iterable[TurnPlace]) -> tuple[TurnPlace, ...]:
    """Return the ``places`` whose texts were deleted from the log."""
    return tuple(
        place
        for place in places
        if (
            conn.execute(GONE, (place.number,)).get
            if place.kind == "message"
            else conn.execute(GONE_STEP, (place.number, place.k)).get
        )
    )
