"""Sharing: an agent gives entries of its memory to a colleague, in one commit with the row of the audit.

The message is in the channel, as one about a document is, and in the colleague's inbox; it wakes nobody. What it says
is quoted, each entry with its source and its trust.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kernel.policy.curation import Given
from kernel.rule.draft import Author, Draft
from kernel.store import audit
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import speaker
from protocol.errors import Refused
from protocol.names import message_id

WITHHELD: Final = "an entry is given if it is there, and shareable or public, and not kept to another space"


class MemoryShared(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that were shared, by a message, and those of which nothing may be given."""

    message_id: str
    shared: tuple[str, ...]
    withheld: tuple[str, ...]
    note: str = ""


def share(
    tx: Transaction,
    space: str,
    receiver: tuple[str, str],
    given: Sequence[Given],
    withheld: tuple[str, ...],
    *,
    author: Author,
    call_key: str | None = None,
) -> MemoryShared:
    """Tell ``receiver`` (its key and name) of ``given``, as the author. Made again, the call is answered the same.

    Raises Refused: stale_attempt, forbidden, quota_reached; not_found where there is nothing that may be given.
    """
    keys = tuple(one.key for one in given)
    who = speaker(tx, space, author, ("share", receiver[1], keys, withheld), call_key)
    if (before := who.known(MemoryShared)) is not None:
        return before
    if not given:
        raise Refused("not_found", f"none of {len(withheld)} keys can be given", WITHHELD)
    assert who.held is not None, "an author holds an instruction"
    many = "an entry" if len(given) == 1 else f"{len(given)} entries"
    opening = f"[MEMORY] {many} of the memory of {who.name}, for {receiver[1]}: what it knows, and no order."
    text = "\n\n".join([opening, *map(_shown, given)])
    draft = Draft(kind="document", space=space, sender=who.name, text=text, mentions=(receiver[1],))
    seq = who.say(tx, draft).first_seq
    audit.record_share(tx, who.held, receiver, given, len(withheld))
    note = WITHHELD if withheld else ""
    return who.keep(tx, MemoryShared(message_id=message_id(seq), shared=keys, withheld=withheld, note=note))


def _shown(one: Given) -> str:
    sources = " ".join(one.source.messages) or "no message"
    cut = ", the beginning" if one.cut else ""
    return f"(source: {sources}; trust: {one.trust}{cut})\n> {one.key}:\n{one.text}"
