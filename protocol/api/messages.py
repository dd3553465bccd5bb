"""Messages: sending, waiting, channels, inboxes and receipts; feedback on the tools."""

from typing import Annotated, Final

import msgspec

from protocol.api.document import Ask, Body, Document, Page
from protocol.instruction import DeliveryState, Status, Usage
from protocol.message import Message

MOST_AT_ONCE: Final = 200
"""Maximum number of messages in one request. They are one commit, which delays other writers."""


MediaType = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[\w.+-]+/[\w.+-]+$")]
"""Media type, such as ``text/plain`` or ``text/x-diff``."""


class BatchMessage(Ask, frozen=True, kw_only=True):
    """Message in a request with several messages. Messages with the same ``key`` are sent once, over all requests."""

    to: str
    text: str
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None


class SendRequest(Ask, frozen=True, kw_only=True):
    """POST /messages: one message, or several as ``messages``. ``trust``: the user trusts what
    the agents' files would run."""

    to: Annotated[str, msgspec.Meta(description="alice, @review:main, or alice@review:main.")] | None = None
    text: str | None = None
    messages: Annotated[tuple[BatchMessage, ...], msgspec.Meta(min_length=1, max_length=MOST_AT_ONCE)] | None = None
    trust: bool = False
    agree: tuple[str, ...] = ()
    """Digests of content that was refused as untrusted and is approved for this request (protocol.trust)."""


class InstructionResult(Body, frozen=True, kw_only=True):
    """End of an instruction, or its wait: status ``waiting`` is returned only if a person has to act.

    ``cause`` is the cause of a failure, ``waits_for`` the reason of a wait. ``unasked``: name of
    the missing key for which the instruction waits."""

    instruction_id: str
    agent: str
    status: Status
    text: str
    usage: Usage = Usage()
    cause: str | None = None
    waits_for: str | None = None
    unasked: str | None = None
    attempts: int = 0
    """Number of attempts that count. Postponed attempts and attempts interrupted by a kernel's end do not count."""


class SendReceipt(Document, frozen=True, kw_only=True):
    """202 of POST /messages; with ``results`` after a wait."""

    message_id: str
    instruction_ids: tuple[str, ...]
    not_woken: tuple[str, ...] = ()
    """Agents beyond the limit of eight mentions."""
    held: dict[str, str] = {}
    """Instructions that already wait for a person: id to the reason (``waits_for`` of a result)."""
    unasked: dict[str, str] = {}
    """Instructions that wait for a missing key: id to the key's name."""
    left_behind: int = 0
    """Number of uncommitted files of the project that an agent on a node does not receive."""
    outdated: str | None = None
    """Location of the first error in the file of the recipient; the previous version of the file is in effect."""
    schema: str = "awk/send/1"


class Refusal(Body, frozen=True, kw_only=True):
    """Refusal of one message of a batch, with the same values as for a message sent alone."""

    status: int
    code: str
    detail: str
    hint: str | None = None


class BatchOutcome(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one message of a batch: either ``sent`` or ``refused`` is set."""

    sent: SendReceipt | None = None
    refused: Refusal | None = None


class BatchReceipt(Document, frozen=True, kw_only=True):
    """202 of POST /messages with ``messages``: a result for each message, in order."""

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
    """``awk channel``: oldest first. Pass ``next`` as ``since`` if that was given, else as ``before``."""

    space: str
    messages: tuple[Message, ...]
    schema: str = "awk/channel/1"


class Receipt(Body, frozen=True, kw_only=True):
    """Delivery of a message to one recipient."""

    agent: str
    state: DeliveryState
    instruction_id: str | None = None


class MessageReport(Document, frozen=True, kw_only=True):
    """GET /messages/:id."""

    message: Message
    receipts: tuple[Receipt, ...]
    schema: str = "awk/message/1"


class ResourceInfo(Document, frozen=True, kw_only=True):
    """Text stored for a space. ``author`` is the first author who stored it; ``type`` is a media type.

    The id is derived from space and content: the same text has one id in a space, regardless of its author.
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
    """``awk resource get``, GET /resources/:id: part of the text from ``offset``, in characters.
    ``next`` is the offset of the next part; null after the last part."""

    content: str
    offset: int
    next: int | None
    schema: str = "awk/resource-text/1"


class ResourceList(Page, frozen=True, kw_only=True):
    """``awk resource list``, GET /resources: without texts, the newest first. Pass ``next`` as ``before``."""

    resources: tuple[ResourceInfo, ...]
    schema: str = "awk/resource-list/1"


class InboxRow(Body, frozen=True, kw_only=True):
    """Delivery that is not handled yet."""

    message_id: str
    seq: int
    sender: str = msgspec.field(name="from")
    text: str
    state: DeliveryState
    flag: str | None = None


class Inbox(Page, frozen=True, kw_only=True):
    """``awk inbox``, GET /agents/:name/inbox: unhandled deliveries of the agent in one space.
    Pass ``next`` as ``after``."""

    agent: str
    space: str
    deliveries: tuple[InboxRow, ...]
    schema: str = "awk/inbox/1"


class FeedbackRow(Body, frozen=True, kw_only=True):
    """Feedback about the work. ``author`` is an agent in ``space``, or the user."""

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
    """``awk feedback list``: the newest entries, oldest first. Pass ``next`` as ``before``."""

    feedback: tuple[FeedbackRow, ...]
    schema: str = "awk/feedback-list/1"
