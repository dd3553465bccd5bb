"""Frames between the kernel and a worker, and messages between kernel, zygote and keeper.

One JSON object a line, tagged ``t`` (contracts.md section 6). A worker learns everything from ``start``;
it never knows why it runs or whether it will be retried.
"""

from typing import Annotated, Final, Literal

import msgspec

from protocol.agent import Approval, Effort, McpServer, OpenAIApi, Rule
from protocol.discovery import COOKIE
from protocol.errors import Cause
from protocol.instruction import Amount, Count, Usage
from protocol.tools import ProjectTool, Skill

PROTOCOL: Final = (1, 1)
"""(major, minor). A worker with another major is refused at ``ready``."""

Json = msgspec.Raw
"""JSON carried through unread: a tool's arguments, a provider's own message."""
NULL: Final = Json(b"null")
"""No JSON. Not None: msgspec reads ``Raw | None`` as null only."""
HttpStatus = Annotated[int, msgspec.Meta(ge=100, le=999)]


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag=str.lower, omit_defaults=True):
    pass


# -- entries: what is durable -------------------------------------------------------------------------


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call a model asked for. ``id`` is the provider's and stays the same on resume."""

    id: str
    name: str
    args: Json = Json(b"{}")


Refusal = Literal["denied", "expired"]
"""Why a call was not run: somebody said no, or nobody said yes in time."""


class Shown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text and the calls of an entry as people are shown them: without the secrets that they held."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class Entry(_Frame, frozen=True, kw_only=True, tag="entry"):
    """Something durable: committed and answered before the next thing happens.

    ``k`` counts from 0 within the instruction, over all its attempts. ``reply`` carries the model's message
    (``native`` is the provider's own form, needed to replay it) and usage; ``tool`` one call and its result;
    ``session`` the id under which a CLI can resume; ``note`` is written by the kernel alone, between attempts:
    what the user or another agent adds to the conversation at this place.
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
    """Of a call that needed an approval and has none; it is an error, too."""
    session: str | None = None
    duration_ms: Count | None = None
    """How long the model took to reply, or the tool to come back; None where the worker does not know."""
    shown: Shown | None = None
    """Where text or calls hold a secret: the same without it. A model that is asked again reads what was said."""
    note: str | None = None
    """Bookkeeping of the worker that wrote it (the mock keeps here what it did, a file tool which rules it told);
    opaque to the kernel."""
    last: bool = False
    """The terminal frame follows at once and nothing else happens: no answer is awaited."""


# -- kernel -> worker ---------------------------------------------------------------------------------


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was decided on and has not run: the attempt that asked had ended by then."""

    tool: str
    input: Json
    denied: str | None = None
    """The reason of a denial, which may be empty; None: the call was approved."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One earlier message of the thread, as prompt text."""

    role: Literal["user", "assistant"]
    text: str


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one attempt. Seconds where the name says so."""

    max_steps: int = 100
    max_tokens: int = 8192
    tool_seconds: float = 1800.0
    idle_seconds: float = 600.0


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint of model calls. The key travels here and nowhere else."""

    name: str
    dialect: Literal["anthropic", "openai", "cursor", "mock"]
    base_url: str | None = None
    api_key: str | None = None
    api: OpenAIApi = "chat"
    """Of dialect ``openai``: over which of its APIs the model is served."""


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Texts of which ``model`` is to say the vectors, in so many seconds."""

    provider: Provider
    model: str
    texts: tuple[str, ...]
    seconds: float


class EmbeddingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors in the order of the texts; or why there are none, without the key."""

    vectors: tuple[tuple[float, ...], ...] = ()
    error: str | None = None


class McpAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of Daemon MCP."""

    url: str


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """The files that programs see beside the system, as absolute paths; of two, what is deeper counts.

    ``program`` is bubblewrap. The kernel knows that it works here.
    """

    program: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    """Read-only, also within what is writable. What is not there is left out."""
    hidden: tuple[str, ...] = ()
    """Empty, also within what is readable."""
    private_bytes: int
    """What each private folder (/tmp, /dev/shm, the home) can hold: it lies in memory."""
    instead: dict[str, str] = {}
    """Of a file: the one that is seen in its place, read-only."""


class Start(_Frame, frozen=True, kw_only=True, tag="start"):
    """All a worker is told. ``messages`` is the thin thread, ``message`` the instruction's text."""

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
    """Names in ``env`` that the agent's file lets through: nobody is shown their values."""
    idempotency_key: str
    mock: tuple[Rule, ...] = ()
    mock_counts: dict[str, int] = {}
    """How often each limited action (``error``/``exit`` with ``times``) already fired, over all attempts:
    key ``rule.action`` as two indices, for example ``0.2``."""
    source_text: str = ""
    """The text of the message that caused the instruction, as sent: what mock rules match on."""
    allowance: int | None = None
    """Tokens reserved for the first model call, if limited; later ones come with ``go``."""
    earlier_steps: int = 0
    """Steps among ``entries`` that another instruction made, whose thread this one takes up: max_steps adds to them."""
    compact: bool = False
    """The conversation did not fit the model: show it shortened."""
    system_stable: int = 0
    """So many characters of ``system``, from its beginning, are the same for other work of the agent: a provider that
    is told what to cache is told to keep them apart."""
    first_k: int = 0
    """The number of the first entry: earlier ones were made for another prompt, and are told in this one."""
    tools: tuple[str, ...] = ()
    """Which of the worker's own tools are switched on."""
    mcp_servers: dict[str, McpServer] = {}
    """Servers of the agent's own. ``${NAME}`` is already filled in: what is here is secret."""
    project_tools: dict[str, ProjectTool] = {}
    """Those of ``tools`` that are the project's own."""
    pinned: dict[str, str] = {}
    """Files of the project that ``command`` and commands of these and of ``mcp_servers`` name, and the SHA-256 of what
    was trusted.

    "" for a word that may name one, and named none: a file that is there by now was trusted by nobody."""
    skills: tuple[Skill, ...] = ()
    """What the agent can read up on."""
    nested_rules: dict[str, str] | None = None
    """Rules of the project in folders of the working directory, by path, and the SHA-256 of what was trusted: a file
    tool tells them when it first touches something below. None: the agent follows none."""
    interrupted: bool = False
    """The attempt before this one broke off: a call that is pending first may have been under way."""
    read_only: tuple[str, ...] = ()
    """Tools of MCP servers that the agent's file says only read (protocol.tools.is_read_only)."""
    approval: Approval = "ask"
    granted: tuple[Granted, ...] = ()
    effort: Effort | None = None
    thinking_tokens: int | None = None
    """How much the model may think in one call; part of what it may answer."""
    temperature: float | None = None
    command: tuple[str, ...] = ()
    """What runs in place of a loop of ours: the path of a CLI, or for ``backend: exec`` a program and its arguments."""
    attempt_dir: str = ""
    """A folder (0700) that goes with the attempt."""
    session_dir: str = ""
    """A folder (0700) that outlives it: the home of a CLI, the same for all work of this agent in this space."""
    login: bool = False
    """The program's owner lets it use his login: a copy is in ``session_dir``, where it looks for it."""
    hooks: Json = NULL
    """Its owner's hooks, in the program's own words, where he lets them in."""
    sandbox: Sandbox | None = None
    """What everything that is run here is confined by (``worker.sandbox``)."""
    hidden: tuple[str, ...] = ()
    """Folders that hold the kernel's secrets."""
    closed: tuple[str, ...] = ()
    """Folders of agents' contexts: file tools do not write there."""
    budget_usd: float | None = None
    """What may be spent yet, for a program that counts for itself; tokens come with each ``go``."""
    reuse: bool = False
    """After ``result{done}`` stay, if nothing of this is left in you: say ``ready`` again, for another ``start``."""
    entries_follow: int = 0
    """How many more entries come as ``entry`` frames of their own, because ``entries`` would not fit into a line."""


class Go(_Frame, frozen=True, kw_only=True, tag="go"):
    """Entry ``k`` is durable; go on. ``allowance`` is the tokens reserved for the next model call, if limited."""

    k: int
    allowance: int | None = None


class Yield(_Frame, frozen=True, kw_only=True, tag="yield"):
    """Entry ``k`` is durable; end with ``result{yielded}``: something more urgent waits, or the work itself does."""

    k: int


class Stop(_Frame, frozen=True, kw_only=True, tag="stop"):
    """End now, within ``deadline_seconds``. Sent at any time."""

    reason: str
    deadline_seconds: float = 10.0
    k: int | None = None


class Ping(_Frame, frozen=True, kw_only=True, tag="ping"):
    """Answer with ``pong{n}``."""

    n: int


KernelFrame = Start | Entry | Go | Yield | Stop | Ping

# -- worker -> kernel ---------------------------------------------------------------------------------


class Ready(_Frame, frozen=True, kw_only=True, tag="ready"):
    """The first frame of a worker, before it reads ``start``; and of one that stays (``reuse``), before each other."""

    pid: Count
    version: str
    backend: str = ""
    protocol: tuple[Count, Count] = PROTOCOL


class Delta(_Frame, frozen=True, kw_only=True, tag="delta"):
    """Text of a reply as it comes. Live only."""

    text: str


class Progress(_Frame, frozen=True, kw_only=True, tag="progress"):
    """Progress of the worker; also proof that it lives. ``tool``: a tool runs until the next frame."""

    what: str
    tool: bool = False


class Log(_Frame, frozen=True, kw_only=True, tag="log"):
    """A line for the log of the agent."""

    level: Literal["debug", "info", "warning", "error"]
    text: str


class Pong(_Frame, frozen=True, kw_only=True, tag="pong"):
    """Answer to ``ping{n}``."""

    n: Count


class Result(_Frame, frozen=True, kw_only=True, tag="result"):
    """Terminal: the work ended. ``incomplete`` names why in ``cause``."""

    status: Literal["done", "yielded", "incomplete"]
    text: str = ""
    usage: Usage = Usage()
    cause: Cause | None = None


class Error(_Frame, frozen=True, kw_only=True, tag="error"):
    """Terminal: the attempt failed. ``retry_after`` is seconds, as the provider said."""

    cause: Cause
    text: str
    http_status: HttpStatus | None = None
    retry_after: Amount | None = None
    code: str | None = None
    partial: str = ""
    fired: str | None = None
    """Key into ``mock_counts`` of the scripted action that raised it."""


WorkerFrame = Ready | Entry | Delta | Progress | Log | Pong | Result | Error
COUNTS: Final = frozenset({"ready", "entry", "result", "error"})
"""Those that something depends on: one that does not parse is never passed over, but ends the attempt."""

# -- kernel <-> zygote, keeper -> kernel ---------------------------------------------------------------

COOKIE_VARIABLE: Final = COOKIE
"""In the environment of all that a worker or command executes: how a tree is found once its keeper is gone.

It grants nothing by itself. A worker hands its own on to the programs it starts.
"""


class Order(_Frame, frozen=True, kw_only=True):
    """A child to start: with ``argv`` it execs that command (setup, git) in ``cwd`` with exactly ``env``, in
    ``sandbox`` if there is one; without, it becomes a worker.
    """

    attempt: str
    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    sandbox: Sandbox | None = None


class Fork(Order, frozen=True, kw_only=True, tag="fork"):
    """Kernel to zygote: fork a keeper. Descriptors ride along: worker stdin, stdout, stderr, keeper socket.

    ``lock`` is the file the keeper holds locked until its whole tree is gone.
    """

    lock: str
    cookie: str


class Retire(_Frame, frozen=True, kw_only=True, tag="retire"):
    """Kernel to zygote, before the socket closes: another zygote took over, so keepers are to live on.

    A socket that closes without it means that the kernel is gone, and so must be everything it started.
    """


class Preloaded(_Frame, frozen=True, kw_only=True, tag="preloaded"):
    """Zygote to kernel: modules are loaded, warm and frozen; ready to fork."""

    pid: Count
    modules: Count


ZygoteReport = Preloaded | Pong


class Started(_Frame, frozen=True, kw_only=True, tag="started"):
    """Keeper to kernel: the child runs. The times are in clock ticks since boot, 0 where there is no /proc."""

    pid: Count
    keeper: Count
    pid_since: Count = 0
    keeper_since: Count = 0


class Rusage(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a whole tree: seconds of CPU, peak resident bytes of the largest process."""

    user_seconds: Amount = 0.0
    system_seconds: Amount = 0.0
    max_rss_bytes: Count = 0


class Exited(_Frame, frozen=True, kw_only=True, tag="exited"):
    """Keeper to kernel: the child ended and its whole tree is gone. Exactly one of ``code``, ``signal``, ``failed``."""

    code: Count | None = None
    signal: Count | None = None
    failed: str | None = None
    """The child could not be started: errno name and path (``ENOENT: /bin/nope``)."""
    killed: bool = False
    """Whether we asked for the end."""
    exceeded: str | None = None
    """What the tree used too much of, in words, where the keeper ended it for that (``bound``)."""
    lost: bool = False
    """The kernel to itself, never a keeper: nobody saw the end. The node it ran on was cut off, and its lease is over:
    that nothing of the tree is left is the node's promise, not the tree's."""
    rusage: Rusage = Rusage()


class Bound(_Frame, frozen=True, kw_only=True, tag="bound"):
    """Kernel to keeper: what the whole tree may use from now on. None: as much as there is."""

    memory_bytes: int | None = None
    processes: int | None = None


class Kill(_Frame, frozen=True, kw_only=True, tag="kill"):
    """Kernel to keeper: SIGTERM to the tree, SIGKILL ``after_seconds`` later until nothing is left."""

    after_seconds: float = 0.0


class Census(_Frame, frozen=True, kw_only=True, tag="census"):
    """Kernel to keeper: tell how many processes there are."""


class Counted(_Frame, frozen=True, kw_only=True, tag="counted"):
    """Keeper to kernel: the processes below it, the child among them; 0 where the system shows none."""

    processes: Count


KeeperFrame = Started | Exited | Counted
ZygoteFrame = Fork | Retire | Ping
