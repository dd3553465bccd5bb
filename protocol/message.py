"""A message: one immutable fact in the log."""

from typing import Final, Literal, get_args

import msgspec

MessageKind = Literal[
    "kickoff", "said", "reply", "system", "status", "document", "proposal", "vote", "resolved", "approval",
    "due", "done", "failed",
]  # fmt: skip
MESSAGE_KINDS: Final[tuple[MessageKind, ...]] = get_args(MessageKind)

FACT_KINDS: Final[frozenset[MessageKind]] = frozenset({"approval", "due", "done", "failed"})
"""Kinds that proposals listen to and people do not read: a channel leaves them out."""

TEXT_LIMIT_BYTES: Final = 256 * 1024
"""Of one message in UTF-8: what is longer would not fit a worker's first line beside its prompt."""

TOO_LARGE_HINT: Final = "store the text with resource_create and send its id, or name a file with the text"

SYSTEM: Final = "system"
USER: Final = "user"
HOOK: Final = "hook:"
"""Before the name of a hook, as the sender of what came to it: no name of an agent or a person has a colon."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message as a reader sees it. ``seq`` orders the whole log; ``at`` is for display only."""

    seq: int
    kind: str
    """One of MESSAGE_KINDS, or what another version of this program wrote: to be shown, never to be choked on."""
    space: str
    sender: str = msgspec.field(name="from")
    to: tuple[str, ...] = ()
    text: str = ""
    at: str = ""
    hops: int = 0
    instruction: str | None = None
    """The instruction that said it, if an agent did."""
    cleared: bool = False
    """Its text was removed (``awk clear``): that it is empty says nothing."""
