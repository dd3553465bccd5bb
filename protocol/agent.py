"""The agent file, and the mock script it may carry.

Field names are the keys of the file (contracts.md section 1). A key that is not a field here does not
exist yet: it is rejected with a hint, never accepted and ignored.
"""

from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from protocol.agent_memory import Tier
from protocol.limits import AgentBudget, PlaceNeeds

Backend = Literal["sdk", "claude", "codex", "opencode", "cursor", "acp", "exec", "human", "mock"]
"""What runs an agent. What is known of each is a row of ``protocol.backends``."""
Approval = Literal["auto", "ask", "all", "deny"]
"""auto: run every tool. ask: ask before one that changes something. all: ask before each. deny: refuse instead."""

Scope = Literal[
    "channel.read",
    "channel.write",
    "documents.read",
    "documents.write",
    "tasks",
    "votes",
    "status",
    "memory",
    "ask",
    "feedback",
    "rules",
    "auth",
    "spaces",
]
"""Tools of Daemon MCP that an agent is given or not, as a group."""
NAMED_ONLY: Final[frozenset[Scope]] = frozenset({"rules", "auth", "spaces"})
"""What an agent has only where it is named."""
SCOPES: Final[frozenset[Scope]] = frozenset(get_args(Scope)) - NAMED_ONLY
"""All that ``default`` stands for."""
ScopeWords = tuple[Literal["default", Scope], ...]


def scopes_of(words: ScopeWords) -> frozenset[Scope]:
    """The scopes that ``words`` of an agent's file name."""
    return frozenset(scope for word in words for scope in (SCOPES if word == "default" else (word,)))


Duration = Annotated[float, msgspec.Meta(ge=0.1, le=2_592_000, extra={"duration": True})]
"""Seconds; ``120s``, ``10m``, ``200ms`` or a bare number in the file. From 0.1 s to 30 days."""
Pause = Annotated[float, msgspec.Meta(ge=0, le=86_400, extra={"duration": True})]
"""As Duration, but nothing at all is allowed, and at most a day."""


RestartWindow = Annotated[float, msgspec.Meta(ge=1, le=3600, extra={"duration": True})]
"""As Duration, from a second to an hour: crashes are remembered so long."""

Effort = Literal["low", "medium", "high", "max"]
"""How hard a model thinks, in the words of those that can be told."""
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
ThinkingTokens = Annotated[int, msgspec.Meta(ge=1024, le=1_000_000)]
OpenAIApi = Literal["chat", "responses"]
"""Which of its two APIs OpenAI serves a model over."""

Bytes = Annotated[int, msgspec.Meta(ge=64 * 2**20, le=2**50, extra={"bytes": True})]
"""Bytes; ``512MiB``, ``4GiB``, ``2GB`` or a bare number in the file. From 64 MiB."""
QuotaBytes = Annotated[int, msgspec.Meta(ge=1024, le=2**40, extra={"bytes": True})]
"""Bytes; ``64KiB``, ``16MiB`` or a bare number in the file. From 1 KiB."""
Quota = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
QUEUE_LIMIT: Final = 10_000
Times = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Tokens = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Reuse = Annotated[int, msgspec.Meta(ge=1, le=1000)]
PromptTokens = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
MaxSteps = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
MaxTokens = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Prompt(_Strict, frozen=True, kw_only=True):
    """The system prompt: its text, or a file in the project; ``append`` is what a workflow adds to a ref."""

    system: str | None = None
    """The text itself. This or ``system_file``."""
    system_file: str | None = None
    """A text file of the project, read anew for every instruction."""
    append: str | None = None
    """What a workflow adds to the prompt of an agent it refers to."""


class Context(_Strict, frozen=True, kw_only=True):
    """What is the agent's own, wherever it works. An inline agent of a workflow has no folder: it ends with that."""

    thin_thread: Annotated[int, msgspec.Meta(ge=0, le=200)] = 10
    """How many earlier messages of the same space open the prompt."""
    budget: PromptTokens = 8000
    """Tokens that they may take together, as we estimate them: beyond that the oldest are folded to a line each, then
    left out. ``awk show INSTRUCTION --prompt`` lists them."""
    dir: str | None = None
    """The folder of the project that its memory, notes, todos and conversations are in; ``.agents/<name>`` unless
    given. It is the agent's alone: deleting the agent moves it away, if we made it."""


class Memory(_Strict, frozen=True, kw_only=True):
    """What a prompt says of its memory, notes and todos. What is not there it finds by ``memory_recall``."""

    budget: PromptTokens = 2000
    """Tokens that all of it may take, as we estimate them; what has no room is left out, and listed by ``awk show
    INSTRUCTION --prompt``. ``0``: a prompt says nothing of it."""
    auto_load: tuple[Tier, ...] = ("core",)
    """The tiers whose items are in every prompt."""
    search: tuple[Tier, ...] = ("working",)
    """The tiers that are searched with the instruction's text: what is found is in its prompt."""
    archive: Literal["on_demand"] = "on_demand"
    """What is in neither of these comes into a prompt by ``memory_recall`` alone."""


class Timeouts(_Strict, frozen=True, kw_only=True):
    """Deadlines of one attempt, in seconds (durations like ``10m`` in the file)."""

    startup: Duration = 120.0
    """Until the worker has said anything at all."""
    idle: Duration = 600.0
    """Without a word from the model, while no tool runs."""
    tool: Duration = 1800.0
    """For one call of a tool."""
    total: Duration = 7200.0
    """For the whole attempt; what is done by then is kept."""
    approval: Duration = 3600.0
    """For somebody to approve a call of a tool; after that it is refused."""
    answer: Duration | None = None
    """For the person behind ``backend: human`` to answer; after that the work is incomplete. Unset: it waits."""
    escalate: str | None = None
    """The member of the workspace who is asked then, once, instead; the answer is for whoever had asked."""


class Retry(_Strict, frozen=True, kw_only=True):
    """Retries of transient failures. ``backoff`` is seconds before the second attempt."""

    attempts: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    """How often an instruction is tried before it is dead."""
    backoff: Pause = 1.0
    """The pause before the second attempt."""
    multiplier: Annotated[float, msgspec.Meta(ge=1, le=10)] = 2.0
    """By how much each further pause is longer."""


class Restart(_Strict, frozen=True, kw_only=True):
    """When the agent is started again after its worker died: by a signal, or without a word. What a provider answers is
    no death (``retry``). An instruction whose worker dies twice is dead, unless ``attempts`` says how often."""

    delay: Pause = 0.0
    """The pause after the first crash since the agent was well. After the next ones it is 2 s, 4 s, and so on."""
    max_delay: Pause = 30.0
    """The longest pause."""
    attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    """So many crashes within ``window`` stop the agent (state ``error``) until ``awk reset``: 5, where unset. Where it
    is set, so many (never fewer than 2) end one instruction as dead."""
    window: RestartWindow = 60.0
    """Whatever it says, 20 crashes in an hour stop the agent, or ``attempts`` where that is more; and so many, however
    far apart, end an instruction."""

    @property
    def crashes(self) -> int:
        """The crashes within ``window`` that stop the agent."""
        return 5 if self.attempts is None else self.attempts


class Schedule(_Strict, frozen=True, kw_only=True):
    """When the agent is woken without being asked.

    ``wakeup`` is a duration (``5m``: so long after it was last active) or a cron line (``0 9 * * 1-5``, in
    ``timezone``, an IANA name; else the machine's). ``workspace`` (``review`` or ``review:tag``): where, if that runs.
    """

    wakeup: str
    """A duration (``5m``: so long after it was last active), or a cron line (``0 9 * * 1-5``)."""
    prompt: str | None = None
    """What it is told when it wakes."""
    workspace: str | None = None
    """Where it wakes, if that runs: ``review``, or ``review:tag``. Else in its personal space."""
    timezone: str | None = None
    """For a cron line: an IANA name. Else the machine's."""


class TreeSource(_Strict, frozen=True, kw_only=True):
    """Where an agent's working tree takes its files from."""

    source: str = msgspec.field(name="from")
    """An agent of the workflow: before each instruction the tree is brought to the last commit of that one's branch,
    unless it has changes of its own."""


class AgentLimits(_Strict, frozen=True, kw_only=True):
    """What one attempt may use with all that it starts: beyond that it is ended. What one instruction may do through
    the kernel's tools, over all its attempts: beyond that its calls are refused. How much may wait for the agent."""

    memory: Bytes | None = None
    """Memory of its own, of all its processes together: ``512MiB``, ``4GiB``. Unset: no limit."""
    processes: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """How many processes it may have at once. Unset: no limit."""
    messages: Quota = 500
    """How many messages an instruction may send; votes and questions to colleagues are some."""
    instructions: Quota = 200
    """How many instructions for others its messages may become."""
    approvals: Quota = 200
    """How many times it may ask a person for an approval."""
    feedback: Quota = 50
    """How much feedback it may give."""
    bytes: QuotaBytes = 16 * 2**20
    """How much text it may have kept so: ``16MiB``. The entries of ``backend: exec`` count too."""
    queue: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = QUEUE_LIMIT
    """How many instructions may wait for the agent; what comes then is refused."""


class Thinking(_Strict, frozen=True, kw_only=True):
    """How much a model may think before it answers, where that is counted in tokens."""

    budget_tokens: ThinkingTokens
    """Tokens of one model call; they are part of ``max_tokens``, which has to be more."""


class Endpoint(_Strict, frozen=True, kw_only=True):
    """An endpoint of the agent's own: OpenAI-compatible unless the model's prefix says otherwise."""

    name: str
    """What the provider is called; one that is known brings its endpoint along."""
    base_url: str | None = None
    """Where requests go. It needs trust."""
    api_key: str | None = None
    """``$NAME`` of a variable in the kernel's environment."""
    dialect: Literal["anthropic", "openai"] | None = None
    """Which API is spoken there; else the model's prefix says it."""
    api: OpenAIApi | None = None
    """Of dialect ``openai``: ``responses`` for a model that is served there alone; known of OpenAI's own models."""


class McpServer(_Strict, frozen=True, kw_only=True):
    """An MCP server of the agent's own, as ``.mcp.json`` has it: a ``command`` to run, or a ``url`` to reach."""

    type: Literal["stdio", "http", "project"] | None = None
    """How it is spoken to; unset: as ``command`` or ``url`` says. ``project``: it is in the project's ``.mcp.json``."""
    command: str | None = None
    """The program. It needs trust."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, str] = {}
    """Further variables of its environment; ``${NAME}`` is one of yours, which needs trust."""
    url: str | None = None
    """Where it listens. It needs trust."""
    headers: dict[str, str] = {}
    """Sent with every request; ``${NAME}`` is a variable of yours, which needs trust."""


class CliExtras(_Strict, frozen=True, kw_only=True):
    """Things that you keep at home for a program (claude, codex, opencode), and let an agent have one by one."""

    skills: tuple[str, ...] = ()
    """Skills of yours, by their folders' names: it can read a copy of each. They need trust."""
    hooks: bool = False
    """``true``: your hooks run, as where you use it yourself. Of backend ``claude``. They need trust."""
    mcp_servers: tuple[str, ...] = ()
    """MCP servers that you have given it, by name. They need trust."""


class MockError(_Strict, frozen=True, kw_only=True):
    """A provider's failure to play. ``times`` counts over all attempts; without it: always."""

    http_status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    """As the provider would have answered."""
    retry_after: Pause | None = None
    """How long the provider asks to wait."""
    code: str | None = None
    """The provider's own word for it."""
    text: str = ""
    """The provider's message."""
    times: Times | None = None
    """How often it happens, counted over all attempts; unset: always."""


class MockExit(_Strict, frozen=True, kw_only=True):
    """How the worker dies: a ``signal`` (KILL) or a ``code``; ``times`` as in MockError."""

    signal: str | None = None
    """The signal that ends the worker: ``KILL``."""
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    """The exit code of the worker."""
    times: Times | None = None
    """How often it happens, counted over all attempts; unset: always."""


class MockUsage(_Strict, frozen=True, kw_only=True):
    """What a step of a script is booked with. ``cost_usd`` stands for a price, which a mock has none of."""

    input_tokens: Tokens = 0
    """Tokens of input."""
    output_tokens: Tokens = 0
    """Tokens of output."""
    cache_read_tokens: Tokens = 0
    """Tokens of input that came from a cache."""
    cache_write_tokens: Tokens = 0
    """Tokens of input that were written to a cache."""
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    """What the step cost, which no price list says of a mock."""


class Action(_Strict, frozen=True, kw_only=True):
    """One action of a mock script: exactly one of the keys is set.

    ``args`` goes with ``tool``, ``background`` with ``shell``.
    """

    tool: str | None = None
    """A tool to call, for real."""
    args: dict[str, Any] | None = None
    """The tool's arguments."""
    shell: str | None = None
    """A command to run in the project. It needs trust."""
    background: bool | None = None
    """The command is not waited for, and runs until the attempt ends: a server (goes with ``shell``)."""
    sleep: Pause | None = None
    """A pause."""
    error: MockError | None = None
    """A provider's failure."""
    exit: MockExit | None = None
    """The worker's death: a signal (``SIGKILL``) or an exit code."""
    usage: MockUsage | None = None
    """What this step is booked with."""
    text: str | None = None
    """What it says. The last one is the reply; ``${{ message.text }}`` and ``${{ match.1 }}`` are known."""

    @property
    def kind(self) -> str:
        """The key that is set."""
        names = ("tool", "shell", "sleep", "error", "exit", "usage", "text")
        return next((name for name in names if getattr(self, name) is not None), "")


class Rule(_Strict, frozen=True, kw_only=True):
    """Actions to play when ``when`` (a regular expression) is found in the instruction's text."""

    do: tuple[Action, ...]
    """The actions, each of them one step."""
    when: str | None = None
    """A regular expression, searched in the instruction's text. Unset: always."""


class AgentDefinition(_Strict, frozen=True, kw_only=True, tag_field="entry", tag="inline"):
    """One agent, after defaults: what ``.agents/<name>.yaml`` or a workflow's inline entry says."""

    # The tag tells it from a Ref in stored JSON; it is not a key of the file.

    name: str
    """The file's name, which it has to equal."""
    model: str = ""
    """``provider/name``, or an alias (``opus``, ``sonnet``, ``haiku``). Required unless the backend is mock."""
    backend: Backend = "sdk"
    """What runs it: ``sdk`` calls the model itself, ``mock`` plays a script without one, ``human`` asks you."""
    provider: str | Endpoint | None = None
    """Whose endpoint and key to use: a name (of the project file or a known one), or an endpoint."""
    prompt: Prompt = Prompt()
    """What it is told before everything else."""
    soul: dict[str, Any] = {}
    """Who it always is: ``role``, ``expertise``, ``style``, ``principles``, and whatever else you write."""
    context: Context = Context()
    """What it brings along from earlier."""
    memory: Memory = Memory()
    """What a prompt says of what it knows."""
    max_steps: MaxSteps = 100
    """Steps of one instruction; then it is incomplete, and can go on."""
    max_tokens: MaxTokens = 8192
    """Tokens of output of one model call."""
    effort: Effort | None = None
    """How hard the model thinks: ``low``, ``medium``, ``high`` or ``max``. Unset: as its provider has it."""
    thinking: Thinking | None = None
    """How much it may think, where that is counted in tokens."""
    temperature: Temperature | None = None
    """How much chance there is in its words: 0 to 2 (Anthropic: to 1). Unset: as its provider has it."""
    timeouts: Timeouts = Timeouts()
    """How long one attempt may take."""
    retry: Retry = Retry()
    """What happens after transient failures."""
    restart: Restart = Restart()
    """What happens after its worker died."""
    reuse: Reuse = 1
    """How many instructions one worker process serves, one after the other. Of backends ``sdk`` and ``mock``."""
    budget: AgentBudget = AgentBudget()
    """What it may cost."""
    schedule: Schedule | None = None
    """When it wakes without being asked."""
    worktree: TreeSource | None = None
    """In a workflow with ``workspace.git: worktree``: where its working tree takes its files from."""
    tools: tuple[str, ...] = ()
    """Tools of its own to switch on: ``bash``, ``files``, ``skills``, ``feedback``, or names of the project file."""
    scopes: ScopeWords = ("default",)
    """What it may do among its colleagues: the tools of these scopes, and no others. ``default`` stands for all of
    them. A reviewer that cannot speak: ``[channel.read, votes]``."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers of its own, by name; or names of some in ``.mcp.json``, or ``.mcp.json`` itself. They need trust."""
    skills: tuple[str, ...] = ()
    """Folders of the project with skills (a ``SKILL.md`` each); ``.agents/skills`` unless given. They need trust."""
    read_only: tuple[str, ...] = ()
    """Tools of its MCP servers that change nothing, so that ``approval: ask`` does not ask: ``mcp__docs__search``, or
    ``mcp__docs__*``. What a server says of itself is not believed. It needs trust."""
    approval: Approval = "ask"
    """Whether somebody is asked before a tool runs: ``auto``, ``ask``, ``all`` or ``deny``."""
    sandbox: Literal["off", "on"] = "off"
    """``on``: its processes see the project and nothing else of yours. It is refused where that cannot be done."""
    limits: AgentLimits = AgentLimits()
    """What it may use of the machine."""
    needs: PlaceNeeds = PlaceNeeds()
    """What the machine must have that it works on: ``{labels: [gpu], memory: 8GB, gpus: 1}``. Unset: this one."""
    login: bool = False
    """``true``: its program (claude, codex, opencode, acp) uses the login that you keep at home. It needs trust."""
    cli: CliExtras = CliExtras()
    """What its program may have of yours beside a login: skills, hooks and MCP servers. All of it needs trust."""
    project_rules: bool = False
    """``true``: it is told what the project's nearest ``CLAUDE.md`` and ``AGENTS.md`` say. They need trust."""
    command: tuple[str, ...] = ()
    """For ``backend: exec`` and ``acp``: the program and its arguments. It needs trust."""
    env: tuple[str, ...] = ()
    """Variables of your environment that its tools see. It needs trust."""
    mock: tuple[Rule, ...] = ()
    """The script of a mock."""
