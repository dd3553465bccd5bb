"""The judge: what was promised against what is there. It reads the database and the files, never the kernel's word."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from protocol.names import number_of
from tests.crash.scenario import Request

ENDED: Final = ("done", "incomplete", "failed", "dead", "cancelled")


def judge(database: Path, asked: Iterable[Request], steps: Path | None = None) -> list[str]:
    """Every promise that was broken, in words; empty: none. The kernel must be gone."""
    conn = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return _integrity(conn) or [
            *_accepted(conn, asked),
            *_instructions(conn),
            *_entries(conn),
            *_log(conn),
            *_approvals(conn),
            *_ballots(conn),
            *([] if steps is None else _steps(conn, steps)),
        ]
    finally:
        conn.close()


def integrity(database: Path) -> list[str]:
    """What is wrong with the file itself. The kernel must be gone."""
    conn = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return _integrity(conn)
    finally:
        conn.close()


def _rows(conn: apsw.Connection, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    return conn.execute(statement, values).fetchall()


def _integrity(conn: apsw.Connection) -> list[str]:
    return [f"integrity_check: {text}" for (text,) in _rows(conn, "PRAGMA integrity_check") if text != "ok"]


def _accepted(conn: apsw.Connection, asked: Iterable[Request]) -> Iterator[str]:
    said = Counter(text for (text,) in _rows(conn, "SELECT text FROM messages WHERE sender = 'user'"))
    for request in asked:
        told = request.answer is not None and request.answer.accepted
        if request.text is not None and not (told <= said[request.text] <= 1):
            yield f"{request.text!r} is there {said[request.text]} times, accepted: {told}"
        if told and request.text is not None and request.answer is not None:
            yield from _receipt(conn, request.text, request.answer.body)


def _receipt(conn: apsw.Connection, text: str, receipt: dict[str, Any]) -> Iterator[str]:
    seq = number_of(receipt["message_id"], "m")
    if _rows(conn, "SELECT text FROM messages WHERE seq = ?", (seq,)) != [(text,)]:
        yield f"{receipt['message_id']} is not {text!r}, as its sender was told"
    for name in receipt["instruction_ids"]:
        made = _rows(
            conn, "SELECT 1 FROM deliveries WHERE message = ? AND instruction = ?", (seq, number_of(name, "i"))
        )
        if not made:
            yield f"{name}, which {text!r} was told to have caused, did not come of it"


def _instructions(conn: apsw.Connection) -> Iterator[str]:
    told: defaultdict[int, list[str]] = defaultdict(list)
    for number, kind in _rows(conn, "SELECT cause, kind FROM messages WHERE kind IN ('done', 'failed')"):
        told[number].append(kind)
    replies = Counter(cause for (cause,) in _rows(conn, "SELECT cause FROM messages WHERE kind = 'reply'"))
    ends = Counter(one for (one,) in _rows(conn, "SELECT instruction FROM events WHERE type = 'instruction.ended'"))
    rows = _rows(conn, "SELECT id, name, state, cause, kernel_deaths FROM instructions")
    for number, name, state, cause, deaths in rows:
        if state not in ENDED:
            yield f"i{number} of {name} is still {state}"
        elif len(told[number]) != 1 or ends[number] != 1:
            yield f"i{number} of {name} ({state}) ended {ends[number]} times and was told of {len(told[number])} times"
        if replies[number] > 1 or (state == "done" and replies[number] != 1):
            yield f"i{number} of {name} ({state}) was answered {replies[number]} times"
        poisonous = cause == "suspect_kernel_crash" and deaths >= 3
        if state not in {"done", "cancelled"} and not poisonous:
            yield f"i{number} of {name} is {state} ({cause}), and nothing was wrong with it"
    still = "SELECT message, agent, state FROM deliveries WHERE instruction IS NOT NULL"
    for message, agent, state in _rows(conn, still):
        if state not in {"acked", "dead"}:
            yield f"the delivery of m{message} to {agent} is {state}"
    for number, epoch in _rows(conn, "SELECT instruction, epoch FROM attempts WHERE ended_ms IS NULL"):
        yield f"attempt i{number}-{epoch} never ended"


def _entries(conn: apsw.Connection) -> Iterator[str]:
    rows = _rows(
        conn,
        "SELECT i.id, i.entries, count(e.k), coalesce(max(e.k), -1) FROM instructions AS i"
        " LEFT JOIN entries AS e ON e.instruction = i.id GROUP BY i.id",
    )
    for number, counted, there, last in rows:
        if not counted == there == last + 1:
            yield f"i{number} counts {counted} entries, has {there}, the last is {last}"


def _log(conn: apsw.Connection) -> Iterator[str]:
    for table in ("events", "messages"):
        for oldest, newest, count in _rows(conn, f"SELECT min(seq), max(seq), count(*) FROM {table}"):
            if count and newest - oldest + 1 != count:
                yield f"{table} has {count} rows from {oldest} to {newest}"
    said = "SELECT text, count(*) FROM messages WHERE kind = 'said' AND cause IS NOT NULL GROUP BY text"
    for text, count in (row for row in _rows(conn, said) if row[1] > 1):
        yield f"{text!r} was said {count} times by one call"


def _approvals(conn: apsw.Connection) -> Iterator[str]:
    asked = _rows(conn, "SELECT instruction, count(*), min(state), min(told) FROM approvals GROUP BY instruction")
    for number, count, state, told in asked:
        if (count, state, told) != (1, "granted", 1):
            yield f"i{number} asked {count} times for one approval, which is {state}, told: {told}"


def _ballots(conn: apsw.Connection) -> Iterator[str]:
    told = Counter(
        _rows(
            conn,
            "SELECT kind, substr(text, instr(text, ':') + 1, instr(text, ']') - instr(text, ':') - 1) "
            "FROM messages WHERE kind IN ('proposal', 'vote', 'resolved')",
        )
    )
    cast = dict(_rows(conn, "SELECT ballot, count(*) FROM votes GROUP BY ballot"))
    for number, name, state in _rows(conn, "SELECT id, name, state FROM ballots"):
        votes, ends = cast.get(number, 0), int(state != "open")
        found = (told["proposal", name], told["vote", name], told["resolved", name])
        if found != (1, votes, ends):
            yield f"vote {name}, which is {state}: {found} messages of it, {votes} votes"


def _steps(conn: apsw.Connection, steps: Path) -> Iterator[str]:
    started = {
        (number, msgspec.json.decode(data)["attempt"]): msgspec.json.decode(data)["pid"]
        for number, data in _rows(conn, "SELECT instruction, data FROM events WHERE type = 'attempt.started'")
    }
    made: defaultdict[str, list[int]] = defaultdict(list)
    for line in steps.read_text().splitlines() if steps.exists() else ():
        key, pid = line.split()
        made[key].append(int(pid))
    for key, pids in made.items():
        if len(set(pids)) != len(pids):
            yield f"one worker made step {key} more than once"
    durable = _rows(conn, "SELECT instruction, epoch, body FROM entries WHERE kind = 'tool'")
    for number, epoch, body in durable:
        call = msgspec.json.decode(body)["call_id"]
        worker = started.get((number, f"i{number}-{epoch}"))
        for key in (one for one in made if one.startswith(f"i{number}:") and one.endswith(f":{call}")):
            if worker is not None and made[key][-1] != worker:
                yield f"step {key} was made again after it was durable"
