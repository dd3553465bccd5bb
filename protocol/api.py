"""Bodies of the REST API and of ``--json``: one Struct for both, so they cannot differ.

Every document the kernel answers a command with names its ``schema`` (contracts.md section 9).
"""

from typing import Annotated, Any, Literal

import msgspec

from protocol.agent import AgentDefinition, Approval
from protocol.backends import Ability
from protocol.budget import BudgetTokens, Usd
from protocol.errors import ErrorClass
from protocol.instruction import DeliveryState, Lane, Status, Usage
from protocol.message import Message
from protocol.trust import Asked


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    pass


class _Document(_Body, frozen=True, kw_only=True):
    """An answer of its own. Every subclass fixes its schema, which is declared here so that it comes first."""

    schema: str


class _Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


# -- problems -----------------------------------------------------------------------------------------


class Problem(_Body, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457 problem+json. ``code`` is stable; ``hint`` says what to do."""

    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    errors: tuple["FileError", ...] = ()
    wants: tuple[Asked, ...] = ()
    """Of ``untrusted``: what to ask the user about."""
    type: str = "about:blank"


class FileError(_Body, frozen=True, kw_only=True):
    """One mistake in a file a user wrote. ``where`` is the path of keys (``agents.bob.ref``)."""

    path: str
    line: int
    column: int
    where: str
    message: str
    hint: str | None = None
    source: str = ""
    """The line itself."""


# -- asked --------------------------------------------------------------------------------------------


class SendRequest(_Ask, frozen=True, kw_only=True):
    """POST /messages. ``trust``: the user vouches for what the agent's file would run."""

    to: str
    text: str
    trust: bool = False
    agree: tuple[str, ...] = ()
    """Digests of what was refused as untrusted before, and is agreed to this time (protocol.trust)."""


class RunRequest(_Ask, frozen=True, kw_only=True):
    """POST /run and /serve: a ``workflow`` (name, or path of a file in the project), or ``to`` and ``text``."""

    workflow: str | None = None
    tag: str = "main"
    params: tuple[str, ...] = ()
    """The words after ``--``."""
    timeout_seconds: float | None = None
    max_cost_usd: Usd | None = None
    """Beside the budget of the workflow's file: the stricter holds."""
    max_tokens: BudgetTokens | None = None
    exit_code_from: str | None = None
    """Only the work of this agent gives the run's exit code."""
    approve: Approval | None = None
    """Whether somebody is asked before a tool runs, whatever its agents' files say."""
    attended: bool = False
    """Somebody watches the run who may approve: it waits for that, and does not end."""
    trust: bool = False
    agree: tuple[str, ...] = ()
    """Digests of what was refused as untrusted before, and is agreed to this time (protocol.trust)."""
    update: bool = False
    """Look up again what the ref of a remote workflow stands for."""
    to: str | None = None
    text: str | None = None


class StartRequest(_Ask, frozen=True, kw_only=True):
    """POST /workflows."""

    workflow: str
    tag: str = "main"
    params: tuple[str, ...] = ()
    trust: bool = False
    agree: tuple[str, ...] = ()
    """Digests of what was refused as untrusted before, and is agreed to this time (protocol.trust)."""
    update: bool = False
    """Look up again what the ref of a remote workflow stands for."""


class AgentRequest(_Ask, frozen=True, kw_only=True):
    """POST /agents: an agent made at run time. Kept through crashes, ended by a clean stop."""

    model: str
    name: str | None = None
    backend: str | None = None
    system: str | None = None
    mock: Any = None
    provider: Any = None


class AgentPatch(_Ask, frozen=True, kw_only=True):
    """PATCH /agents/:name, for agents made at run time: what is not given stays."""

    model: str | None = None
    backend: str | None = None
    system: str | None = None
    mock: Any = None
    provider: Any = None


Reason = Annotated[str, msgspec.Meta(max_length=2000)]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]


class RetryRequest(_Ask, frozen=True, kw_only=True):
    """POST /instructions/:id/retry. ``fresh``: forget what its earlier attempts finished."""

    fresh: bool = False


class ApproveRequest(_Ask, frozen=True, kw_only=True):
    """POST /approvals/:id/approve. ``always``: and every later call of the tool whose whole input has this pattern.

    In a pattern ``*`` stands for any text. ``all_agents``: whichever agent makes it.
    """

    reason: Reason = ""
    always: Pattern | None = None
    all_agents: bool = False


class DenyRequest(_Ask, frozen=True, kw_only=True):
    """POST /approvals/:id/deny. The agent is told the ``reason``."""

    reason: Reason = ""


class ShutdownRequest(_Ask, frozen=True, kw_only=True):
    """POST /shutdown."""

    grace: float = 10.0
    """Seconds for running attempts to end by themselves."""


# -- answered -----------------------------------------------------------------------------------------


class Health(_Body, frozen=True, kw_only=True, omit_defaults=True):
    """GET /health, the one route without a token. ``proof`` is HMAC-SHA256(token, nonce) in hex."""

    status: Literal["starting", "ok", "stopping"]
    version: str
    proof: str | None = None
    safe_mode: bool = False
    """What is asked of it is kept, and not begun."""


class Ready(_Body, frozen=True, kw_only=True):
    """GET /ready: whether work that is accepted now is also begun."""

    ready: bool
    status: Literal["starting", "ok", "stopping", "safe_mode"]


class InstructionResult(_Body, frozen=True, kw_only=True):
    """How one instruction ended, or what keeps it: status ``waiting`` is shown once only a person can end that.

    ``cause`` is of a failure, ``waits_for`` of a wait.
    """

    instruction_id: str
    agent: str
    status: Status
    text: str
    usage: Usage = Usage()
    cause: str | None = None
    waits_for: str | None = None


class SendReceipt(_Document, frozen=True, kw_only=True):
    """202 of POST /messages; with ``results`` once waited for."""

    message_id: str
    instruction_ids: tuple[str, ...]
    not_woken: tuple[str, ...] = ()
    """Mentioned over the limit of eight."""
    held: dict[str, str] = {}
    """Instructions that wait for a person already, and for what (as ``waits_for`` of a result)."""
    schema: str = "awk/send/1"


class SendReport(_Document, frozen=True, kw_only=True):
    """``send --wait``, ``ask``, ``serve``."""

    message_id: str
    instruction_ids: tuple[str, ...]
    results: tuple[InstructionResult, ...]
    schema: str = "awk/send/1"


class Queue(_Body, frozen=True, kw_only=True):
    """How much waits in each lane."""

    immediate: int = 0
    normal: int = 0
    background: int = 0


class DiffStat(_Body, frozen=True, kw_only=True):
    """What was done in a working tree since it began, committed or not; of binary files no lines are counted."""

    files: int = 0
    added: int = 0
    deleted: int = 0
    commits: int = 0


class PsRow(_Body, frozen=True, kw_only=True):
    """One agent in the process table."""

    name: str
    space: str | None
    state: Literal["idle", "running", "waiting", "backoff", "paused", "stopped", "error"]
    reason: str | None = None
    until: str | None = None
    pid: int | None = None
    backend: str = ""
    model: str = ""
    step: int = 0
    doing: str = ""
    queue: Queue = Queue()
    unread: int = 0
    restarts: int = 0
    last_exit: str | None = None
    cpu_percent: float = 0.0
    rss_bytes: int = 0
    usage: Usage = Usage()
    last_event_at: str | None = None
    diff: DiffStat | None = None
    """Of its own working tree, where it has one and has done a step since the kernel began."""


class Ps(_Document, frozen=True, kw_only=True):
    """``awk ps``."""

    agents: tuple[PsRow, ...]
    schema: str = "awk/ps/1"


class RunReport(_Document, frozen=True, kw_only=True):
    """``awk run --json``: what came of a run, and all that was said."""

    run: str
    status: Literal["running", "done", "failed", "incomplete", "rejected", "cancelled", "timeout"]
    exit_code: int
    instructions: dict[str, int]
    usage: Usage
    messages: tuple[Message, ...]
    duration_seconds: float
    verdict: str | None = None
    output: Any = None
    """The final answer as JSON, where the workflow has an ``output_schema`` and the answer fits."""
    branches: dict[str, str] = {}
    """Of agents with working trees of their own, as long as those are there: by name."""
    schema: str = "awk/run/1"


class AttemptInfo(_Body, frozen=True, kw_only=True):
    """One attempt of an instruction. ``exit`` is a code or a signal's name."""

    n: int
    epoch: int
    started_at: str
    ended_at: str | None = None
    outcome: str | None = None
    exit: str | None = None
    stderr_tail: str | None = None
    """The last of what its worker complained, 64 KiB at most; where it failed."""


class StepInfo(_Body, frozen=True, kw_only=True):
    """One step: the attempt that made it, and when."""

    n: int
    attempt: int
    at: str


class InstructionInfo(_Document, frozen=True, kw_only=True):
    """``awk show INSTRUCTION``."""

    id: str
    agent: str
    space: str
    status: Status
    lane: Lane
    attempts: tuple[AttemptInfo, ...]
    steps: tuple[StepInfo, ...]
    usage: Usage
    text: str
    error_class: ErrorClass | None = msgspec.field(default=None, name="class")
    cause: str | None = None
    prompt_manifest: tuple[str, ...] = ()
    standing: Literal["ended", "runnable", "time", "person"] = "runnable"
    """Whether it goes on: now, by itself at ``until``, or once a person ends what it waits for."""
    waits_for: str | None = None
    until: str | None = None
    preempted: int = 0
    promoted: bool = False
    continues: str | None = None
    """The incomplete instruction whose thread it took up."""
    message_ids: tuple[str, ...] = ()
    """What it was made of: several where mentions were joined."""
    enqueued_at: str = ""
    schema: str = "awk/show/1"


class PromptMessage(_Body, frozen=True, kw_only=True):
    """One turn of a prompt."""

    role: Literal["user", "assistant"]
    text: str


class PromptReport(_Document, frozen=True, kw_only=True):
    """GET /instructions/:id/prompt, ``awk show INSTRUCTION --prompt``: what the model is told before it begins.

    ``frozen``: it was kept when the first entry was; else it is what a lease would assemble now.
    """

    id: str
    frozen: bool
    system: str
    messages: tuple[PromptMessage, ...]
    schema: str = "awk/prompt/1"


class InstructionsChanged(_Document, frozen=True, kw_only=True):
    """``awk cancel``, ``retry`` and ``promote``: the instructions as they are now."""

    instructions: tuple[InstructionInfo, ...]
    schema: str = "awk/instructions/1"


class Channel(_Document, frozen=True, kw_only=True):
    """``awk channel``, ``awk peek``."""

    space: str
    messages: tuple[Message, ...]
    schema: str = "awk/channel/1"


class QueueRow(_Body, frozen=True, kw_only=True):
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


class QueueReport(_Document, frozen=True, kw_only=True):
    """``awk queue``."""

    agent: str
    instructions: tuple[QueueRow, ...]
    schema: str = "awk/queue/1"


class DeadRow(_Body, frozen=True, kw_only=True):
    """One instruction that was given up."""

    id: str
    agent: str
    space: str
    status: Status
    cause: str
    attempts: int
    text: str
    died_at: str
    error_class: ErrorClass = msgspec.field(name="class")


class Dead(_Document, frozen=True, kw_only=True):
    """``awk dead``: instructions that failed for good."""

    instructions: tuple[DeadRow, ...]
    schema: str = "awk/dead/1"


class UsageRow(_Body, frozen=True, kw_only=True):
    """What the work of one agent took: ``key`` is ``alice``, or ``helper@review:main`` for one of a workflow."""

    key: str
    usage: Usage
    instructions: int
    failures: int
    """Those that failed, or are dead."""


class UsageReport(_Document, frozen=True, kw_only=True):
    """GET /usage: a row for each agent that was ever given work."""

    rows: tuple[UsageRow, ...]
    schema: str = "awk/stats/1"


class FeedbackRow(_Body, frozen=True, kw_only=True):
    """Something that was said about the work. ``author`` is an agent in ``space``, or the user."""

    id: str
    at: str
    author: str
    space: str | None
    text: str


class FeedbackAdded(_Document, frozen=True, kw_only=True):
    """``awk feedback add``."""

    feedback: FeedbackRow
    schema: str = "awk/feedback-add/1"


class FeedbackList(_Document, frozen=True, kw_only=True):
    """``awk feedback list``: the newest, oldest first."""

    feedback: tuple[FeedbackRow, ...]
    schema: str = "awk/feedback-list/1"


class FeedbackRequest(_Ask, frozen=True, kw_only=True):
    """POST /feedback."""

    text: str


class ApprovalRow(_Body, frozen=True, kw_only=True):
    """A call of a tool that waits for somebody to agree. ``reason`` is the agent's; ``cut``: ``input`` is not all."""

    id: str
    agent: str
    space: str
    tool: str
    input: Any
    requested_at: str
    expires_at: str
    instruction_id: str
    reason: str = ""
    cut: bool = False


class Pending(_Document, frozen=True, kw_only=True):
    """``awk pending``: what waits for a decision."""

    approvals: tuple[ApprovalRow, ...]
    schema: str = "awk/pending/1"


class ApprovalInfo(_Document, frozen=True, kw_only=True):
    """GET /approvals/:id: one request, with all of its input, and what became of it."""

    id: str
    agent: str
    space: str
    tool: str
    input: Any
    requested_at: str
    expires_at: str
    instruction_id: str
    state: Literal["open", "granted", "denied", "expired"]
    reason: str = ""
    decided_at: str | None = None
    decided_by: str | None = None
    decision_reason: str = ""
    schema: str = "awk/approval/1"


class ApprovalRuleRow(_Body, frozen=True, kw_only=True):
    """What was agreed to once for all. ``agent`` null: whoever asks."""

    id: str
    agent: str | None
    tool: str
    pattern: str
    created_at: str


class ApprovalRules(_Document, frozen=True, kw_only=True):
    """``awk pending --rules``: calls that are granted without asking."""

    rules: tuple[ApprovalRuleRow, ...]
    schema: str = "awk/approval-rules/1"


class DiffFile(_Body, frozen=True, kw_only=True):
    """One file that is not as it was."""

    path: str
    added: int
    deleted: int


class DiffCommit(_Body, frozen=True, kw_only=True):
    """One commit on the agent's branch."""

    id: str
    subject: str


class WorktreeDiff(_Body, frozen=True, kw_only=True):
    """One agent's working tree, and what was done in it since ``base``. ``patch`` is empty unless asked for.

    ``kept_because``: its run has ended, and this would be lost. ``state``: not yet there, worked in, or left behind.
    """

    agent: str
    state: Literal["planned", "made", "kept"]
    branch: str
    base: str
    path: str
    stat: DiffStat
    files: tuple[DiffFile, ...] = ()
    commits: tuple[DiffCommit, ...] = ()
    """The newest hundred."""
    patch: str = ""
    truncated: bool = False
    kept_because: str | None = None


class DiffReport(_Document, frozen=True, kw_only=True):
    """``awk diff``: the working trees of a workflow's agents, those of its newest run first."""

    space: str
    worktrees: tuple[WorktreeDiff, ...]
    schema: str = "awk/diff/1"


class Receipt(_Body, frozen=True, kw_only=True):
    """What became of a message for one recipient."""

    agent: str
    state: DeliveryState
    instruction_id: str | None = None


class MessageReport(_Document, frozen=True, kw_only=True):
    """GET /messages/:id."""

    message: Message
    receipts: tuple[Receipt, ...]
    schema: str = "awk/message/1"


class InboxRow(_Body, frozen=True, kw_only=True):
    """One delivery that is not handled yet."""

    message_id: str
    seq: int
    sender: str = msgspec.field(name="from")
    text: str
    state: DeliveryState
    flag: str | None = None


class Inbox(_Document, frozen=True, kw_only=True):
    """``awk inbox``, GET /agents/:name/inbox: what the agent has not handled in one space."""

    agent: str
    space: str
    deliveries: tuple[InboxRow, ...]
    schema: str = "awk/inbox/1"


class AgentRow(_Body, frozen=True, kw_only=True):
    """One agent in a list."""

    name: str
    model: str
    backend: str
    file: str | None
    ephemeral: bool
    state: str
    error: str | None = None
    """What is wrong with its file, and where; what that said before stays in effect."""


class AgentMade(_Document, frozen=True, kw_only=True):
    """``awk new``, 201 of POST /agents: the agent that was made, as AgentRow shows it in a list."""

    name: str
    model: str
    backend: str
    file: str | None
    ephemeral: bool
    state: str
    schema: str = "awk/new/1"


class AgentList(_Document, frozen=True, kw_only=True):
    """``awk ls``, GET /agents."""

    agents: tuple[AgentRow, ...]
    schema: str = "awk/agent-list/1"


class WorkflowRow(_Body, frozen=True, kw_only=True):
    """One running workflow. ``waiting``: a limit (``reason``) holds it until somebody continues it."""

    name: str
    tag: str
    state: Literal["running", "waiting", "stopped"]
    members: tuple[str, ...]
    started_at: str
    run: str | None = None
    reason: str | None = None
    paused: bool = False


class WorkflowList(_Document, frozen=True, kw_only=True):
    """GET /workflows."""

    workflows: tuple[WorkflowRow, ...]
    schema: str = "awk/workflow-list/1"


class KernelInfo(_Body, frozen=True, kw_only=True):
    """The kernel behind ``awk status``."""

    pid: int
    url: str
    version: str
    project: str
    uptime_seconds: float


class HeldAgent(_Body, frozen=True, kw_only=True):
    """An agent that does no work for now, and why."""

    name: str
    space: str | None
    state: str
    reason: str | None = None
    until: str | None = None


class StatusReport(_Document, frozen=True, kw_only=True):
    """``awk status``."""

    state: Literal["up", "degraded", "down"]
    notice: str | None = None
    """What a person should know and do, where the kernel does no work."""
    kernel: KernelInfo | None = None
    agents: dict[str, int] = {}
    held: tuple[HeldAgent, ...] = ()
    workflows: tuple[WorkflowRow, ...] = ()
    schema: str = "awk/status/1"


class Discovery(_Body, frozen=True, kw_only=True):
    """The record a kernel leaves for its clients (contracts.md section 3)."""

    pid: int
    started_at: str
    host: str
    port: int
    url: str
    token: str
    version: str
    project: str
    start_time: int
    boot_id: str


class AgentInfo(_Document, frozen=True, kw_only=True):
    """GET /agents/:name: one agent with its definition."""

    name: str
    model: str
    backend: str
    file: str | None
    ephemeral: bool
    state: str
    reason: str | None
    definition: AgentDefinition
    workspaces: tuple[str, ...] = ()
    """Spaces of running workflows that it is a member of."""
    sandbox: Literal["off", "on", "missing"] = "off"
    """What is in force; missing: it is asked for, and bubblewrap is not there, so that its work is refused."""
    schema: str = "awk/agent-info/1"


class Cleared(_Document, frozen=True, kw_only=True):
    """POST /spaces/:space/clear, ``awk clear``: how many messages and instructions there have no words any more."""

    space: str
    messages: int
    instructions: int
    schema: str = "awk/clear/1"


class AgentChanged(_Document, frozen=True, kw_only=True):
    """POST /agents/:name/{reset,pause,resume,stop,restart,continue}: the agent as it is now.

    ``instructions``: those that had waited, and go on.
    """

    name: str
    space: str | None
    """Of an agent that lives inside a workflow."""
    state: Literal["active", "paused", "stopped", "error"]
    reason: str | None = None
    instructions: tuple[str, ...] = ()
    schema: str = "awk/agent-state/1"


class InstructionRow(_Body, frozen=True, kw_only=True):
    """One instruction that has not ended, in a list."""

    id: str
    agent: str
    status: Status
    not_before: str | None = None
    waits_for: str | None = None


class InstructionList(_Document, frozen=True, kw_only=True):
    """GET /instructions?space=: what has not ended there."""

    space: str
    instructions: tuple[InstructionRow, ...]
    schema: str = "awk/instruction-list/1"


class MemberRow(_Body, frozen=True, kw_only=True):
    """One member of a space, and what it does."""

    name: str
    state: str
    agent: str = ""
    """What its queue is called by: ``name``, or ``name@space`` where it lives inside the workflow."""


class MemberList(_Document, frozen=True, kw_only=True):
    """GET /spaces/:space/members."""

    space: str
    members: tuple[MemberRow, ...]
    schema: str = "awk/member-list/1"


class RunRow(_Body, frozen=True, kw_only=True):
    """One run in a list."""

    run: str
    mode: Literal["start", "run"]
    state: Literal["running", "stopped"]
    status: str | None
    exit_code: int | None
    started_at: str
    ended_at: str | None


class RunList(_Document, frozen=True, kw_only=True):
    """GET /runs: the newest first."""

    runs: tuple[RunRow, ...]
    schema: str = "awk/runs/1"


class Accepted(_Body, frozen=True, kw_only=True, omit_defaults=True):
    """The first event of POST /run: what was accepted. Its client may go away now; the work goes on."""

    run: str | None = None
    message_id: str | None = None
    instruction_ids: tuple[str, ...] = ()
    seq: int = 0
    """Events of this work come after it."""


class ProviderRow(_Body, frozen=True, kw_only=True):
    """One provider. ``key_set``: whether one of ``key_variables`` is set where the kernel runs; never the key."""

    name: str
    dialect: Literal["anthropic", "openai", "cursor", "mock"]
    base_url: str | None
    key_variables: tuple[str, ...]
    key_set: bool
    source: Literal["builtin", "project"]


class ProviderList(_Document, frozen=True, kw_only=True):
    """``awk providers``. ``aliases`` are short names of models."""

    providers: tuple[ProviderRow, ...]
    aliases: dict[str, str]
    schema: str = "awk/providers/1"


class BackendRow(_Body, frozen=True, kw_only=True):
    """One backend, and whether an agent can use it here. ``missing`` says why not, and how to get it.

    ``path`` and ``version`` are its program's, where it has one. What ``weaker`` and ``no`` mean is in ``notes``.
    """

    name: str
    title: str
    available: bool
    path: str | None = None
    version: str | None = None
    missing: str | None = None
    steps: Ability
    resume: Ability
    permission_prompt: Ability
    budget: Ability
    system_prompt: Ability
    daemon_check: Ability
    notes: tuple[str, ...] = ()


class BackendList(_Document, frozen=True, kw_only=True):
    """``awk backends``."""

    backends: tuple[BackendRow, ...]
    schema: str = "awk/backends/1"
