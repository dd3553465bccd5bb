"""Append a message, and all that follows from it."""

from typing import Final

import msgspec

from kernel.rule.draft import Author, Draft
from kernel.rule.fact import Fact
from kernel.store.commits.ledger import book, look_up
from kernel.store.commits.quota import use
from kernel.store.commits.recorder import record
from kernel.store.fence import Held, held
from kernel.store.requests import RequestKey, recall, remember
from kernel.store.transaction import Transaction
from protocol.errors import Refused
from protocol.names import InstructionId, MessageId, message_id, place_of


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an append: the message, whom it woke, and who was mentioned or addressed but not woken."""

    seq: int
    message_id: MessageId
    instruction_ids: tuple[InstructionId, ...] = ()
    not_woken: tuple[str, ...] = ()


_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Appended)


def append(
    tx: Transaction, draft: Draft, *, call_key: str | None = None, request: RequestKey | None = None
) -> Appended:
    """Append ``draft`` and evaluate it; on refusal nothing is kept.

    A draft with an author is fenced. ``call_key`` (with an author) and ``request`` make it happen once: the second
    time the recorded answer comes back (commits/ledger.py). Raises Refused (stale_attempt, forbidden, key_reused, and
    those of proposals).
    """
    author = None if draft.author is None else _speaker(tx, draft.author, draft)
    if request is not None and (recorded := recall(tx.conn, request, tx.now_ms)) is not None:
        return _decoder.decode(recorded.response)
    if author is None or draft.author is None:
        appended = _append(tx, draft, None)
    else:
        appended = _append_once(tx, draft, draft.author, author, call_key)
    if request is not None:
        remember(tx, request, _encode(appended), status=202)
    return appended


def _append_once(tx: Transaction, draft: Draft, author: Author, speaker: Held, call_key: str | None) -> Appended:
    """What an agent says, once for its call: what was said before is answered as it was then."""
    words = (draft.kind, draft.text, draft.to, draft.asks)
    known = look_up(tx, author, speaker, words, call_key)
    if known.result is not None:
        return _decoder.decode(known.result)
    use(tx, speaker, messages=1, text=draft.text)
    appended = _append(tx, draft, speaker)
    if appended.instruction_ids:
        use(tx, speaker, instructions=len(appended.instruction_ids))
    book(tx, speaker, known, _encode(appended))
    return appended


def _append(tx: Transaction, draft: Draft, author: Held | None) -> Appended:
    hops = 0 if author is None else author.hops + 1
    fact = Fact(
        kind=draft.kind,
        space=draft.space,
        sender=draft.sender,
        text=draft.text,
        to=draft.to,
        mentions=draft.mentions,
        hops=hops if draft.hops is None else draft.hops,
        cause=None if author is None else author.number,
        speaker=None if author is None else author.agent,
        payload=draft.payload,
        vouched=draft.vouched,
        asks=draft.asks,
    )
    recorder = record(tx, fact)
    return Appended(
        seq=recorder.first_seq,
        message_id=message_id(recorder.first_seq),
        instruction_ids=tuple(recorder.instructions),
        not_woken=tuple(recorder.not_woken),
    )


def _speaker(tx: Transaction, author: Author, draft: Draft) -> Held:
    """The instruction that speaks. It speaks as its own agent, in its own space, and as nobody else."""
    instruction = held(tx.conn, author.instruction, author.epoch)
    if draft.sender != instruction.name or draft.space != instruction.space:
        raise Refused("forbidden", f"{instruction.name} may not speak as {draft.sender} in {place_of(draft.space)}")
    return instruction
