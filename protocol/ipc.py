"""Frames between kernel and worker, and messages between kernel, zygote and keeper.

One JSON object per line, tagged ``t`` (contracts.md section 6). ``start`` contains all that a worker needs; the worker
does not know the purpose of its work or whether it will be retried.
"""

from typing import Annotated, Final, Literal

import msgspec

from protocol.agent import Approval, Effort, McpServer, OpenAIApi, Rule
from protocol.discovery import COOKIE
from protocol.errors import Cause
from protocol.instruction import Amount, Count, Usage
from protocol.tools import ProjectTool, Skill

PROTOCOL: Final = (1, 1)
"""(major, minor). A worker with another major version is refused at ``ready``."""

Json = msgspec.Raw
"""JSON that is passed on unread: a tool's arguments, or a provider's message."""
NULL: Final = Json(b"null")
"""Missing JSON. None is not used, because msgspec decodes ``Raw | None`` from null only."""
HttpStatus = Annotated[int, msgspec.Meta(ge=100, le=999)]


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag=str.lower, omit_defaults=True):
    pass


# -- entries: what is durable -------------------------------------------------------------------------


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """Call that a model requested. ``id`` comes from the provider and stays the same on resume."""

    id: str
    name: str
    args: Json = Json(b"{}")


Refusal = Literal["denied", "expired"]
"""Reason that a call was not run: an approval was denied or expired."""


class Shown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Text and calls of an entry as shown to people, without secrets."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class Entry(_Frame, frozen=True, kw_only=True, tag="entry"):
    """Durable record: the kernel commits and acknowledges it before the work continues.

    ``k`` numbers the entries from 0 within the instruction, over all attempts. ``reply`` carries
    the model's message (``native`` is the provider's form, needed for a replay) and usage; ``tool``
    one call and its result; ``session`` the id under which a CLI can resume. The kernel alone
    writes ``note`` between attempts: text that the user or another agent adds to the conversation.
    """

    k: Count
    kind: Literal["reply", "tool", "session", "note"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    native: Json = NULL
    stop_reason: str | None = None
    usage: Usage | None = None
    call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    refused: Refusal | None = None
    """Reason that a call without approval was refused. The refused call is also marked as an error."""
    session: str | None = None
    duration_ms: Count | None = None
    """Duration of the model call or the tool call. None if unknown."""
    shown: Shown | None = None
    """Text and calls without secrets, if the originals contain secrets. A repeated model call
    receives the originals."""
    note: str | None = None
    """Internal data of the worker that wrote the entry (the mock stores its actions, a file tool
    the rules it has shown). The kernel does not read it."""
    last: bool = False
    """Whether the terminal frame follows immediately, so that the worker awaits no acknowledgement."""


# -- kernel -> worker ---------------------------------------------------------------------------------


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """Call whose approval was decided after the requesting attempt had ended. The call has not run."""

    tool: str
    input: Json
    denied: str | None = None
    """Reason of a denial, possibly empty. None: the call was approved."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Earlier message of the thread, as prompt text."""

    role: Literal["user", "assistant"]
    text: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one attempt."""

    max_steps: int = 100
    max_tokens: int = 8192
    tool_seconds: float = 1800.0
    idle_seconds: float = 600.0


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoint of model calls. The key is sent only here."""

    name: str
    dialect: Literal["anthropic", "openai", "gemini", "cursor", "mock"]
    base_url: str | None = None
    api_key: str | None = None
    api: OpenAIApi = "chat"
    """For dialect ``openai``: the API that serves the model."""
    compatible: bool = False
    """Whether the endpoint is not the official one of the dialect, so that it may lack features."""


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to embed with ``model``, and the time limit in seconds."""

    provider: Provider
    model: str
    texts: tuple[str, ...]
    seconds: float


class EmbeddingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Vectors in the order of the texts; or the reason of a failure, without the provider's key."""

    vectors: tuple[tuple[float, ...], ...] = ()
    error: str | None = None


class McpAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Address of Daemon MCP."""

    url: str


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """Files that programs can access in addition to the system, as absolute paths. The deepest matching path
    applies. ``program`` is bubblewrap, which the kernel has tested on this machine."""

    program: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    """Read-only paths, also inside writable ones. Missing paths are omitted."""
    hidden: tuple[str, ...] = ()
    """Paths that look empty, also inside readable ones."""
    private_bytes: int
    """Capacity of each private folder (/tmp, /dev/shm, the home). These folders are in memory."""
    instead: dict[str, str] = {}
    """Path of a file to the path of the file that replaces it, read-only."""


class Start(_Frame, frozen=True, kw_only=True, tag="start"):
    """Input of a worker. ``messages`` is the recent thread, ``message`` the text of the instruction."""

    instruction: str
    attempt: str
    epoch: int
    agent: str
    space: str
    backend: str
    model: str
    provider: Provider | None
    system: str
    messages: tuple[Turn, ...]
    message: str
    entries: tuple[Entry, ...]
    limits: Limits
    mcp: McpAddress
    token: str
    cwd: str
    env: dict[str, str]
    secrets: tuple[str, ...] = ()
    """Names in ``env`` that the agent's file passes through. Their values are never shown."""
    idempotency_key: str
    mock: tuple[Rule, ...] = ()
    mock_counts: dict[str, int] = {}
    """Number of times that each action with a limit (``error``/``exit`` with ``times``) has run,
    over all attempts. The key is ``rule.action`` as two indices, such as ``0.2``."""
    source_text: str = ""
    """Text of the message that caused the instruction, which mock rules match."""
    allowance: int | None = None
    """Tokens reserved for the first model call, if limited. Further reservations arrive with ``go``."""
    earlier_steps: int = 0
    """Number of steps in ``entries`` from a continued instruction. max_steps does not count them."""
    compact: bool = False
    """Whether the conversation exceeded the model's context and must be shortened."""
    system_stable: int = 0
    """Number of leading characters of ``system`` that stay the same for the agent's other work, for providers with
    explicit caching."""
    first_k: int = 0
    """Number (``k``) of the first entry for this prompt. Earlier entries belong to another
    prompt; this prompt summarizes them."""
    tools: tuple[str, ...] = ()
    """Enabled built-in tools."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers of the agent. ``${NAME}`` is already replaced, so the values are secret."""
    project_tools: dict[str, ProjectTool] = {}
    """Tools of the project in ``tools``."""
    pinned: dict[str, str] = {}
    """Project files that ``command``, project tools and ``mcp_servers`` name, with the SHA-256 of their trusted
    content.

    "" for a word that could name a file but named none: a file created later is not trusted.
    """
    skills: tuple[Skill, ...] = ()
    """Skills available to the agent."""
    nested_rules: dict[str, str] | None = None
    """Rules of the project in subfolders of the working directory, by path, with the SHA-256 of their trusted content.
    A file tool shows them at the first access below their folder. None: the agent follows no rules."""
    interrupted: bool = False
    """Whether the previous attempt was interrupted, so that the first pending call may have been in progress."""
    read_only: tuple[str, ...] = ()
    """Tools of MCP servers that the agent's file declares read-only (protocol.tools.is_read_only)."""
    approval: Approval = "ask"
    granted: tuple[Granted, ...] = ()
    effort: Effort | None = None
    thinking_tokens: int | None = None
    """Thinking tokens of one model call, part of its output tokens."""
    temperature: float | None = None
    command: tuple[str, ...] = ()
    """Program that replaces the built-in loop: the path of a CLI, or for ``backend: exec`` a program and its
    arguments."""
    attempt_dir: str = ""
    """Folder (0700) that is deleted after the attempt."""
    session_dir: str = ""
    """Folder (0700) that is kept: the home of a CLI for all work of this agent in this space."""
    login: bool = False
    """Whether the program uses the user's login. ``session_dir`` contains a copy of the login."""
    hooks: Json = NULL
    """The user's own hooks in the program's format, if allowed."""
    sandbox: Sandbox | None = None
    """Sandbox of all programs that run here (``worker.sandbox``)."""
    hidden: tuple[str, ...] = ()
    """Folders with the kernel's secrets."""
    closed: tuple[str, ...] = ()
    """Folders of agents' memory, which file tools cannot write."""
    budget_usd: float | None = None
    """Remaining budget, for a program that limits itself. Tokens arrive with each ``go``."""
    reuse: bool = False
    """Whether the worker may continue after ``result{done}``: if no state of this work remains,
    it sends ``ready`` again."""
    entries_follow: int = 0
    """Number of further entries that follow as ``entry`` frames, because ``entries`` would exceed the line limit."""


class Go(_Frame, frozen=True, kw_only=True, tag="go"):
    """Entry ``k`` is durable; continue. ``allowance`` is the number of tokens reserved for the next model call, if
    limited."""

    k: int
    allowance: int | None = None


class Yield(_Frame, frozen=True, kw_only=True, tag="yield"):
    """Entry ``k`` is durable; end with ``result{yielded}``, because more urgent work waits or this work has to wait."""

    k: int


class Stop(_Frame, frozen=True, kw_only=True, tag="stop"):
    """End within ``deadline_seconds``. Sent at any time."""

    reason: str
    deadline_seconds: float = 10.0
    k: int | None = None


class Ping(_Frame, frozen=True, kw_only=True, tag="ping"):
    """Request for ``pong{n}``."""

    n: int


KernelFrame = Start | Entry | Go | Yield | Stop | Ping

# -- worker -> kernel ---------------------------------------------------------------------------------


class Ready(_Frame, frozen=True, kw_only=True, tag="ready"):
    """First frame of a worker, before ``start``. A reused worker (``reuse``) sends it before each further ``start``."""

    pid: Count
    version: str
    backend: str = ""
    protocol: tuple[Count, Count] = PROTOCOL


class Delta(_Frame, frozen=True, kw_only=True, tag="delta"):
    """Text of a reply during its generation. Not stored."""

    text: str


class Progress(_Frame, frozen=True, kw_only=True, tag="progress"):
    """Progress of the worker, which also resets the idle timeout. ``tool``: a tool runs until the next frame."""

    what: str
    tool: bool = False


class Log(_Frame, frozen=True, kw_only=True, tag="log"):
    """Line for the log of the agent."""

    level: Literal["debug", "info", "warning", "error"]
    text: str


class Pong(_Frame, frozen=True, kw_only=True, tag="pong"):
    """Answer to ``ping{n}``."""

    n: Count


class Result(_Frame, frozen=True, kw_only=True, tag="result"):
    """Terminal frame: the attempt ended without an error. ``yielded``: another attempt continues. ``cause`` explains
    ``incomplete``."""

    status: Literal["done", "yielded", "incomplete"]
    text: str = ""
    usage: Usage = Usage()
    cause: Cause | None = None


class Error(_Frame, frozen=True, kw_only=True, tag="error"):
    """Terminal frame: the attempt failed. ``retry_after`` is the provider's value in seconds."""

    cause: Cause
    text: str
    http_status: HttpStatus | None = None
    retry_after: Amount | None = None
    code: str | None = None
    partial: str = ""
    fired: str | None = None
    """Key into ``mock_counts`` of the action that raised the error."""


WorkerFrame = Ready | Entry | Delta | Progress | Log | Pong | Result | Error
COUNTS: Final = frozenset({"ready", "entry", "result", "error"})
"""Kinds of frames that change the state of the attempt. If such a frame cannot be parsed, the attempt ends."""

# -- kernel <-> zygote, keeper -> kernel ---------------------------------------------------------------

COOKIE_VARIABLE: Final = COOKIE
"""Environment variable in all processes that a worker or a command starts. It identifies their
process tree after the keeper has exited.

The value grants no access. A worker passes its own value to the programs that it starts.
"""


STANDBY: Final = "standby-"
"""Prefix of the name of a worker that is started before its attempt is known."""


class Order(_Frame, frozen=True, kw_only=True):
    """Child to start. With ``argv``, the child executes that command (setup, git) in ``cwd``
    with exactly ``env``, in ``sandbox`` if set. Without ``argv``, it becomes a worker."""

    attempt: str
    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    sandbox: Sandbox | None = None


class Fork(Order, frozen=True, kw_only=True, tag="fork"):
    """Kernel to zygote: fork a keeper. Descriptors are attached: worker stdin, stdout, stderr, keeper socket.

    The keeper holds a lock on the file ``lock`` until all processes of its tree have exited.
    """

    lock: str
    cookie: str


class Retire(_Frame, frozen=True, kw_only=True, tag="retire"):
    """Kernel to zygote, before the socket closes: another zygote replaces this one, so the keepers continue to run.

    Without this message, a closed socket means that the kernel has exited, and all its processes must end.
    """


class Preloaded(_Frame, frozen=True, kw_only=True, tag="preloaded"):
    """Zygote to kernel: modules are loaded and frozen; ready to fork."""

    pid: Count
    modules: Count


ZygoteReport = Preloaded | Pong


class Started(_Frame, frozen=True, kw_only=True, tag="started"):
    """Keeper to kernel: the child runs. Times are in clock ticks since boot, 0 without /proc."""

    pid: Count
    keeper: Count
    pid_since: Count = 0
    keeper_since: Count = 0


class Rusage(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a process tree: CPU seconds, and peak resident bytes of the largest process."""

    user_seconds: Amount = 0.0
    system_seconds: Amount = 0.0
    max_rss_bytes: Count = 0


class Exited(_Frame, frozen=True, kw_only=True, tag="exited"):
    """Keeper to kernel: the child and its whole tree have exited. Exactly one of ``code``, ``signal``, ``failed`` is
    set."""

    code: Count | None = None
    signal: Count | None = None
    failed: str | None = None
    """Reason that the child could not be started: errno name and path (``ENOENT: /bin/nope``)."""
    killed: bool = False
    """Whether the kernel requested the end."""
    exceeded: str | None = None
    """Resource limit that the tree exceeded, if the keeper killed it for that (``bound``)."""
    lost: bool = False
    """Whether the end was inferred instead of observed, because the node was disconnected and
    its lease has expired. A node kills its processes at that time."""
    rusage: Rusage = Rusage()


class Bound(_Frame, frozen=True, kw_only=True, tag="bound"):
    """Kernel to keeper: new resource limits of the whole tree. None: unlimited."""

    memory_bytes: int | None = None
    processes: int | None = None


class Kill(_Frame, frozen=True, kw_only=True, tag="kill"):
    """Kernel to keeper: send SIGTERM to the tree, and SIGKILL after ``after_seconds`` until all processes have
    exited."""

    after_seconds: float = 0.0


class Census(_Frame, frozen=True, kw_only=True, tag="census"):
    """Kernel to keeper: count the processes."""


class Counted(_Frame, frozen=True, kw_only=True, tag="counted"):
    """Keeper to kernel: number of processes in its tree, including the child; 0 if the system reports none."""

    processes: Count


KeeperFrame = Started | Exited | Counted
ZygoteFrame = Fork | Retire | Ping
