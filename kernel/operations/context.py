"""Services that the API's handlers receive: store, project files, processes, kernel, memory and nodes.

A handler names the records that it uses as parameters: ``store``, ``files``, ``processes``, ``kernel``, ``memory``,
``nodes``. The functions below resolve the names of spaces, agents and runs in requests, and suggest similar names on
failure.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager

import apsw
import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.memory_prompt import Memories
from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.agents.trust import ProjectTrust
from kernel.gateway.gateway import Gateway
from kernel.git.repository import Repository
from kernel.operations.answers import KeyedAnswers, PageKeys
from kernel.operations.node_door import NodeDoor
from kernel.operations.resource_usage import ResourceSampler
from kernel.policy.metrics import Durations
from kernel.procs.command import VersionProbes
from kernel.procs.launcher import Launcher
from kernel.procs.procfs import AcceptedConnection
from kernel.rule.draft import Draft
from kernel.rule.evaluate import InstalledRules
from kernel.services.embeddings import EmbeddingClient
from kernel.services.guard import MemoryGuard
from kernel.services.landings import Landings
from kernel.services.mirror import Mirror
from kernel.services.nodes import Nodes
from kernel.services.recall import Recall
from kernel.services.souls import Souls
from kernel.services.supervision import ShutdownSignal
from kernel.services.telemetry import EventCounters
from kernel.services.tree_work import TreeWork, WorkChecks
from kernel.services.upgrade import Upgrade
from kernel.services.worker_link import Elapsed
from kernel.services.working_directory import CliHomes
from kernel.services.worktrees import Worktrees, WorktreeSweep
from kernel.source.diagnostics import BadDefinition, suggest
from kernel.store import agents, messages, workflows
from kernel.store.agents import AgentRecord
from kernel.store.attempts import Identity
from kernel.store.database import Reader
from kernel.store.feed import Feed
from kernel.store.idempotency import RequestKey, SingleFlight
from kernel.store.transitions.append import Appended
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.runs import StartedRun
from kernel.store.workflows import WorkflowRecord
from kernel.store.writer import CommitWriter
from kernel.workflows.find import workflow_names
from kernel.workflows.instruction_prompt import definition_for
from kernel.workflows.load import Definitions
from kernel.workflows.remote import Remotes
from protocol.agent import AgentDefinition
from protocol.api.kernel import PruneReport, PruneRequest
from protocol.errors import Refused
from protocol.names import (
    DEFAULT_TAG,
    GLOBAL,
    AgentKey,
    SpaceId,
    base_space,
    inline_key,
    is_below,
    is_personal,
    number_of,
    place_of,
    split_space,
)
from protocol.standby import StandbyState


class StoreAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The log with one writer and many readers, its event feed, and copies of its texts."""

    writer: CommitWriter
    append: Callable[[Draft, RequestKey | None], Awaitable[Appended]]
    """Append a message from outside. An idle agent starts it in the same commit. Raises Refused."""
    reader: Reader
    feed: Feed
    mirror: Mirror
    homes: CliHomes
    now_ms: Callable[[], int]
    """Return the wall clock in milliseconds since 1970."""
    salt: Callable[[], str]
    """Return an unpredictable text."""


class TreeServices(msgspec.Struct, frozen=True, kw_only=True):
    """Operations on the working trees of agents."""

    diffs: Worktrees
    work: TreeWork
    removal: WorktreeSweep
    checks: WorkChecks
    repository: Repository


class ProjectFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Project files: definitions, trust, repository and environment."""

    catalog: Catalog
    contexts: PersonalContexts
    """Memory, notes and todo list of each agent. Calls block: use a thread."""
    definitions: Callable[[], Awaitable[Definitions | None]]
    """Return the current definitions, or None while the first scan is running."""
    trust: ProjectTrust
    remotes: Remotes
    """Workflows of other repositories."""
    worktrees: TreeServices
    environ: Mapping[str, str]
    """Environment of the kernel: provider keys, and variables that trust may pass on."""
    own_bin: frozenset[str]
    """Directories that are removed from PATH of setup commands."""


class AttemptActivity(msgspec.Struct, frozen=True, kw_only=True):
    """Live attempt: the pid of its running worker, its last reported activity, and its model."""

    pid: int | None
    doing: str = ""
    model: str = ""
    elapsed: Elapsed | None = None
    leased: Leased | None = None


class AttemptControl(msgspec.Struct, frozen=True, kw_only=True):
    """Live attempts, and what requests can do with them."""

    activity: Callable[[], Mapping[str, AttemptActivity]]
    """Return the activity of all live attempts by instruction id."""
    interrupt: Callable[[AgentKey], bool]
    """Interrupt an agent's attempt; its instruction is queued again. Return whether one ran."""
    hold: Callable[[str], AbstractContextManager[None]]
    """Within the block, an instruction's attempt waits for a person and has no idle timeout."""
    until_gone: Callable[[Callable[[Leased], bool]], Awaitable[None]]
    """Wait until all processes of the matching attempts have exited."""
    reached: Callable[[str], None]
    """Record that an instruction's attempt has connected to Daemon MCP."""
    calling: Callable[[AcceptedConnection, str], Awaitable[bytes | None]]
    """Return the token digest of the attempt that opened a connection with its cookie, or None."""
    kept: Callable[[], Mapping[AgentKey, AttemptActivity]] = dict
    """Return the idle workers that wait for another attempt of their agent."""


class ProcessControl(msgspec.Struct, frozen=True, kw_only=True):
    """Processes of this kernel: launching, version checks, measurement and identification."""

    launcher: Launcher
    probes: VersionProbes
    attempts: AttemptControl
    runs_client: Callable[[int], bool]
    """Return whether the client at this local port is a process of an agent. Reads /proc: call it in a thread."""
    single_flight: SingleFlight[StartedRun] = msgspec.field(default_factory=SingleFlight[StartedRun])
    """Starts of workflows in progress: a repeated request joins the first."""
    resources: ResourceSampler = msgspec.field(default_factory=ResourceSampler)
    landings: Landings
    prune: Callable[[PruneRequest], Awaitable[PruneReport]]


class KernelIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of the kernel. ``project`` is the root, ``home`` has all projects' states; ``url`` has no last slash."""

    pid: int
    url: str
    version: str
    project: str
    home: str
    term: int
    """Number of the kernel. Each new kernel of the project has a higher number, and nodes refuse lower ones."""


class RequestCount:
    """Number of open requests, including streams, and of all requests since the start."""

    def __init__(self) -> None:
        self.open = self.begun = 0

    def told(self) -> tuple[int, int]:
        """Return the number of open requests, and of all requests since the start."""
        return self.open, self.begun

    def __enter__(self) -> None:
        self.open += 1
        self.begun += 1

    def __exit__(self, *_error: object) -> None:
        self.open -= 1


class KernelNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of this kernel that no database table contains."""

    counters: EventCounters
    commits: Durations
    """Durations of commits, from the start of the transaction until it is durable."""
    turns: Durations
    """Durations of event loop turns."""
    retention_seconds: Callable[[], float]
    free_bytes: Callable[[], int]
    """Free bytes on the database's disk."""
    requests: RequestCount = msgspec.field(default_factory=RequestCount)
    """Requests, except for health checks."""


class Keys(msgspec.Struct, frozen=True):
    """Kernel tokens, one-time keys of the web page, and recorded answers by Idempotency-Key."""

    token: str
    """Token of the administrator."""
    record: str
    """Token in the discovery record. It allows less than ``token``."""
    page: PageKeys = msgspec.field(default_factory=PageKeys)
    answers: KeyedAnswers = msgspec.field(default_factory=KeyedAnswers)


class KernelState(msgspec.Struct, frozen=True, kw_only=True):
    """State of this kernel, and notices about the previous one."""

    uptime_seconds: Callable[[], float]
    ready: Callable[[], bool]
    """Return whether the kernel starts queued work."""
    safe_mode: Callable[[], bool]
    """Return whether work is blocked because previous kernels crashed repeatedly."""
    saved_notice: Callable[[], str | None]
    """Return a notice about a saved, unused database of an earlier kernel. Blocks: use a thread."""
    restart_notice: str | None = None
    """Notice of the service manager after a crash of the previous kernel."""
    standby: Callable[[], StandbyState | None] = lambda: None
    """Return the state of the copy of the log at another location, or None."""


class KernelControl(msgspec.Struct, frozen=True, kw_only=True):
    """Kernel: identity, state and shutdown."""

    identity: KernelIdentity
    keys: Keys
    state: KernelState
    rules: InstalledRules
    """Rules of installed packages."""
    numbers: KernelNumbers
    shutdown: ShutdownSignal
    upgrade: Upgrade
    gateway: Gateway


class MemoryAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Conversations and memory of agents, and their indexes."""

    history: Recall
    vectors: EmbeddingClient
    derived: tuple[Recall, ...]
    """Indexes from which deleted messages and files must be removed."""
    souls: Souls
    trays: MemoryGuard
    guard: MemoryGuard
    prompts: Memories


class NodeAccess(msgspec.Struct, frozen=True):
    """Access to the nodes of the project."""

    control: Nodes
    door: NodeDoor


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The six service records."""

    store: StoreAccess
    files: ProjectFiles
    processes: ProcessControl
    kernel: KernelControl
    memory: MemoryAccess
    nodes: NodeAccess


def not_running(store: StoreAccess, files: ProjectFiles, space: str, what: str = "") -> Refused:
    """Return the refusal for a ``space`` without a running workflow, with the command to start it.

    For an unknown workflow the refusal suggests similar or available names. ``what`` replaces the default text.
    """
    if is_below(space):
        hint = "list the spaces that agents opened with `awk space list`"
        return Refused("workflow_not_running", f"space {space[:100]} is closed or was never opened", hint)
    name, tag = split_space(space)
    text = what or f"workflow {space[:100]} is not running"
    names = workflow_names(files.catalog, files.catalog.kept_project())
    before = store.reader.now(workflows.newest_at, space)
    if name not in names and (name == GLOBAL or (before is not None and not before.file)):
        return Refused("workflow_not_running", f"space {space[:100]} is not open", f"open it: awk space create {name}")
    start = name if name in names else before and before.file  # A workflow that was started from a path or a remote.
    if start is None:
        known = {*names, *(record.name for record in store.reader.now(workflows.running))}
        text = f"{text}: workflow {name[:60]!r} not found"
        return Refused("workflow_not_running", text, suggest(name, known, what="workflows here"))
    flag = "" if tag == DEFAULT_TAG else f" --tag {tag[:64]}"
    return Refused("workflow_not_running", text, f"start it: awk start {start}{flag}")


def known_space(store: StoreAccess, files: ProjectFiles, text: str) -> SpaceId:
    """Return the space named ``text``, current or past. For a workflow: the space of its newest run. Raises Refused."""
    name, tag = split_space(text)
    place = SpaceId(f"{name}:{tag}")
    if is_personal(place):
        if store.reader.now(agents.row, tag) is None and not any(
            not message.cleared for message in store.reader.now(messages.channel, place, 1)
        ):
            raise Refused("unknown_agent", f"agent {tag[:60]!r} not found", hint="list agents: `awk agent list`")
        return place
    found = store.reader.now(workflows.space_at, place)
    if found is None and is_below(place):
        raise Refused("not_found", f"space {place[:100]!r} not found", "list the spaces with `awk space list`")
    if found is None:
        raise not_running(store, files, place, f"nothing was ever started as {place[:100]!r}")
    return found


def space_of(store: StoreAccess, text: str) -> SpaceId:
    """Return the space named ``text``, existing or not. For a workflow: the space of its newest run."""
    place = SpaceId(":".join(split_space(text)))
    found = None if is_personal(place) else store.reader.now(workflows.space_at, place)
    return found or place


def agent_key(store: StoreAccess, text: str) -> AgentKey:
    """Return the key of ``text``; ``bob@review:main`` is a member of that newest run. Raises Refused."""
    name, at, place = text.partition("@")
    if not at:
        return AgentKey(text)
    space = space_of(store, place)
    keys = {str(one.name): one.key for one in store.reader.now(agents.members, space)}
    if keys and name not in keys:
        text = f"{name[:60]} is not a member of {place_of(space)}"
        raise Refused("not_a_participant", text, f"members: {', '.join(keys)}")
    return keys.get(name) or inline_key(name, space)


def context_of(store: StoreAccess, files: ProjectFiles, key: AgentKey) -> ContextPlace:
    """Return the location of an agent's memory, notes and todo list."""
    return files.contexts.place(key, store.reader.now(agents.row, key))


def run_asked(conn: apsw.Connection, asked: str) -> WorkflowRecord:
    """Return the run named ``asked``: ``r12``, or the newest run of ``review:main``. Raises Refused (not_found)."""
    number = number_of(asked, "r")
    place = ":".join(split_space(asked))
    record = workflows.newest_at(conn, place) if number is None else workflows.by_id(conn, number)
    if record is None:
        raise unknown_run(asked)
    return record


def unknown_run(asked: str) -> Refused:
    """Return the refusal of a run that does not exist."""
    hint = (
        "list the stored runs with `awk runs`; a run is named like r12, the newest run of a workflow like review:main"
    )
    return Refused("not_found", f"run {asked[:100]!r} not found", hint)


def run_at(store: StoreAccess, files: ProjectFiles, text: str, asked: str | None) -> WorkflowRecord:
    """Return the run ``asked`` (r12) of the space ``text``, or its newest run if ``asked`` is None. Raises Refused."""
    place = base_space(":".join(split_space(text)))
    if asked is None:
        record = store.reader.now(workflows.newest_at, place)
        if record is None:
            raise not_running(store, files, place, f"nothing was ever started as {place[:100]!r}")
        return record
    record = store.reader.now(workflows.by_id, number_of(asked, "r") or 0)
    if record is None:
        raise unknown_run(asked)
    if record.place != place:
        raise Refused("not_found", f"{asked} is not a run of {place[:100]}: it is a run of {record.place}")
    return record


def own_definition(identity: Identity, store: StoreAccess, files: ProjectFiles) -> AgentDefinition:
    """Return the definition of an attempt's agent, or the default if its file is gone."""
    try:
        return definition_for(identity.agent, identity.space, files.catalog, store.reader)
    except (Refused, BadDefinition):
        return AgentDefinition(name=identity.name)


def check_known(store: StoreAccess, files: ProjectFiles, name: str) -> AgentRecord | None:
    """Return the stored agent ``name``, or None if only its file exists so far. Raises Refused (unknown_agent)."""
    record = store.reader.now(agents.row, name)
    if record is None:
        files.catalog.agent(name)
    return record
