"""Instructions: queued, shown with attempts and steps, tried again."""

from typing import Annotated, Any, Literal

import msgspec

from protocol.api.document import Ask, Body, Document, Page
from protocol.errors import ErrorClass
from protocol.instruction import Lane, Status, Usage


class BulkRetryRequest(Ask, frozen=True, kw_only=True):
    """POST /instructions/retry: which of what failed or is dead; null: of all agents, in all spaces."""

    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """What it is called in ``space``; without that as ``GET /agents`` names it."""
    space: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """Of a workflow that of its newest run, with the spaces below it."""
    fresh: bool = False
    dry_run: bool = False
    """Change nothing, and say what would be."""


class BulkRequest(Ask, frozen=True, kw_only=True):
    """POST /instructions/cancel: which of what has not ended. One of ``agent``, ``space`` and ``queued`` has to be."""

    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """What it is called in ``space``; without that as ``GET /agents`` names it."""
    space: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """Of a workflow that of its newest run, with the spaces below it."""
    queued: bool = False
    """Only what no worker is at: what runs goes on."""
    dry_run: bool = False
    """Change nothing, and say what would be."""


class AttemptInfo(Body, frozen=True, kw_only=True):
    """One attempt of an instruction. ``exit`` is a code or a signal's name."""

    n: int
    epoch: int
    started_at: str
    ended_at: str | None = None
    outcome: str | None = None
    exit: str | None = None
    node: str = ""
    """Where it ran; "" is on the kernel's machine."""
    stderr_tail: str | None = None
    """The last of what its worker complained, 64 KiB at most; where it failed."""


class FailedCall(Body, frozen=True, kw_only=True):
    """A call that gave an error, or was not run for want of an approval; and what the model read of it, shortened."""

    tool: str
    why: Literal["failed", "denied", "expired"]
    text: str


class StepInfo(Body, frozen=True, kw_only=True):
    """One step: the attempt that made it, when, and which of its calls failed."""

    n: int
    attempt: int
    at: str
    failed: tuple[FailedCall, ...] = ()


class AskedApproval(Body, frozen=True, kw_only=True):
    """A call that somebody had to agree to. ``heard``: an attempt has learned the decision.

    Before that the call has not run; granted and not heard, it runs when an attempt makes it again.
    """

    id: str
    tool: str
    state: Literal["open", "granted", "denied", "expired"]
    heard: bool
    requested_at: str
    decided_at: str | None = None


class InstructionSummary(Body, frozen=True, kw_only=True):
    """The fields by which every list shows an instruction."""

    id: str
    agent: str
    space: str
    status: Status


class Handover(Body, frozen=True, kw_only=True):
    """The notes of an agent for whoever goes on with its work (handover_write). ``open``: questions and risks."""

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
    error_class: ErrorClass | None = msgspec.field(default=None, name="class")
    cause: str | None = None
    prompt_manifest: tuple[str, ...] = ()
    standing: Literal["ended", "runnable", "time", "person"] = "runnable"
    """It goes on now, by itself at ``until``, or once a person ends what it waits for."""
    waits_for: str | None = None
    approval: str | None = None
    """The request (a3) that it waits for, and when that is given up."""
    approval_expires: str | None = None
    approvals: tuple[AskedApproval, ...] = ()
    """All that was asked for, in that order."""
    unasked: str | None = None
    """The key that is missing, where it waits for one."""
    until: str | None = None
    preempted: int = 0
    promoted: bool = False
    continues: str | None = None
    """The incomplete instruction whose thread it took up."""
    message_ids: tuple[str, ...] = ()
    """What it was made of: several where mentions were joined."""
    enqueued_at: str = ""
    tried: int = 0
    """How many attempts count, of those there were."""
    handover: Handover | None = None
    """What its agent wrote for whoever goes on with it."""


class PromptMessage(Body, frozen=True, kw_only=True):
    """One turn of a prompt."""

    role: Literal["user", "assistant"]
    text: str


PromptTrust = Literal["system", "user", "agent", "tool", "web"]
"""The class of a part's source, the most trusted first: our own words, the user's and his files', a colleague's or what
the agent itself wrote, what a tool showed, what came from outside."""
Kept = Literal["whole", "folded", "left_out"]


class PromptPart(Body, frozen=True, kw_only=True):
    """One part of a prompt, or one that had no room: its estimated tokens, where it comes from, and its trust."""

    name: str
    """The section that it is in: ``system``, ``soul``, ``memory``, ``workspace``, ``thread``, ``message``..."""
    source: str
    trust: PromptTrust
    tokens: int
    kept: Kept = "whole"
    """``folded``: shown by a line that says what it was about; ``left_out``: not shown, for want of room."""


class PromptReport(Document, frozen=True, kw_only=True):
    """GET /instructions/:id/prompt, ``awk show INSTRUCTION --prompt``: what the model is told before it begins.

    ``frozen``: it was kept when the first entry was; else it is what a lease would assemble now.
    """

    id: str
    frozen: bool
    system: str
    messages: tuple[PromptMessage, ...]
    parts: tuple[PromptPart, ...] = ()
    """In the order of the prompt. Empty for one that an older version kept."""
    stable_characters: int = 0
    """So much of ``system`` is the same for the agent's next work: it is marked for the provider's cache."""
    schema: str = "awk/prompt/1"


class CallInfo(Body, frozen=True, kw_only=True):
    """A call that a reply asked for: the tool by its bare name, and its arguments."""

    tool: str
    input: dict[str, Any]


class EntryInfo(Body, frozen=True, kw_only=True):
    """One thing that an agent did: a reply of its model (a step), a call that came back, a session that it can resume.

    Secrets are replaced by words for them. ``n`` grows within the instruction, over all its attempts; it may leave
    numbers out.
    """

    n: int
    attempt: int
    at: str
    kind: Literal["reply", "tool", "session"]
    text: str | None = None
    """What the model said."""
    calls: tuple[CallInfo, ...] = ()
    """What it asked for. A call without an entry of its own has not come back."""
    tool: str | None = None
    """The bare name, without the server that it may be of."""
    input: dict[str, Any] | None = None
    output: str | None = None
    is_error: bool = False
    duration_ms: int | None = None
    """Null where the worker did not say."""
    usage: Usage | None = None


class EntryList(Page, frozen=True, kw_only=True):
    """GET /instructions/:id/entries, ``awk show INSTRUCTION --steps``: what was done, the first thing first.

    ``next`` goes into ``after``. An answer holds as many entries as fit some MiB, and one at least. ``pending`` are the
    approvals that its calls wait for: the name of the tool, and the id.
    """

    id: str
    agent: str
    entries: tuple[EntryInfo, ...]
    pending: dict[str, str] = {}
    schema: str = "awk/entries/1"


class InstructionsChanged(Document, frozen=True, kw_only=True):
    """``awk cancel``, ``retry`` and ``promote``: the instructions as they are now."""

    instructions: tuple[InstructionInfo, ...]
    schema: str = "awk/instructions/1"


class Unchanged(Body, frozen=True, kw_only=True):
    """An instruction that was meant and is as it was, with the refusal that it would meet alone."""

    id: str
    code: str
    detail: str


class BulkReport(Document, frozen=True, kw_only=True):
    """POST /instructions/cancel and /instructions/retry, ``awk cancel @review``, ``awk retry --all``.

    ``matched`` were meant; of these ``changed`` were changed in this one commit, and those that ``kept_by`` counts by
    the code of their refusal were not. ``left`` more run, which was asked to be left alone. Lists are cut at 1000.
    """

    action: Literal["cancel", "retry"]
    dry_run: bool
    matched: int
    changed: int
    rest: int = 0
    """So many more are meant than are changed at once: the same request, with another key, takes the next of them."""
    left: int = 0
    kept_by: dict[str, int]
    kept: tuple[Unchanged, ...]
    instructions: tuple[InstructionSummary, ...]
    """Those that were changed, or would be, the oldest first."""
    schema: str = "awk/bulk/1"


class QueueRow(Body, frozen=True, kw_only=True):
    """One instruction that has not ended."""

    id: str
    lane: Lane
    status: Status
    attempt: int
    step: int
    preempted: int
    enqueued_at: str
    not_before: str | None = None
    waits_for: str | None = None
    """What keeps it, where it is not just its turn: its own wait, or its agent's."""
    until: str | None = None
    """When that ends by itself; null: a person has to do something."""
    promoted: bool = False


class QueueReport(Page, frozen=True, kw_only=True):
    """``awk queue``: in the order it will be done. ``next`` goes into ``after``."""

    agent: str
    instructions: tuple[QueueRow, ...]
    schema: str = "awk/queue/1"


class DeadRow(InstructionSummary, frozen=True, kw_only=True):
    """One instruction that was given up."""

    cause: str
    attempts: int
    text: str
    died_at: str
    error_class: ErrorClass = msgspec.field(name="class")


class Dead(Page, frozen=True, kw_only=True):
    """``awk dead``: instructions that failed for good, the last first. ``next`` goes into ``before``."""

    instructions: tuple[DeadRow, ...]
    schema: str = "awk/dead/1"


class DeadCleared(Document, frozen=True, kw_only=True):
    """``awk dead --clear``: how many instructions are listed no more."""

    instructions: int
    schema: str = "awk/dead-clear/1"


class InstructionRow(InstructionSummary, frozen=True, kw_only=True):
    """One instruction that has not ended, in a list."""

    not_before: str | None = None
    waits_for: str | None = None


class InstructionList(Page, frozen=True, kw_only=True):
    """GET /instructions, GET /instructions?space=: what has not ended, anywhere or there, the oldest first.

    ``next`` goes into ``after``.
    """

    space: str | None
    instructions: tuple[InstructionRow, ...]
    schema: str = "awk/instruction-list/1"
