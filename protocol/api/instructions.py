"""Instructions: lists, details with attempts and steps, retries."""

from typing import Annotated, Any, Literal

import msgspec

from protocol.api.document import Ask, Body, Document, Page
from protocol.errors import ErrorClass
from protocol.instruction import Lane, Status, Usage
from protocol.message import Message


class BulkRetryRequest(Ask, frozen=True, kw_only=True):
    """POST /instructions/retry: filter for failed and dead-lettered instructions. Null: all agents, all spaces."""

    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """Name of the agent in ``space``; without ``space``, its name in ``GET /agents``."""
    space: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """Name of a space. A workflow's name stands for the space of its newest run, including the spaces below it."""
    fresh: bool = False
    dry_run: bool = False
    """Report the effect without any change."""


class BulkRequest(Ask, frozen=True, kw_only=True):
    """POST /instructions/cancel: filter for unfinished instructions. At least one of ``agent``, ``space`` and
    ``queued`` is required."""

    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """Name of the agent in ``space``; without ``space``, its name in ``GET /agents``."""
    space: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """Name of a space. A workflow's name stands for the space of its newest run, including the spaces below it."""
    queued: bool = False
    """Only waiting instructions. Running instructions are not cancelled."""
    dry_run: bool = False
    """Report the effect without any change."""


class ModelUse(Body, frozen=True, kw_only=True):
    """Model that an attempt used, with the usage of its answers."""

    model: str
    usage: Usage


class AttemptInfo(Body, frozen=True, kw_only=True):
    """Attempt of an instruction. ``exit`` is the worker's exit code, or the name of the signal that killed it."""

    n: int
    epoch: int
    started_at: str
    ended_at: str | None = None
    outcome: str | None = None
    exit: str | None = None
    node: str = ""
    """Node of the attempt. "" is the kernel's machine."""
    stderr_tail: str | None = None
    """End of the worker's standard error, at most 64 KiB, of a failed attempt."""
    models: tuple[ModelUse, ...] = ()
    """Model of the attempt with its usage. Empty until the worker has started."""


class FailedCall(Body, frozen=True, kw_only=True):
    """Call that returned an error or was refused approval, with the shortened result that the model received."""

    tool: str
    why: Literal["failed", "denied", "expired"]
    text: str


class StepInfo(Body, frozen=True, kw_only=True):
    """Step of an instruction: its attempt, time and failed calls."""

    n: int
    attempt: int
    at: str
    failed: tuple[FailedCall, ...] = ()


class AskedApproval(Body, frozen=True, kw_only=True):
    """Call that needed approval. ``heard``: an attempt has received the person's decision.

    Until then the call has not run. After an approval, it runs when an attempt makes the same call again."""

    id: str
    tool: str
    state: Literal["open", "granted", "denied", "expired"]
    heard: bool
    requested_at: str
    decided_at: str | None = None


class InstructionSummary(Body, frozen=True, kw_only=True):
    """Fields of an instruction in every list."""

    id: str
    agent: str
    space: str
    status: Status


class Handover(Body, frozen=True, kw_only=True):
    """Notes of an agent for the next agent that continues its work (handover_write). ``open``: questions and risks."""

    done: str
    next: str
    open: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    at: str = ""


class InstructionInfo(InstructionSummary, frozen=True, kw_only=True, tag_field="schema", tag="awk/show/1"):
    """``awk show INSTRUCTION``."""

    lane: Lane
    attempts: tuple[AttemptInfo, ...]
    steps: tuple[StepInfo, ...]
    usage: Usage
    text: str
    model: str = ""
    """Model that answered last, or else the model of the last attempt. A backend without a model: its name."""
    error_class: ErrorClass | None = msgspec.field(default=None, name="class")
    cause: str | None = None
    prompt_manifest: tuple[str, ...] = ()
    standing: Literal["ended", "runnable", "time", "person"] = "runnable"
    """Whether the work can continue now (``runnable``), at ``until`` (``time``), or only after a person acts
    (``person``)."""
    waits_for: str | None = None
    approval: str | None = None
    """Id (a3) and deadline of the approval request that the instruction waits for."""
    approval_expires: str | None = None
    approvals: tuple[AskedApproval, ...] = ()
    """Approval requests in order."""
    unasked: str | None = None
    """Name of the missing key that the instruction waits for."""
    until: str | None = None
    preempted: int = 0
    promoted: bool = False
    continues: str | None = None
    """Incomplete instruction whose thread this instruction continues."""
    message_ids: tuple[str, ...] = ()
    """Messages that created the instruction. Several mentions of the agent can be joined in one instruction."""
    enqueued_at: str = ""
    tried: int = 0
    """Number of attempts, without postponed attempts and attempts that a kernel's end interrupted."""
    handover: Handover | None = None
    """Notes of the agent for the next agent that continues its work."""


class PromptMessage(Body, frozen=True, kw_only=True):
    """Turn of a prompt."""

    role: Literal["user", "assistant"]
    text: str


PromptTrust = Literal["system", "user", "agent", "tool", "web"]
"""Trust class of a part's source, most trusted first: the kernel's own text, the user and the project files, a
colleague or the agent itself, the result of a tool, external content."""
Kept = Literal["whole", "folded", "left_out"]


class PromptPart(Body, frozen=True, kw_only=True):
    """Part of a prompt, or a part that was omitted: its estimated tokens, source and trust."""

    name: str
    """Section of the part: ``system``, ``soul``, ``memory``, ``workspace``, ``thread``, ``message``..."""
    source: str
    trust: PromptTrust
    tokens: int
    kept: Kept = "whole"
    """``folded``: shortened to one line. ``left_out``: omitted for lack of space."""


class PromptReport(Document, frozen=True, kw_only=True):
    """GET /instructions/:id/prompt, ``awk show INSTRUCTION --prompt``: the initial prompt of the model.

    ``frozen``: the prompt was stored with the first entry. Otherwise it is the prompt that an attempt would receive
    now.
    """

    id: str
    frozen: bool
    system: str
    messages: tuple[PromptMessage, ...]
    parts: tuple[PromptPart, ...] = ()
    """Parts in the order of the prompt. Empty for prompts of older versions."""
    stable_characters: int = 0
    """Number of characters of ``system`` that stay the same for the agent's next work and are marked for the provider's
    cache."""
    schema: str = "awk/prompt/1"


class CallInfo(Body, frozen=True, kw_only=True):
    """Call in a reply: the tool's bare name and the arguments."""

    tool: str
    input: dict[str, Any]


class EntryInfo(Body, frozen=True, kw_only=True):
    """Entry of an agent's work: a reply of its model (a step), the result of a call, or a session that can be resumed.

    Secrets are replaced by placeholders. ``n`` increases within the instruction, over all attempts, possibly with gaps.
    """

    n: int
    attempt: int
    at: str
    kind: Literal["reply", "tool", "session"]
    text: str | None = None
    """Text of the model."""
    calls: tuple[CallInfo, ...] = ()
    """Calls of the reply. A call without its own entry has no result yet."""
    tool: str | None = None
    """Bare name of the tool, without its server."""
    input: dict[str, Any] | None = None
    output: str | None = None
    is_error: bool = False
    duration_ms: int | None = None
    """Duration in milliseconds. Null if the worker did not report one."""
    usage: Usage | None = None


class EntryList(Page, frozen=True, kw_only=True):
    """GET /instructions/:id/entries, ``awk show INSTRUCTION --steps``: entries in order.

    Pass ``next`` as ``after``. An answer contains at least one entry and at most a few MiB.
    ``pending`` maps the tool name of each call that waits for approval to the id of the request.
    """

    id: str
    agent: str
    entries: tuple[EntryInfo, ...]
    pending: dict[str, str] = {}
    start: int = 0
    """Value of ``after`` for the first entry."""
    instruction: InstructionInfo | None = None
    """The instruction, if the request asks for details."""
    messages: tuple[Message, ...] = ()
    """Details of an instruction that waits for a person: the last messages that ask."""
    schema: str = "awk/entries/1"


class WireExchange(Body, frozen=True, kw_only=True):
    """Recorded exchange with a model provider, without secrets: JSON, or text that is not JSON.

    Of requests over 1 MiB, long texts are ``0000``; of responses, the first 4 MiB are recorded.
    """

    n: int
    attempt: int
    at: str
    model: str
    request: Any
    response: Any
    """Null if there was no response; then ``status`` is null as well."""
    status: int | None
    ms: int


class WireReport(Page, frozen=True, kw_only=True):
    """GET /instructions/:id/wire, ``awk show INSTRUCTION --wire``: recorded exchanges in order.

    Empty unless the key ``recording`` of the agent or project is set. Pass ``next`` as ``after``.
    """

    id: str
    exchanges: tuple[WireExchange, ...]
    schema: str = "awk/wire/1"


class InstructionsChanged(Document, frozen=True, kw_only=True):
    """``awk cancel``, ``retry`` and ``promote``: the instructions after the change."""

    instructions: tuple[InstructionInfo, ...]
    schema: str = "awk/instructions/1"


class Unchanged(Body, frozen=True, kw_only=True):
    """Instruction that matched but was not changed, with the refusal that a request for it alone would receive."""

    id: str
    code: str
    detail: str


class BulkReport(Document, frozen=True, kw_only=True):
    """POST /instructions/cancel and /instructions/retry, ``awk cancel @review``, ``awk retry --all``.

    Of the ``matched`` instructions, ``changed`` were changed in this commit; ``kept_by`` has the number of others by
    refusal code. ``left`` counts running instructions that the request excluded. Lists are cut at 1000.
    """

    action: Literal["cancel", "retry"]
    dry_run: bool
    matched: int
    changed: int
    rest: int = 0
    """Number of matching instructions beyond the limit of one request. Repeat the request with another key to change
    them."""
    left: int = 0
    kept_by: dict[str, int]
    kept: tuple[Unchanged, ...]
    instructions: tuple[InstructionSummary, ...]
    """Instructions that were changed, or would be, the oldest first."""
    schema: str = "awk/bulk/1"


class QueueRow(Body, frozen=True, kw_only=True):
    """Unfinished instruction."""

    id: str
    lane: Lane
    status: Status
    attempt: int
    step: int
    preempted: int
    enqueued_at: str
    not_before: str | None = None
    waits_for: str | None = None
    """Reason why the instruction or its agent waits. Null: only earlier instructions delay it."""
    until: str | None = None
    """Time at which the delay ends. Null: a person has to act."""
    promoted: bool = False


class QueueReport(Page, frozen=True, kw_only=True):
    """``awk queue``: unfinished instructions in order of execution. Pass ``next`` as ``after``."""

    agent: str
    instructions: tuple[QueueRow, ...]
    last: str | None = None
    """The agent's newest ended instruction, if no instruction is unfinished."""
    schema: str = "awk/queue/1"


class DeadRow(InstructionSummary, frozen=True, kw_only=True):
    """Dead-lettered instruction."""

    cause: str
    attempts: int
    text: str
    died_at: str
    error_class: ErrorClass = msgspec.field(name="class")


class Dead(Page, frozen=True, kw_only=True):
    """``awk dead``: dead-lettered instructions, the newest first. Pass ``next`` as ``before``."""

    instructions: tuple[DeadRow, ...]
    schema: str = "awk/dead/1"


class DeadCleared(Document, frozen=True, kw_only=True):
    """``awk dead --clear``: number of instructions that were removed from the list."""

    instructions: int
    schema: str = "awk/dead-clear/1"


class InstructionRow(InstructionSummary, frozen=True, kw_only=True):
    """Unfinished instruction in a list."""

    not_before: str | None = None
    waits_for: str | None = None


class InstructionList(Page, frozen=True, kw_only=True):
    """GET /instructions, GET /instructions?space=: unfinished instructions of all spaces or of
    one, the oldest first. Pass ``next`` as ``after``."""

    space: str | None
    instructions: tuple[InstructionRow, ...]
    schema: str = "awk/instruction-list/1"


UnblockAction = Literal["resume", "continue", "retry", "reset", "restart"]


class Unblocked(Document, frozen=True, kw_only=True):
    """``awk unblock``: the action that was taken for ``subject``, an agent, a workflow or an instruction."""

    target: str
    action: UnblockAction
    subject: str
    because: str
    """State, wait reason or reached limit that blocked the work."""
    instructions: tuple[str, ...] = ()
    """Instructions that now continue."""
    schema: str = "awk/unblock/1"
