"""Messages of spaces, and the inboxes of agents: one delivery per message and recipient. Also
feedback of agents and people about their work, which wakes no agent and is in no channel.

The trust of a message is its class for the agent that reads it; the trust of a start covers all input of an attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, cast

import apsw
import msgspec

from kernel.policy.provenance import class_of_message, class_unseen, repeats
from kernel.rule.draft import Author
from kernel.store import rows
from kernel.store.attempts import held, use
from kernel.store.rows import WHOLE, RowPage, Sql, delivery_sql
from kernel.store.transaction import Transaction, rfc3339
from kernel.store.trust import UNKNOWN, in_space, of_agent
from protocol.agent_memory import CLASSES, SourceClass, least
from protocol.api.instructions import PromptPart
from protocol.api.messages import FeedbackList, FeedbackRow, InboxRow, MessageReport, Receipt
from protocol.backends import BACKENDS
from protocol.instruction import Status, WaitReason
from protocol.message import USER, Message, MessageKind
from protocol.names import InstructionId, feedback_id, instruction_id, message_id, number_of, place_of
from protocol.target import flag_of
from protocol.text import encode_json

LIMIT: Final = 1000
"""Limit of messages in one answer."""

MESSAGES: Final = """
SELECT seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared FROM messages
"""
SAID: Final = "kind NOT IN ('approval', 'due', 'done', 'failed')"
"""Condition for all messages except those for one recipient only."""


Row = tuple[int, MessageKind, str, str, str, str, int, int | None, int, int]


def message_of(row: Any) -> Message:
    """Convert a row of MESSAGES to a message."""
    seq, kind, space, sender, addressed, text, hops, cause, at_ms, cleared = row
    return Message(
        seq=seq,
        kind=kind,
        space=place_of(space),
        sender=sender,
        to=tuple(addressed.split()),
        text=text,
        at=rfc3339(at_ms),
        hops=hops,
        instruction=None if cause is None else instruction_id(cause),
        cleared=bool(cleared),
    )


NEWEST: Final = f"{MESSAGES} WHERE space = ? AND seq < ? AND {SAID} ORDER BY seq DESC LIMIT ?"

_END: Final = 2**62


def channel(conn: apsw.Connection, space: str, limit: int = 50) -> tuple[Message, ...]:
    """Return the newest ``limit`` messages of ``space``, oldest first."""
    return thread(conn, space, _END, limit)


def thread(conn: apsw.Connection, space: str, before_seq: int, limit: int) -> tuple[Message, ...]:
    """Return the last ``limit`` messages of ``space`` before ``before_seq``, oldest first."""
    rows = conn.execute(NEWEST, (space, before_seq, min(limit, LIMIT))).fetchall()
    return tuple(map(message_of, reversed(rows)))


class ChannelFilter(NamedTuple):
    """Messages of a space: of the run ``run``; sent by, sent to or mentioning ``agent``; or all."""

    space: str
    run: int | None = None
    agent: str | None = None


class MessagePage(NamedTuple):
    """Messages, oldest first, and their ``total``. ``next``: position of the next page, or None."""

    messages: tuple[Message, ...]
    total: int
    next: str | None


FILTER: Final = f"""
WHERE space = :space AND {SAID} AND (:run IS NULL OR run = :run)
  AND (:agent IS NULL OR sender = :agent OR instr(' ' || addressed || ' ', ' ' || :agent || ' ')
    OR instr(lower(shown(text)), '@' || :agent))
"""
NEWEST_PAGE: Final = f"{MESSAGES} {FILTER} AND seq < :before ORDER BY seq DESC LIMIT :limit"
SINCE_PAGE: Final = f"{MESSAGES} {FILTER} AND seq > :since ORDER BY seq LIMIT :limit"
COUNT: Final = " ".join(("SELECT count(*) FROM messages", FILTER))


def page(
    conn: apsw.Connection, said: ChannelFilter, limit: int, *, since: int | None = None, before: int | None = None
) -> MessagePage:
    """Return a page of messages: the first after ``since``, or else the newest before ``before``.

    At most ``limit``; ``before`` None: the newest of all. Counts messages: call in a thread.
    """
    limit = min(limit, LIMIT)
    values = {**said._asdict(), "limit": limit + 1, "since": since, "before": _END if before is None else before}
    rows = [message_of(row) for row in conn.execute(NEWEST_PAGE if since is None else SINCE_PAGE, values)]
    more, rows = len(rows) > limit, rows[:limit]
    following = str(rows[-1].seq) if more else None
    return MessagePage(
        tuple(reversed(rows) if since is None else rows), int(conn.execute(COUNT, values).get), following
    )


ONE: Final = f"{MESSAGES} WHERE seq = ?"


def these(conn: apsw.Connection, seqs: Iterable[int]) -> tuple[Message, ...]:
    """Return the messages ``seqs`` in the given order; missing ones are omitted."""
    found = (conn.execute(ONE, (seq,)).fetchone() for seq in seqs)
    return tuple(message_of(row) for row in found if row is not None)


PRINTED: Final = """
SELECT m.seq FROM json_each(?) AS asked CROSS JOIN messages AS m ON m.seq = asked.value
WHERE EXISTS (SELECT 1 FROM workflows AS w, json_each(CAST(w.definition AS TEXT), '$.setup') AS s
  WHERE w.id = m.run AND s.value ->> '$.as' IS NOT NULL)
"""


def printed(conn: apsw.Connection, said: Iterable[Message]) -> frozenset[int]:
    """Return the numbers of kickoffs among ``said`` that may contain output of setup steps."""
    kickoffs = [one.seq for one in said if one.kind == "kickoff"]
    if not kickoffs:
        return frozenset()
    return frozenset(int(seq) for (seq,) in conn.execute(PRINTED, (encode_json(kickoffs).decode(),)))


RECEIPTS: Final = "SELECT name, state, instruction FROM deliveries WHERE message = ? ORDER BY name"


def report(conn: apsw.Connection, seq: int) -> MessageReport | None:
    """Return the message ``seq`` with its delivery to each recipient; None if unknown."""
    row = conn.execute(ONE, (seq,)).fetchone()
    if row is None:
        return None
    receipts = tuple(
        Receipt(agent=name, state=state, instruction_id=None if number is None else instruction_id(number))
        for name, state, number in conn.execute(RECEIPTS, (seq,))
    )
    return MessageReport(message=message_of(row), receipts=receipts)


OF_RUN: Final = f"{MESSAGES} WHERE run = ? AND {SAID} AND instr(space, '~') = 0 ORDER BY seq"


def of_run(conn: apsw.Connection, run: int) -> tuple[Message, ...]:
    """Return all messages in a run's own space. Reads all of them: call in a thread."""
    return tuple(message_of(row) for row in conn.execute(OF_RUN, (run,)))


newest_seq = Sql("SELECT coalesce(max(seq), 0) FROM messages").scalar(int)
"""Return the sequence number of the last message, or 0."""


ACK: Final = delivery_sql("""
UPDATE deliveries SET state = {ack}
WHERE message = ? AND agent = ? AND space = ? AND state {before ack}
RETURNING message
""")


def acknowledge(tx: Transaction, author: Author, messages: Iterable[int]) -> tuple[int, ...]:
    """Mark the messages as read in the inbox of the author's agent. Return those that were unread.

    Instructions that the messages caused still run. Repeating the call changes nothing, so that it
    is not recorded. Raises Refused (stale_attempt).
    """
    owner = held(tx.conn, author.instruction, author.epoch)
    rows = (tx.conn.execute(ACK, (seq, owner.agent, owner.space)).fetchone() for seq in messages)
    return tuple(row[0] for row in rows if row is not None)


DELIVERIES_LIMIT: Final = 200
"""Limit of deliveries that an agent is shown at a time."""

INBOX: Final = """
SELECT d.message, m.sender, m.text, d.state FROM deliveries AS d CROSS JOIN messages AS m ON m.seq = d.message
WHERE d.agent = ? AND d.space = ? AND d.state IN ('queued', 'leased', 'injected')
  AND d.message > ? ORDER BY d.message LIMIT ?
"""


count = Sql("""
SELECT count(*) FROM deliveries WHERE agent = ? AND space = ? AND state IN ('queued', 'leased', 'injected')
""").scalar(int)
"""Count the open deliveries in the inbox of ``agent`` (its key) in ``space``."""


def inbox(
    conn: apsw.Connection, agent: str, space: str, limit: int = DELIVERIES_LIMIT, after: int = 0
) -> tuple[InboxRow, ...]:
    """Return the open deliveries to ``agent`` (a key) in ``space`` after message ``after``, oldest first."""
    return tuple(
        InboxRow(message_id=message_id(seq), seq=seq, sender=sender, text=text, state=state, flag=flag_of(text))
        for seq, sender, text, state in conn.execute(INBOX, (agent, space, after, limit))
    )


IN_HAND: Final = """
SELECT d.message, i.id, i.state, i.waits_for
FROM json_each(?) AS asked CROSS JOIN deliveries AS d ON d.message = asked.value AND d.agent = ?
CROSS JOIN instructions AS i ON i.id = d.instruction AND i.ended_ms IS NULL
"""


class ActiveMessages(NamedTuple):
    """Unfinished instruction that contains a message. ``waits_for`` is its wait reason."""

    instruction: InstructionId
    status: Status
    waits_for: WaitReason | None


def in_hand(conn: apsw.Connection, agent: str, seqs: Iterable[int]) -> dict[int, ActiveMessages]:
    """Return the unfinished instruction of ``agent`` (a key) by message, for those of ``seqs``."""
    rows = conn.execute(IN_HAND, (msgspec.json.encode(tuple(seqs)).decode(), agent))
    return {
        int(seq): ActiveMessages(instruction_id(number), status, waits_for) for seq, number, status, waits_for in rows
    }


FEEDBACK_LIMIT_CHARACTERS: Final = 2_000_000
"""Limit of one answer, because agents may write any amount of feedback."""
FEEDBACK: Final = (
    "SELECT id, at_ms, author, space, text FROM feedback WHERE ? IS NULL OR id < ? ORDER BY id DESC LIMIT ?"
)
FEEDBACK_COUNT: Final = "SELECT count(*) FROM feedback"


def feedback_list(conn: apsw.Connection, page: RowPage = WHOLE) -> FeedbackList:
    """Return the newest feedback, oldest first, at most FEEDBACK_LIMIT_CHARACTERS of text."""
    found: list[FeedbackRow] = []
    room, following = FEEDBACK_LIMIT_CHARACTERS, None
    for row in conn.execute(FEEDBACK, (page.after, page.after, page.limit + 1)):
        number, at_ms, author, space, text = cast("tuple[int, int, str, str | None, str]", row)
        room -= len(text)
        if (room < 0 and found) or len(found) == page.limit:
            following = found[-1].id
            break
        found.append(
            FeedbackRow(
                id=feedback_id(number),
                at=rfc3339(at_ms),
                author=author,
                space=None if space is None else place_of(space),
                text=text,
            )
        )
    total = int(conn.execute(FEEDBACK_COUNT).get)
    return FeedbackList(feedback=tuple(reversed(found)), total=total, next=following)


INSERT_FEEDBACK: Final = """
INSERT INTO feedback (at_ms, author, space, instruction, call_key, text) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (instruction, call_key) WHERE call_key IS NOT NULL DO NOTHING RETURNING id
"""
FIND_FEEDBACK: Final = (
    "SELECT id, at_ms AS at, author, space, text FROM feedback WHERE instruction = ? AND call_key = ?"
)


def add_feedback(tx: Transaction, text: str, author: Author | None = None) -> FeedbackRow:
    """Store feedback of ``author`` (None: the user). The same call returns the first row.

    Raises Refused (stale_attempt, quota_reached).
    """
    who, space, instruction, holder, key = USER, None, None, None, None
    if author is not None:
        holder = held(tx.conn, author.instruction, author.epoch)
        who, space, instruction, key = holder.name, holder.space, holder.number, author.call
    row = tx.conn.execute(INSERT_FEEDBACK, (tx.now_ms, who, space, instruction, key, text)).fetchone()
    if row is not None:
        if holder is not None:
            use(tx, holder, feedback=1, text=text)
        return FeedbackRow(id=feedback_id(row[0]), at=tx.now, author=who, space=space, text=text)
    earlier = tx.conn.execute(FIND_FEEDBACK, (instruction, key))
    found = rows.one(earlier, FIND_FEEDBACK, FeedbackRow, id=feedback_id, at=rfc3339)
    assert found is not None, "its key is taken"
    return found


CAUSES: Final = """
SELECT i.id, i.trust FROM json_each(?) AS asked CROSS JOIN instructions AS i ON i.id = asked.value
"""
SPACE: Final = "SELECT space FROM messages WHERE seq = ?"


def trust_of_messages(conn: apsw.Connection, said: Iterable[Message], name: str = "") -> Mapping[int, SourceClass]:
    """Return the trust class of each message, by number, for the reader ``name``.

    A message is trusted at most as its sender's instruction; a reader's own message exactly so.
    """
    messages = tuple(said)
    commanded = printed(conn, messages)
    causes = {one.seq: number_of(one.instruction, "i") or 0 for one in messages if one.instruction is not None}
    found = conn.execute(CAUSES, (encode_json(sorted(set(causes.values()))).decode(),)) if causes else ()
    rows = cast("Iterable[tuple[int, int]]", found)
    trusts: dict[int, SourceClass] = {number: CLASSES[trust] for number, trust in rows}
    unsaid = (one.seq for one in messages if one.seq not in causes and repeats(one))
    around: dict[int, SourceClass] = {one: in_space(conn, str(conn.execute(SPACE, (one,)).get)) for one in unsaid}
    return {
        one.seq: class_of_message(
            one,
            printed=one.seq in commanded,
            work=trusts.get(causes[one.seq], UNKNOWN) if one.seq in causes else around.get(one.seq),
            own=one.sender == name and one.seq in causes,
        )
        for one in messages
    }


class AnyWork(Protocol):
    """Instruction at the start of an attempt, as trust_of_start reads it."""

    @property
    def agent(self) -> str:
        """Return the agent's key."""
        ...

    @property
    def name(self) -> str:
        """Return the agent's name in the space."""
        ...

    @property
    def space(self) -> str:
        """Return the space of the instruction."""
        ...

    @property
    def message_seq(self) -> int:
        """Return the number of the message that created the instruction."""
        ...

    @property
    def joined(self) -> Sequence[int]:
        """Return the numbers of messages that were added to the queued instruction."""
        ...


def trust_of_start(conn: apsw.Connection, work: AnyWork, backend: str, parts: Iterable[PromptPart]) -> SourceClass:
    """Return the least trusted class of an attempt's input: its messages, prompt and continued
    session, and files that its backend reads without the kernel.
    """
    said = these(conn, (work.message_seq, *work.joined))
    session: SourceClass = of_agent(conn, work.agent, work.space) if BACKENDS[backend].own_session else "user"
    prompt: list[SourceClass] = [part.trust for part in parts if part.trust != "system" and part.kept != "left_out"]
    return least([class_unseen(backend), session, *prompt, *trust_of_messages(conn, said, work.name).values()])
