"""Append a message with all its effects; also continue an agent's work, by a person's message."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar, cast

import apsw
import msgspec

from kernel.rule.draft import Author, Draft, Fact
from kernel.store import idempotency, spaces
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.attempts import Held, held, use
from kernel.store.idempotency import RequestKey, UnkeyedCall, Words, find_response, record_response
from kernel.store.rules import TransactionView
from kernel.store.transaction import Transaction
from kernel.store.transitions import apply_effects
from kernel.store.transitions.lease import Leased, lease
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import (
    AgentKey,
    InstructionId,
    MessageId,
    base_space,
    instruction_id,
    is_below,
    message_id,
    place_of,
)

_encode: Final = msgspec.json.Encoder().encode
_Result = TypeVar("_Result", bound=msgspec.Struct)


class Speaker(NamedTuple):
    """Author of a call (the user or an attempt), with its idempotency record (``call``)."""

    name: str
    held: Held | None = None
    author: Author | None = None
    call: UnkeyedCall | None = None

    @property
    def number(self) -> int | None:
        """Return the number of the author's instruction; None for a person."""
        return None if self.held is None else self.held.number

    @property
    def hops(self) -> int:
        """Return the number of hops of the author's next message."""
        return 0 if self.held is None else self.held.hops + 1

    def known(self, result: type[_Result]) -> _Result | None:
        """Return the answer that an earlier, equal call got, or None."""
        given = None if self.call is None else self.call.result
        return None if given is None else msgspec.json.decode(given, type=result)

    def keep(self, tx: Transaction, result: _Result) -> _Result:
        """Record ``result`` as the answer to the call, and return it."""
        if self.held is not None and self.call is not None:
            idempotency.record(tx, self.held, self.call, _encode(result))
        return result

    def say(self, tx: Transaction, draft: Draft, text: str | None = None) -> apply_effects.EffectWriter:
        """Append ``draft``, counting ``text`` (None: the draft's) against the author's quota."""
        if self.held is not None:
            use(tx, self.held, messages=1, text=draft.text if text is None else text)
        return self.follow(tx, draft)

    def follow(self, tx: Transaction, draft: Draft) -> apply_effects.EffectWriter:
        """Append a consequence of the author's action; its quota counts only instructions."""
        holder = self.held
        fact = Fact(
            draft,
            hops=self.hops if draft.hops is None else draft.hops,
            cause=None if holder is None else holder.number,
            speaker=None if holder is None else holder.agent,
        )
        written = apply_effects.apply_fact(tx, fact)
        if holder is not None and written.instructions:
            use(tx, holder, instructions=len(written.instructions))
        return written


def speaker(tx: Transaction, space: str, author: Author | None, words: Words | None = None) -> Speaker:
    """Return the caller in ``space``: the user if ``author`` is None. ``words`` identify a repeated call.

    An agent may call in the space of its instruction, or in an open space below that run's space if
    it is a member. Raises Refused (stale_attempt, forbidden).
    """
    if author is None:
        return Speaker(USER)
    holder = held(tx.conn, author.instruction, author.epoch)
    if holder.space != space:
        if not _is_let_into(tx.conn, holder, space):
            raise Refused("forbidden", f"agent {holder.name} does not work in {place_of(space)}")
        words = None if words is None else (space, *words)
    call = None if words is None else idempotency.find(tx, author, holder, words)
    return Speaker(holder.name, holder, author, call)


def _is_let_into(conn: apsw.Connection, holder: Held, space: str) -> bool:
    below = is_below(space) and base_space(space) == base_space(holder.space)
    return below and spaces.is_open(conn, space) and spaces.is_in(conn, space, holder.agent)


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an append. ``not_woken``: addressed or mentioned agents without an instruction."""

    seq: int
    message_id: MessageId
    instruction_ids: tuple[InstructionId, ...] = ()
    not_woken: tuple[str, ...] = ()


_decoder: Final = msgspec.json.Decoder(Appended)


def append(tx: Transaction, draft: Draft, *, request: RequestKey | None = None) -> Appended:
    """Append ``draft`` and apply the rules' effects. If it is refused, nothing changes.

    An author may send only as its own agent, in a space where the agent may call (``speaker``).
    The key of the author's call and ``request`` are idempotency keys: a repetition returns the
    recorded answer. Raises Refused (stale_attempt, forbidden, key_reused, and errors of proposals).
    """
    who = Speaker(draft.sender)
    if draft.author is not None:
        words = (draft.kind, draft.text, draft.to, draft.asks)
        who = speaker(tx, draft.space, draft.author, words)
        if draft.sender != who.name:
            raise Refused("forbidden", f"agent {who.name} may not send as {draft.sender} in {place_of(draft.space)}")
    if request is not None and (recorded := find_response(tx.conn, request, tx.now_ms)) is not None:
        return _decoder.decode(recorded.response)
    appended = who.known(Appended)
    if appended is None:
        said = who.say(tx, draft)
        appended = Appended(
            seq=said.first_seq,
            message_id=message_id(said.first_seq),
            instruction_ids=tuple(said.instructions),
            not_woken=tuple(said.not_woken),
        )
        who.keep(tx, appended)
    if request is not None:
        record_response(tx, request, _encode(appended), status=202)
    return appended


def append_all(
    tx: Transaction, drafts: Sequence[tuple[Draft, RequestKey | None]], specs: Sequence[AgentSpec] = ()
) -> list[Appended | Refused]:
    """Store the agents ``specs``, then append each of ``drafts``; return a result for each, in order.

    A refused draft changes nothing and does not affect the others.
    """
    put_agents(tx, specs)
    results: list[Appended | Refused] = []
    for draft, request in drafts:
        told = len(tx.events)
        tx.conn.execute("SAVEPOINT message")
        try:
            results.append(append(tx, draft, request=request))
        except Refused as refused:
            tx.conn.execute("ROLLBACK TO message")
            del tx.events[told:]
            results.append(refused)
        tx.conn.execute("RELEASE message")
    return results


HEAD: Final = """
SELECT id, agent, name, space FROM instructions INDEXED BY instructions_queue
WHERE state IN ('queued', 'yielded') AND agent = :agent AND not_before_ms <= :now ORDER BY lane, id LIMIT 1
"""
# Work of an agent with needs is left to the dispatcher, which chooses the node.
ASKS: Final = """
SELECT coalesce(m.needs, a.needs) IS NOT NULL FROM agents AS a
LEFT JOIN members AS m ON m.space = ? AND m.name = ? AND m.agent = a.key WHERE a.key = ?
"""


def append_and_lease(
    tx: Transaction, draft: Draft, agent: AgentKey, token_hash: bytes, *, request: RequestKey | None = None
) -> tuple[Appended, Leased | None]:
    """Append ``draft`` (see append) and lease the first queued instruction of ``agent``, if possible.

    This usually is the new instruction. The lease is None if nothing can be leased here and now.
    """
    appended = append(tx, draft, request=request)
    row = tx.conn.execute(HEAD, {"agent": agent, "now": tx.now_ms}).fetchone()
    if row is None:
        return appended, None
    number, key, name, space = cast("tuple[int, str, str, str]", row)
    asks = tx.conn.execute(ASKS, (space, name, key)).fetchone()
    if asks is not None and asks[0]:
        return appended, None
    return appended, lease(tx, instruction_id(number), token_hash)


WORD: Final = "continue"

# The agent's personal space, the running workflows of which it is a member, and the spaces below them.
SPACES: Final = """
SELECT 'dm:' || a.key, a.name FROM agents AS a WHERE a.key = :agent AND a.home_space IS NULL
UNION ALL
SELECT m.space, m.name FROM members AS m CROSS JOIN workflows AS w ON w.space = m.space AND w.state = 'running'
WHERE m.agent = :agent
UNION ALL
SELECT m.space, m.name FROM members AS m CROSS JOIN subspaces AS s ON s.space = m.space AND s.closed_ms IS NULL
WHERE m.agent = :agent
"""


def continue_work(tx: Transaction, agent: AgentKey) -> tuple[InstructionId, ...]:
    """Continue the last incomplete work of ``agent`` in each space. Return the new instructions."""
    view = TransactionView(tx.conn)
    made: list[InstructionId] = []
    for space, name in tx.conn.execute(SPACES, {"agent": agent}).fetchall():
        if view.incomplete(str(space), agent) is not None:
            draft = Draft(kind="said", space=str(space), sender=USER, text=WORD, to=(str(name),))
            made += append(tx, draft).instruction_ids
    return tuple(made)
