"""Messages: sent, waited for, read in channels and inboxes, and their receipts; feedback on the tools."""

from typing import Annotated, Final

import msgspec

from protocol.api.document import Ask, Body, Document, Page
from protocol.instruction import DeliveryState, Status, Usage
from protocol.message import Message

MOST_AT_ONCE: Final = 200
"""Messages in one request: they are one commit, and whoever else writes waits for it."""


MediaType = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[\w.+-]+/[\w.+-]+$")]
"""Such as ``text/plain`` or ``text/x-diff``."""


class BatchMessage(Ask, frozen=True, kw_only=True):
    """One of several messages. ``key`` makes it happen once, in whatever requests it is."""

    to: str
    text: str
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None


class SendRequest(Ask, frozen=True, kw_only=True):
    """POST /messages: one message, or several as ``messages``.

    ``trust``: the user vouches for what the agents' files would run.
    """

    to: Annotated[str, msgspec.Meta(description="alice, @review:main, or alice@review:main.")] | None = None
    text: str | None = None
    messages: Annotated[tuple[BatchMessage, ...], msgspec.Meta(min_length=1, max_length=MOST_AT_ONCE)] | None = None
    trust: bool = False
    agree: tuple[str, ...] = ()
    """Digests of what was refused as untrusted before, and is agreed to this time (protocol.trust)."""


class InstructionResult(Body, frozen=True, kw_only=True):
    """The end of one instruction, or its wait: status ``waiting`` is shown once only a person can end that.

    ``cause`` is of a failure, ``waits_for`` of a wait. ``unasked``: it waits for a key that is missing, and which.
    """

    instruction_id: str
    agent: str
    status: Status
    text: str
    usage: Usage = Usage()
    cause: str | None = None
    waits_for: str | None = None
    unasked: str | None = None
    attempts: int = 0
    """Those that count: one that was put off, or broken off by a kernel's end, does not."""


class SendReceipt(Document, frozen=True, kw_only=True):
    """202 of POST /messages; with ``results`` once waited for."""

    message_id: str
    instruction_ids: tuple[str, ...]
    not_woken: tuple[str, ...] = ()
    """Mentioned over the limit of eight."""
    held: dict[str, str] = {}
    """Instructions that wait for a person already, and for what (as ``waits_for`` of a result)."""
    unasked: dict[str, str] = {}
    """Those of them that wait for a key that is missing, and which."""
    left_behind: int = 0
    """Files of the project that are not committed, where an agent works on a node: they do not reach it."""
    schema: str = "awk/send/1"


class Refusal(Body, frozen=True, kw_only=True):
    """One message of several that was not taken, in the words in which it is refused alone."""

    status: int
    code: str
    detail: str
    hint: str | None = None


class BatchOutcome(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one message of several, as of one alone."""

    sent: SendReceipt | None = None
    refused: Refusal | None = None


class BatchReceipt(Document, frozen=True, kw_only=True):
    """202 of POST /messages with ``messages``: an outcome for each, in their order."""

    accepted: int
    refused: int
    results: tuple[BatchOutcome, ...]
    schema: str = "awk/send-batch/1"


class SendReport(Document, frozen=True, kw_only=True):
    """``send --wait``, ``ask``, ``serve``."""

    message_id: str
    instruction_ids: tuple[str, ...]
    results: tuple[InstructionResult, ...]
    schema: str = "awk/send/1"


class Channel(Page, frozen=True, kw_only=True):
    """``awk channel``, ``awk peek``: oldest first. ``next`` goes into ``since`` if that was given, else ``before``."""

    space: str
    messages: tuple[Message, ...]
    schema: str = "awk/channel/1"


class Receipt(Body, frozen=True, kw_only=True):
    """The delivery of a message to one recipient."""

    agent: str
    state: DeliveryState
    instruction_id: str | None = None


class MessageReport(Document, frozen=True, kw_only=True):
    """GET /messages/:id."""

    message: Message
    receipts: tuple[Receipt, ...]
    schema: str = "awk/message/1"


class ResourceInfo(Document, frozen=True, kw_only=True):
    """One text that is kept for a space. ``author`` said it, or had it kept first; ``type`` is a media type.

    What it is called is made of its space and its content: the same text has one id there, whoever says it again.
    """

    id: str
    space: str
    type: str
    author: str = msgspec.field(name="from")
    instruction: str | None
    characters: int
    bytes: int
    at: str
    schema: str = "awk/resource/1"


class ResourceText(ResourceInfo, frozen=True, kw_only=True):
    """``awk resource get``, GET /resources/:id: a part of it that begins at ``offset``, in characters.

    ``next`` is the offset of the rest; null: this is the end.
    """

    content: str
    offset: int
    next: int | None
    schema: str = "awk/resource-text/1"


class ResourceList(Page, frozen=True, kw_only=True):
    """``awk resource list``, GET /resources: without their texts, the newest first. ``next`` goes into ``before``."""

    resources: tuple[ResourceInfo, ...]
    schema: str = "awk/resource-list/1"


class InboxRow(Body, frozen=True, kw_only=True):
    """One delivery that is not handled yet."""

    message_id: str
    seq: int
    sender: str = msgspec.field(name="from")
    text: str
    state: DeliveryState
    flag: str | None = None


class Inbox(Page, frozen=True, kw_only=True):
    """``awk inbox``, GET /agents/:name/inbox: what the agent has not handled in one space.

    ``next`` goes into ``after``.
    """

    agent: str
    space: str
    deliveries: tuple[InboxRow, ...]
    schema: str = "awk/inbox/1"


class FeedbackRow(Body, frozen=True, kw_only=True):
    """Something that was said about the work. ``author`` is an agent in ``space``, or the user."""

    id: str
    at: str
    author: str
    space: str | None
    text: str


class FeedbackAdded(Document, frozen=True, kw_only=True):
    """``awk feedback add``."""

    feedback: FeedbackRow
    schema: str = "awk/feedback-add/1"


class FeedbackList(Page, frozen=True, kw_only=True):
    """``awk feedback list``: the newest, oldest first. ``next`` goes into ``before``."""

    feedback: tuple[FeedbackRow, ...]
    schema: str = "awk/feedback-list/1"
