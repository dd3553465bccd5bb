"""The log's part in what agents keep in files: who writes, once for each call, and from which messages it can be.

The files are the truth for what is kept (kernel.agents.personal_context). A write is begun here, in a commit that
counts it and keeps its call: a call that is made again after a crash finds there when it was made, and what was there
before, and so whether it is still to be done. Of what was there only a digest is kept: nothing has to be purged.
"""

from collections.abc import Iterable
from typing import Final, cast

import apsw
import msgspec

from kernel.policy.provenance import GivenMessage, Shown
from kernel.rule.draft import Author
from kernel.store import entries, message_trust, trust
from kernel.store.attempts import held
from kernel.store.idempotency import Words, find, record
from kernel.store.messages import message_of
from kernel.store.quotas import use
from kernel.store.transaction import Transaction
from protocol.names import message_id, number_of
from protocol.text import encode_json


class BegunWrite(msgspec.Struct, frozen=True):
    """A write of an agent. ``message_id`` is when it began: shown with the result, it names this very call."""

    message_id: str
    at_ms: int
    before: str
    again: bool = False
    """It was begun before: it may have been done."""
    call: str = ""
    """The key of the call, by which the same one is known."""


def begin_write(
    tx: Transaction, author: Author, call_key: str | None, words: Words, before: str, text: str
) -> BegunWrite:
    """Begin what the call with ``words`` does, where ``before`` stands for what is there now.

    Raises Refused (stale_attempt, quota_reached).
    """
    holder = held(tx.conn, author.instruction, author.epoch)
    call = find(tx, author, holder, words, call_key)
    if call.result is not None:
        return msgspec.structs.replace(msgspec.json.decode(call.result, type=BegunWrite), again=True)
    use(tx, holder, text=text)
    begun = BegunWrite(tx.now, tx.now_ms, before, call=call.key)
    record(tx, holder, call, encode_json(begun))
    return begun


OF_INSTRUCTION: Final = """
SELECT d.message FROM deliveries AS d WHERE d.agent = :agent AND d.instruction = :id
UNION SELECT i.message FROM instructions AS i WHERE i.id = :id ORDER BY 1
"""

# What reached it, what it said, what stands in the channel of a space it is a member of, what it works on.
GIVEN: Final = """
SELECT m.seq, m.kind, m.space, m.sender, m.addressed, m.text, m.hops, m.cause, m.at_ms, m.cleared
FROM json_each(:asked) AS a CROSS JOIN messages AS m ON m.seq = a.value
WHERE m.seq IN (SELECT value FROM json_each(:own))
  OR EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message = m.seq AND d.agent = :agent)
  OR EXISTS (SELECT 1 FROM instructions AS i WHERE i.id = m.cause AND i.agent = :agent)
  OR (m.kind NOT IN ('approval', 'due', 'done', 'failed')
    AND EXISTS (SELECT 1 FROM members AS b WHERE b.space = m.space AND b.agent = :agent))
"""


class Given(msgspec.Struct, frozen=True):
    """Possible sources of an item: what the instruction was shown, and the messages that it was given, by id."""

    shown: Shown
    messages: dict[str, GivenMessage]


def given(conn: apsw.Connection, agent: str, instruction: str, asked: Iterable[str]) -> Given:
    """All that ``agent`` (its key) may name as sources in ``instruction``: of ``asked``, and that instruction's own."""
    number = number_of(instruction, "i")
    found = conn.execute(OF_INSTRUCTION, {"agent": agent, "id": number}).fetchall()
    own = cast("list[int]", [seq for (seq,) in found])
    wanted = [seq for one in asked if (seq := number_of(one, "m")) is not None]
    values = {"asked": encode_json([*own, *wanted]).decode(), "own": encode_json(own).decode(), "agent": agent}
    said = [message_of(row) for row in conn.execute(GIVEN, values)]
    trusts = message_trust.classes(conn, said)
    prompt = entries.prompt_of(conn, instruction)
    thread = () if prompt is None else prompt.doubted
    shown = Shown(tuple(map(message_id, own)), thread, trust.of_work(conn, number))
    messages = (GivenMessage(message_id(one.seq), one.text, trusts[one.seq]) for one in said)
    return Given(shown, {one.id: one for one in messages})
