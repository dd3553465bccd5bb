"""Entries of instructions, as workers and people read them; their frozen prompt; and blobs of bodies.

A blob is stored once under its hash, in the commit that needs it: a system text, which many instructions of an agent
share, or a long result. It has no owner: unreferenced blobs are swept (transitions.retention).

The transcript is the view for people. A page is limited in bytes and entries, because a result may
have a hundred KiB. Steps of a continued instruction appear only in its own transcript, so that the
entries add up to the cost. Notes are messages of the kernel and are omitted.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.store.rows import Sql
from kernel.store.transaction import Transaction, rfc3339
from protocol.api.instructions import CallInfo, EntryInfo, EntryList, PromptPart
from protocol.instruction import Usage
from protocol.ipc import NULL, Entry, Shown, ToolCall, Turn
from protocol.names import approval_id, number_of
from protocol.tools import SERVER_PREFIX

TOUCH_MS: Final = 10 * 60 * 1000
"""Minimum age before the time of a put is updated, so that frequent puts cause few writes."""
UNSWEPT_MS: Final = 60 * 60 * 1000
"""Age below which blobs are never swept: the reference may not be committed yet."""

PUT: Final = """
INSERT INTO blobs (hash, body, part, put_ms) VALUES (:hash, :body, :part, :now)
ON CONFLICT (hash) DO UPDATE SET put_ms = :now WHERE put_ms < :now - :touch
"""


def put(tx: Transaction, body: bytes, of: int | str | None, *, part: bytes | None = None) -> bytes:
    """Store ``body`` of the instruction or space ``of``. Return its hash. ``part``: hash of a blob it refers to."""
    digest = hashlib.sha256(body := tx.conn.blob(body, of)).digest()
    values = {"hash": digest, "body": body, "part": part, "now": tx.now_ms, "touch": TOUCH_MS}
    tx.conn.execute(PUT, values)
    return digest


get = Sql("SELECT body FROM blobs WHERE hash = ?").optional(bytes)
"""Return the body with this hash, if it is stored."""


INLINE_BYTES: Final = 16 * 1024
"""Limit above which a body becomes a blob, so that continued threads and repeated results share it."""


class StoredBody(NamedTuple):
    """Values of the columns body and blob: a short body itself, or b"" and the hash of its blob."""

    body: bytes
    blob: bytes | None


def store_body(tx: Transaction, body: bytes, instruction: int | None) -> StoredBody:
    """Store ``body`` as a blob if it is long, and return the columns of its row."""
    return StoredBody(body, None) if len(body) <= INLINE_BYTES else StoredBody(b"", put(tx, body, instruction))


_decoder: Final = msgspec.json.Decoder(Entry)

OF: Final = """
SELECT CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.instruction = :id AND e.k >= :first AND e.k < :end ORDER BY e.k
"""

END: Final = 2**62
"""Higher than the number of any entry."""


def of(conn: apsw.Connection, instruction: str, first: int = 0, end: int = END) -> tuple[Entry, ...]:
    """Return the entries of an instruction over all attempts, in order, from ``first`` up to but excluding ``end``."""
    rows = conn.execute(OF, {"id": number_of(instruction, "i"), "first": first, "end": end})
    return tuple(_decoder.decode(row[0]) for row in rows)


FOREIGN: Final = """
SELECT e.k FROM entries AS e CROSS JOIN attempts AS a ON a.instruction = e.instruction AND a.epoch = e.epoch
WHERE e.instruction = ? AND e.kind = 'reply' AND a.model <> ?
"""


def for_model(conn: apsw.Connection, instruction: str, first: int, *, model: str) -> tuple[Entry, ...]:
    """Return the entries from ``first`` on for an attempt with ``model``, without the native replies of other models.

    Another provider of the same dialect may refuse them, and so may another model its reasoning.
    """
    foreign = {k for (k,) in conn.execute(FOREIGN, (number_of(instruction, "i"), model))} if model else set()
    found = of(conn, instruction, first)
    return tuple(msgspec.structs.replace(one, native=NULL) if one.k in foreign else one for one in found)


class FrozenPrompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prompt that was sent. Only the same backend and dialect can replay its entries; backend sdk converts them.

    ``dialect`` is the provider's, empty for a backend without model calls. ``source_text`` is the
    message as sent, if ``message`` differs. ``anew``: the prompt was rebuilt, because a program's
    session was lost or full. ``manifest`` describes the ``parts`` in short lines; the first
    ``stable`` characters of ``system`` are the same in all prompts of the agent.
    """

    backend: str
    dialect: str = ""
    model: str = ""
    system: str = ""
    messages: tuple[Turn, ...] = ()
    message: str = ""
    source_text: str = ""
    manifest: tuple[str, ...] = ()
    parts: tuple[PromptPart, ...] = ()
    stable: int = 0
    anew: bool = False
    doubted: tuple[str, ...] = ()
    """Least trusted messages in the prompt, if they are trusted less than the user."""


_decode: Final = msgspec.json.Decoder(FrozenPrompt).decode


def last_text(conn: apsw.Connection, instruction: str) -> str:
    """Return the last non-empty text of a reply since the last note; "" without one."""
    for entry in reversed(of(conn, instruction)):
        if entry.kind == "note" or (entry.kind == "reply" and entry.text):
            return entry.text if entry.kind == "reply" else ""
    return ""


PREFIX: Final = "SELECT b.body, b.part FROM instructions AS i JOIN blobs AS b ON b.hash = i.prefix WHERE i.id = ?"


def prompt_of(conn: apsw.Connection, instruction: str) -> FrozenPrompt | None:
    """Return the prompt that was frozen with the first entry of ``instruction``, or None."""
    row = conn.execute(PREFIX, (number_of(instruction, "i"),)).fetchone()
    if row is None:
        return None
    body, part = row
    system = b"" if part is None else get(conn, part) or b""
    return msgspec.structs.replace(_decode(body), system=system.decode())


ASIDE: Final = "SELECT aside FROM instructions WHERE id = ?"


def set_aside(conn: apsw.Connection, instruction: str) -> int:
    """Return how many first entries belong to a replaced prompt: summarized, not replayed."""
    row = conn.execute(ASIDE, (number_of(instruction, "i"),)).fetchone()
    return 0 if row is None else int(row[0])


# Follow the chain of continued instructions; each continues at most one, which is older.
ORIGIN: Final = """
WITH RECURSIVE chain (id, continues, message) AS (
  SELECT id, continues, message FROM instructions WHERE id = ?
  UNION ALL
  SELECT i.id, i.continues, i.message FROM chain JOIN instructions AS i ON i.id = chain.continues
)
SELECT m.text FROM chain JOIN messages AS m ON m.seq = chain.message WHERE chain.continues IS NULL
"""


def origin_text(conn: apsw.Connection, instruction: str) -> str:
    """Return the text of the message that started the thread of ``instruction``."""
    row = conn.execute(ORIGIN, (number_of(instruction, "i"),)).fetchone()
    return "" if row is None else str(row[0])


TRANSCRIPT_BYTES: Final = 2 * 1024 * 1024
"""Limit of the stored bytes per page; the entry that exceeds it is the last one."""

TRANSCRIPT_HEAD: Final = """
SELECT i.name, e.total, e.start FROM instructions AS i, (
  SELECT count(*) AS total, coalesce(min(k), 0) AS start FROM entries
  WHERE instruction = ?1 AND epoch > 0 AND kind <> 'note') AS e
WHERE i.id = ?1
"""

TRANSCRIPT: Final = """
SELECT e.k, e.at_ms, CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END,
  (SELECT count(*) FROM attempts AS a WHERE a.instruction = e.instruction AND a.epoch <= e.epoch)
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.instruction = :id AND e.k >= :after AND e.epoch > 0 AND e.kind <> 'note' ORDER BY e.k
"""

before_last = Sql("""
SELECT k + 1 FROM entries WHERE instruction = ? AND epoch > 0 AND kind <> 'note' ORDER BY k DESC LIMIT 1 OFFSET ?
""").scalar(int, 0)
"""Return the number of the entry before the last ones, or 0."""

PENDING: Final = "SELECT tool, id FROM approvals WHERE instruction = ? AND state = 'open' ORDER BY id DESC"

# The reply whose results follow, and the number of its results before :after.
REPLY: Final = """
SELECT CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END,
  (SELECT count(*) FROM entries AS t
   WHERE t.instruction = e.instruction AND t.k > e.k AND t.k < :after AND t.kind = 'tool')
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.instruction = :id AND e.k < :after AND e.kind = 'reply' ORDER BY e.k DESC LIMIT 1
"""


class _Done(msgspec.Struct, frozen=True):
    kind: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    duration_ms: int | None = None
    shown: Shown | None = None

    @property
    def shown_text(self) -> str:
        return self.text if self.shown is None else self.shown.text

    @property
    def shown_calls(self) -> tuple[ToolCall, ...]:
        return self.calls if self.shown is None else self.shown.calls


decode_done: Final = msgspec.json.Decoder(_Done).decode


def transcript(conn: apsw.Connection, instruction: str, after: int, limit: int) -> EntryList | None:
    """Return at most ``limit`` entries with a number above ``after``; None for an unknown instruction."""
    number = number_of(instruction, "i")
    head = cast("tuple[str, int, int] | None", conn.execute(TRANSCRIPT_HEAD, (number,)).fetchone())
    if head is None:
        return None
    name, total, start = head
    shown: list[EntryInfo] = []
    following: str | None = None
    size = 0
    for entry, stored_bytes in _done_from(conn, number, after):
        if len(shown) == limit or size >= TRANSCRIPT_BYTES:
            following = str(shown[-1].n)
            break
        shown.append(entry)
        size += stored_bytes
    rows = cast("Iterator[tuple[str, int]]", conn.execute(PENDING, (number,)))
    pending: dict[str, str] = {bare_name(tool): approval_id(asked) for tool, asked in rows}
    page = EntryList(id=instruction, agent=name, entries=tuple(shown), pending=pending, total=total, next=following)
    return msgspec.structs.replace(page, start=start)


def _done_from(conn: apsw.Connection, number: int | None, after: int) -> Iterator[tuple[EntryInfo, int]]:
    values = {"id": number, "after": after}
    reply = cast("tuple[bytes, int] | None", conn.execute(REPLY, values).fetchone())
    calls, back = ((), 0) if reply is None else (decode_done(reply[0]).shown_calls, reply[1])
    for row in conn.execute(TRANSCRIPT, values):
        k, at_ms, body, attempt = cast("tuple[int, int, bytes, int]", row)
        entry = decode_done(body)
        tool = arguments = None
        if entry.kind == "reply":
            calls, back = entry.shown_calls, 0
        elif entry.kind == "tool":
            call = call_of(entry.call_id, calls, back)
            back += 1
            tool = bare_name(entry.name or ("" if call is None else call.name))
            arguments = None if call is None else as_input(call)
        text = entry.shown_text
        yield (
            EntryInfo(
                n=k + 1,
                attempt=attempt,
                at=rfc3339(at_ms),
                kind=entry.kind,  # type: ignore[arg-type]
                text=text if entry.kind == "reply" else None,
                calls=tuple(CallInfo(tool=bare_name(one.name), input=as_input(one)) for one in entry.shown_calls),
                tool=tool,
                input=arguments,
                output=text if entry.kind == "tool" else None,
                is_error=entry.is_error,
                duration_ms=entry.duration_ms,
                usage=entry.usage,
            ),
            len(body),
        )


def call_of(call_id: str | None, calls: tuple[ToolCall, ...], back: int) -> ToolCall | None:
    """Return the call of ``calls`` to which a result belongs; ``back`` results came before it.

    The built-in loop runs calls in order, and providers repeat ids, so that the position decides.
    Programs run several calls at once and give the id. None if no call matches.
    """
    if back < len(calls) and call_id in (None, calls[back].id):
        return calls[back]
    return next((call for call in calls if call.id == call_id), None)


def bare_name(name: str) -> str:
    """Return the name of an MCP tool without its server's prefix."""
    if not name.startswith(SERVER_PREFIX):
        return name
    return name.removeprefix(SERVER_PREFIX).partition("__")[2] or name


def as_input(call: ToolCall) -> dict[str, object]:
    """Return a call's arguments as a dict; a value that is no object gets the key ``arguments``."""
    try:
        value: object = msgspec.json.decode(call.args)
    except (msgspec.DecodeError, RecursionError):
        value = bytes(call.args).decode("utf-8", "replace")
    return cast("dict[str, object]", value) if isinstance(value, dict) else {"arguments": value}


class StepCall(NamedTuple):
    """Call of a step. ``output`` is None if the call never returned. Contains no secrets."""

    tool: str
    input: str
    output: str | None


class ReplyStep(NamedTuple):
    """Reply of a model with all its calls. ``k`` is the number of its first entry."""

    k: int
    at_ms: int
    text: str
    calls: tuple[StepCall, ...]


def steps_of(conn: apsw.Connection, number: int) -> tuple[ReplyStep, ...]:
    """Return the steps of an instruction, over all attempts, but not of a continued instruction."""
    steps: list[ReplyStep] = []
    calls: tuple[ToolCall, ...] = ()
    for row in conn.execute(TRANSCRIPT, {"id": number, "after": 0}):
        k, at_ms, body, _ = cast("tuple[int, int, bytes, int]", row)
        entry = decode_done(body)
        if entry.kind == "reply" or (entry.kind == "tool" and not steps):
            calls = entry.shown_calls
            steps.append(ReplyStep(k, at_ms, entry.shown_text if entry.kind == "reply" else "", ()))
        if entry.kind == "reply":
            # Calls that never returned remain without output.
            steps[-1] = steps[-1]._replace(
                calls=tuple(
                    StepCall(bare_name(one.name), bytes(one.args).decode("utf-8", "replace"), None) for one in calls
                )
            )
        elif entry.kind == "tool":
            steps[-1] = _with_result(steps[-1], calls, entry)
    return tuple(steps)


def _with_result(step: ReplyStep, calls: Sequence[ToolCall], entry: _Done) -> ReplyStep:
    open_ = [place for place, one in enumerate(step.calls) if one.output is None]
    place = next((at for at in open_ if at < len(calls) and entry.call_id in (None, calls[at].id)), None)
    if place is None:
        name = bare_name(entry.name or "?")
        return step._replace(calls=(*step.calls, StepCall(name, "", entry.shown_text)))
    done = step.calls[place]._replace(output=entry.shown_text)
    return step._replace(calls=(*step.calls[:place], done, *step.calls[place + 1 :]))
