"""The agent file, and the mock script it may carry.

Field names are the keys of the file (contracts.md section 1). A key of the file that is not a field
here is rejected with a hint, never ignored.
"""

from functools import lru_cache
from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from protocol.agent_memory import Tier
from protocol.limits import AgentBudget, PlaceNeeds, StrictStruct

Backend = Literal["sdk", "claude", "codex", "opencode", "cursor", "acp", "exec", "human", "mock"]
"""Backends that can run an agent. Each has a row in ``protocol.backends``."""
Approval = Literal["auto", "ask", "all", "deny"]
"""Approval policies. auto: run every tool. ask: ask before tools that change something. all: ask before each. deny:
refuse instead."""

Scope = Literal[
    "channel.read", "channel.write", "documents.read", "documents.write", "tasks", "votes", "status", "memory", "ask",
    "feedback", "rules", "auth", "spaces", "agents", "workflows",
]  # fmt: skip
"""Groups of Daemon MCP's tools that an agent file grants. ``agents`` and ``workflows`` are for actions of rules."""
NAMED_ONLY: Final[frozenset[Scope]] = frozenset({"rules", "auth", "spaces", "agents", "workflows"})
"""Scopes that an agent has only if its file names them."""
SCOPES: Final[frozenset[Scope]] = frozenset(get_args(Scope)) - NAMED_ONLY
"""Scopes that ``default`` stands for."""
ScopeWords = tuple[Literal["default", Scope], ...]


@lru_cache(256)
def scopes_of(words: ScopeWords) -> frozenset[Scope]:
    """Return the scopes that an agent file names."""
    return frozenset(scope for word in words for scope in (SCOPES if word == "default" else (word,)))


Duration = Annotated[float, msgspec.Meta(ge=0.1, le=2_592_000, extra={"duration": True})]
"""Seconds; ``120s``, ``10m``, ``200ms`` or a bare number in the file. From 0.1 s to 30 days."""
Pause = Annotated[float, msgspec.Meta(ge=0, le=86_400, extra={"duration": True})]
"""Seconds, from 0 to one day."""


RestartWindow = Annotated[float, msgspec.Meta(ge=1, le=3600, extra={"duration": True})]
"""Seconds, from one second to one hour."""

Effort = Literal["low", "medium", "high", "max"]
"""Reasoning effort of a model."""
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
ThinkingTokens = Annotated[int, msgspec.Meta(ge=1024, le=1_000_000)]
OpenAIApi = Literal["chat", "responses"]
"""OpenAI's APIs."""

Bytes = Annotated[int, msgspec.Meta(ge=64 * 2**20, le=2**50, extra={"bytes": True})]
"""Bytes; ``512MiB``, ``4GiB``, ``2GB`` or a bare number in the file. From 64 MiB."""
QuotaBytes = Annotated[int, msgspec.Meta(ge=1024, le=2**40, extra={"bytes": True})]
"""Bytes; ``64KiB``, ``16MiB`` or a bare number in the file. From 1 KiB."""
Quota = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
QUEUE_LIMIT: Final = 10_000
Times = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Reuse = Annotated[int, msgspec.Meta(ge=1, le=1000)] | Literal["auto"]
PromptTokens = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
MaxSteps = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Replicas = Annotated[int, msgspec.Meta(ge=1, le=64)]
MaxTokens = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


Recording = Literal["on", "off", "errors"]


def model_names(written: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in a value of ``model``, which is a name or a list of names."""
    return ((written,) if written else ()) if isinstance(written, str) else written


class Prompt(StrictStruct, frozen=True, kw_only=True):
    """System prompt: its text or a file of the project. ``append`` is text that a workflow adds to it."""

    system: str | None = None
    """Text of the prompt. Set this or ``system_file``."""
    system_file: str | None = None
    """Text file of the project, read for every instruction."""
    append: str | None = None
    """Text that a workflow adds to the prompt of a referenced agent."""


class Context(StrictStruct, frozen=True, kw_only=True):
    """Conversation history and folder of an agent, for all workspaces. An inline agent of a
    workflow has no folder; its data ends with the workflow."""

    thin_thread: Annotated[int, msgspec.Meta(ge=0, le=200)] = 10
    """Number of earlier messages of the same space at the beginning of the prompt."""
    budget: PromptTokens = 8000
    """Maximum of the estimated tokens of all earlier messages together. Beyond it, the oldest messages are shortened
    to one line each, then omitted. ``awk show INSTRUCTION --prompt`` lists the omitted messages."""
    dir: str | None = None
    """Project folder for memory, notes, todos and conversations. Default: ``.agents/<name>``. The folder belongs to the
    agent alone. Deleting the agent moves the folder away if the kernel created it."""


class Memory(StrictStruct, frozen=True, kw_only=True):
    """Memory, notes and todos in a prompt. The agent finds omitted items with ``memory_recall``."""

    budget: PromptTokens = 2000
    """Maximum of the estimated tokens of memory, notes and todos together. Further items are omitted; ``awk show
    INSTRUCTION --prompt`` lists the omitted items. ``0``: none are in the prompt."""
    auto_load: tuple[Tier, ...] = ("core",)
    """Tiers whose items are in every prompt."""
    search: tuple[Tier, ...] = ("working",)
    """Tiers that are searched for the instruction's text. Matching items are in the prompt."""
    archive: Literal["on_demand"] = "on_demand"
    """Items of other tiers enter a prompt only through ``memory_recall``."""


class Documents(StrictStruct, frozen=True, kw_only=True):
    """The entry document of the workspace in a prompt."""

    budget: PromptTokens = 2000
    """Maximum of the estimated tokens of its text; ``team_doc_read`` returns the rest. ``0``: no text."""


class Timeouts(StrictStruct, frozen=True, kw_only=True):
    """Deadlines of one attempt, in seconds (durations like ``10m`` in the file)."""

    startup: Duration = 120.0
    """Time until the first output of the worker."""
    idle: Duration = 600.0
    """Time without output of the model while no tool runs."""
    tool: Duration = 1800.0
    """Time for one tool call."""
    quiet: Duration = 300.0
    """Time without output after which `awk needs` reports the step, which continues."""
    total: Duration = 7200.0
    """Time for the whole attempt. Its completed steps are kept."""
    approval: Duration = 3600.0
    """Time to approve a tool call. An undecided call is then refused."""
    answer: Duration | None = None
    """Time for the person behind ``backend: human`` to answer; then the work is incomplete. Unset: no limit."""
    escalate: str | None = None
    """Member of the workspace who is asked once after ``answer`` has passed. The answer goes to the original sender."""


class Retry(StrictStruct, frozen=True, kw_only=True):
    """Retries of transient failures."""

    attempts: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    """Maximum number of attempts of an instruction before it is dead-lettered."""
    backoff: Pause = 1.0
    """Pause before the second attempt."""
    multiplier: Annotated[float, msgspec.Meta(ge=1, le=10)] = 2.0
    """Factor by which each pause is longer than the previous one."""


class Restart(StrictStruct, frozen=True, kw_only=True):
    """Restarts after the death of a worker: by a signal, or without output. Errors of a provider count under ``retry``.
    An instruction whose worker dies twice is dead-lettered, unless ``attempts`` sets another number."""

    delay: Pause = 0.0
    """Pause after the first crash. It is 2 s, 4 s and so on after further crashes."""
    max_delay: Pause = 30.0
    """Longest pause."""
    attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    """Number of crashes within ``window`` that stop the agent (state ``error``) until ``awk reset``. Default: 5. If
    set, the same number of crashes (at least 2) of one instruction dead-letters it."""
    window: RestartWindow = 60.0
    """Period for ``attempts``. Regardless of it, 20 crashes in an hour (or ``attempts``, if larger) stop the agent,
    and 20 crashes of one instruction (or ``attempts``, if larger) dead-letter it."""

    @property
    def crashes(self) -> int:
        """Return the number of crashes within ``window`` that stop the agent."""
        return 5 if self.attempts is None else self.attempts


class Schedule(StrictStruct, frozen=True, kw_only=True):
    """Times at which the agent wakes without a message.

    ``wakeup`` is a duration (``5m``: after the agent's last activity) or a cron line (``0 9 * * 1-5``, in ``timezone``,
    an IANA name; default: the machine's time zone). ``workspace`` (``review`` or ``review:tag``) is where the agent
    wakes, if the workspace runs.
    """

    wakeup: str
    """Duration (``5m``: after the agent's last activity) or cron line (``0 9 * * 1-5``)."""
    prompt: str | None = None
    """Instruction for the agent when it wakes."""
    workspace: str | None = None
    """Workspace where the agent wakes if the workspace runs: ``review`` or ``review:tag``. Default: the agent's
    personal space."""
    timezone: str | None = None
    """IANA time zone of a cron line. Default: the machine's time zone."""


class TreeSource(StrictStruct, frozen=True, kw_only=True):
    """Source of the files in an agent's working tree."""

    source: str = msgspec.field(name="from")
    """Agent of the workflow. Before each instruction, the tree is updated to the last commit of that agent's branch,
    unless the tree has changes."""


class AgentLimits(StrictStruct, frozen=True, kw_only=True):
    """Limits of one agent. An attempt that exceeds ``memory`` is killed. Tool calls beyond the quotas of an
    instruction, over all its attempts, are refused. ``queue`` limits the waiting instructions."""

    memory: Bytes | None = None
    """Memory of all processes of the agent together: ``512MiB``, ``4GiB``. Unset: no limit."""
    processes: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """Maximum number of processes at a time. Unset: no limit."""
    messages: Quota = 500
    """Maximum number of messages of an instruction, votes and questions to colleagues included."""
    instructions: Quota = 200
    """Maximum number of instructions for others that the messages of an instruction create."""
    approvals: Quota = 200
    """Maximum number of approval requests of an instruction."""
    feedback: Quota = 50
    """Maximum number of feedback entries of an instruction."""
    bytes: QuotaBytes = 16 * 2**20
    """Maximum size of the text that an instruction stores: ``16MiB``. The entries of ``backend: exec`` count too."""
    queue: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = QUEUE_LIMIT
    """Maximum number of instructions that wait for the agent. Further instructions are refused."""


class Thinking(StrictStruct, frozen=True, kw_only=True):
    """Thinking budget of a model that counts it in tokens."""

    budget_tokens: ThinkingTokens
    """Tokens of one model call. They are part of ``max_tokens``, which must be larger."""


class Endpoint(StrictStruct, frozen=True, kw_only=True):
    """Custom endpoint of the agent. OpenAI-compatible unless the model's prefix specifies another provider."""

    name: str
    """Name of the provider. For a name that the kernel knows, ``base_url`` can be unset."""
    base_url: str | None = None
    """URL for requests. It needs trust."""
    api_key: str | None = None
    """``$NAME`` of a variable in the kernel's environment."""
    dialect: Literal["anthropic", "openai"] | None = None
    """API dialect of the endpoint. Default: by the model's prefix."""
    api: OpenAIApi | None = None
    """For dialect ``openai``: ``responses`` for a model that only that API serves. Not needed
    for OpenAI's own models."""


class McpServer(StrictStruct, frozen=True, kw_only=True):
    """MCP server of the agent, as in ``.mcp.json``: a ``command`` to run or a ``url`` to connect to."""

    type: Literal["stdio", "http", "project"] | None = None
    """Transport. Default: by ``command`` or ``url``. ``project``: the server is defined in the project's
    ``.mcp.json``."""
    command: str | None = None
    """Program to run. It needs trust."""
    args: tuple[str, ...] = ()
    """Arguments of the program."""
    env: dict[str, str] = {}
    """Additional environment variables. ``${NAME}`` is a variable of your environment, which needs trust."""
    url: str | None = None
    """URL of the server. It needs trust."""
    headers: dict[str, str] = {}
    """Headers of every request. ``${NAME}`` is a variable of your environment, which needs trust."""


class CliExtras(StrictStruct, frozen=True, kw_only=True):
    """Personal extensions of a program (claude, codex, opencode) that an agent may use."""

    skills: tuple[str, ...] = ()
    """Folder names of your personal skills. The agent reads a copy of each. They need trust."""
    hooks: bool = False
    """``true``: your personal hooks run as in your own sessions. For backend ``claude``. They need trust."""
    mcp_servers: tuple[str, ...] = ()
    """Names of your personal MCP servers. They need trust."""


class MockError(StrictStruct, frozen=True, kw_only=True):
    """Simulated failure of a provider."""

    http_status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    """HTTP status of the provider's answer."""
    retry_after: Pause | None = None
    """Time that the provider asks to wait."""
    code: str | None = None
    """Error code of the provider."""
    text: str = ""
    """Error message of the provider."""
    times: Times | None = None
    """Number of failures over all attempts. Unset: always."""


class MockExit(StrictStruct, frozen=True, kw_only=True):
    """Simulated death of the worker: a ``signal`` (KILL) or an exit ``code``."""

    signal: str | None = None
    """Signal that kills the worker: ``KILL``."""
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    """Exit code of the worker."""
    times: Times | None = None
    """Number of times over all attempts. Unset: always."""


class MockUsage(StrictStruct, frozen=True, kw_only=True):
    """Usage recorded for a step of a script. ``cost_usd`` sets the cost directly, because a mock has no price list."""

    input_tokens: Tokens = 0
    """Input tokens."""
    output_tokens: Tokens = 0
    """Output tokens."""
    cache_read_tokens: Tokens = 0
    """Input tokens read from a cache."""
    cache_write_tokens: Tokens = 0
    """Input tokens written to a cache."""
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    """Cost of the step. A mock has no price list."""


class Action(StrictStruct, frozen=True, kw_only=True):
    """Action of a mock script. Exactly one key is set. In addition, ``tool`` may have ``args``,
    and ``shell`` may have ``background``."""

    tool: str | None = None
    """Name of a tool to call. The call is real."""
    args: dict[str, Any] | None = None
    """Arguments of the tool."""
    shell: str | None = None
    """Shell command to run in the project. It needs trust."""
    background: bool | None = None
    """``true``: the script does not wait for the command, which runs until the attempt ends, such as a server. Use it
    with ``shell``."""
    sleep: Pause | None = None
    """Pause."""
    error: MockError | None = None
    """Simulated failure of a provider."""
    exit: MockExit | None = None
    """Simulated death of the worker by a signal (``SIGKILL``) or an exit code."""
    usage: MockUsage | None = None
    """Usage recorded for this step."""
    text: str | None = None
    """Output text. The last text is the reply. ``${{ message.text }}`` and ``${{ match.1 }}`` are replaced."""

    @property
    def kind(self) -> str:
        """Return the key that is set."""
        names = ("tool", "shell", "sleep", "error", "exit", "usage", "text")
        return next((name for name in names if getattr(self, name) is not None), "")


class Rule(StrictStruct, frozen=True, kw_only=True):
    """Actions of a mock for instructions whose text matches ``when``."""

    do: tuple[Action, ...]
    """Actions. Each is one step."""
    when: str | None = None
    """Regular expression that is searched in the instruction's text. Unset: always matches."""


class AgentDefinition(StrictStruct, frozen=True, kw_only=True, tag_field="entry", tag="inline"):
    """Agent with defaults applied: the content of ``.agents/<name>.yaml`` or an inline entry of a workflow."""

    # The tag distinguishes an AgentDefinition from a Ref in stored JSON. It is not a key of the file.

    name: str
    """Name of the agent. It must equal the file's name."""
    model: str | tuple[str, ...] = ""
    """``provider/name`` or an alias (``opus``, ``sonnet``, ``haiku``, or one of the project file); or a list of them:
    while a model is unavailable, the next one is used. Default: ``models.default`` of the project file."""
    fallback_after: Duration | None = None
    """Time until the reset of a rate limit beyond which the next model of the list is used. Unset:
    ``models.fallback_after`` of the project file."""
    backend: Backend = "sdk"
    """Backend of the agent: ``sdk`` calls the model directly, ``mock`` plays a script without a model, ``human`` asks
    you."""
    provider: str | Endpoint | None = None
    """Endpoint and key to use: a name (from the project file or a known provider) or an endpoint."""
    prompt: Prompt = Prompt()
    """System prompt."""
    soul: dict[str, Any] = {}
    """Permanent identity: ``role``, ``expertise``, ``style``, ``principles``, and any other keys."""
    context: Context = Context()
    """Conversation history and folder of the agent."""
    memory: Memory = Memory()
    """Memory in the prompt."""
    documents: Documents = Documents()
    """Entry document in the prompt."""
    max_steps: MaxSteps = 100
    """Maximum number of steps of one instruction. Beyond it the instruction is incomplete and can be continued."""
    max_tokens: MaxTokens = 8192
    """Maximum output tokens of one model call."""
    effort: Effort | None = None
    """Reasoning effort: ``low``, ``medium``, ``high`` or ``max``. Unset: the provider's default."""
    thinking: Thinking | None = None
    """Thinking budget of models that count it in tokens."""
    temperature: Temperature | None = None
    """Randomness of the output: 0 to 2 (Anthropic: to 1). Unset: the provider's default."""
    timeouts: Timeouts = Timeouts()
    """Time limits of one attempt."""
    retry: Retry = Retry()
    """Retries after transient failures."""
    restart: Restart = Restart()
    """Restarts after the death of a worker."""
    reuse: Reuse | None = None
    """Number of instructions that one worker process of the agent runs in sequence. For ``sdk`` and ``mock``. ``auto``:
    20 if the agent has no tools, skills, MCP servers, mock ``shell`` or sandbox, otherwise 1; its instructions then
    share the memory of a process. Unset: ``defaults.reuse`` of the project file, or 1."""
    budget: AgentBudget = AgentBudget()
    """Spending limits."""
    replicas: Replicas | None = None
    """Number of instances that take work from one queue, from 1 to 64. ``replicas: 3`` under ``coder`` makes the
    instances ``coder.1``, ``coder.2`` and ``coder.3``. Unset or 1: the agent itself works."""
    schedule: Schedule | None = None
    """Times at which the agent wakes without a message."""
    worktree: TreeSource | None = None
    """In a workflow with ``workspace.git: worktree``: the source of the files in the agent's working tree."""
    tools: tuple[str, ...] = ()
    """Tools to enable: ``bash``, ``files``, ``skills``, ``feedback``, or tools of the project file."""
    scopes: ScopeWords = ("default",)
    """Scopes of the agent's team tools. ``default`` stands for every scope except ``rules``,
    ``auth``, ``spaces``, ``agents`` and ``workflows``. A reviewer that cannot speak: ``[channel.read, votes]``."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers of the agent by name; or names of servers in ``.mcp.json``; or ``.mcp.json``. They need trust."""
    skills: tuple[str, ...] = ()
    """Project folders of skills, each with a ``SKILL.md``. Default: ``.agents/skills``. They need trust."""
    read_only: tuple[str, ...] = ()
    """Tools of the agent's MCP servers that change nothing and need no approval under ``approval: ask``:
    ``mcp__docs__search`` or ``mcp__docs__*``. The kernel ignores the server's own claims. It needs trust."""
    approval: Approval = "ask"
    """Approval policy for tool calls: ``auto``, ``ask``, ``all`` or ``deny``."""
    sandbox: Literal["off", "on"] = "off"
    """``on``: the agent's processes can access the project but no other files of yours. The
    agent is refused on machines without sandbox support."""
    limits: AgentLimits = AgentLimits()
    """Limits on resources and calls."""
    needs: PlaceNeeds = PlaceNeeds()
    """Requirements for the machine that runs the agent: ``{labels: [gpu], memory: 8GB, gpus:
    1}``. Unset: the kernel's machine."""
    recording: Recording | None = None
    """Recording of the model requests: ``on``, ``off``, or ``errors`` alone. Default: the project's value, or
    ``off`` with ``login: true``."""
    login: bool = False
    """``true``: the agent's program (claude, codex, opencode, acp) uses your personal login. It needs trust."""
    cli: CliExtras = CliExtras()
    """Your personal skills, hooks and MCP servers that the agent's program may use. They need trust."""
    project_rules: bool = False
    """``true``: the agent's prompt includes the project's nearest ``CLAUDE.md`` and ``AGENTS.md``. They need trust."""
    command: tuple[str, ...] = ()
    """For ``backend: exec`` and ``acp``: the program and its arguments. It needs trust."""
    env: tuple[str, ...] = ()
    """Variables of your environment that the agent's tools can read. They need trust."""
    mock: tuple[Rule, ...] = ()
    """Script of a mock."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models as written, in order of preference; empty without a model."""
        return model_names(self.model)

    @property
    def first_model(self) -> str:
        """Return the preferred model as written; "" without a model."""
        return next(iter(self.models), "")
