"""Records of what the API's handlers may use: the store, the project's files, processes, and the kernel itself.

Everything is handed in and nothing is looked up. A handler names the records that it uses as parameters: ``store``,
``files``, ``processes``, ``kernel``, ``memory``, ``nodes``. Spaces, agents and runs as people name them are looked up
in them here, and refused with a suggestion.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager

import apsw
import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.memory_prompt import Memories
from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.agents.trust import ProjectTrust
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
from kernel.services.guard import MemoryGuard, Souls
from kernel.services.landings import Landings
from kernel.services.mirror import Mirror
from kernel.services.nodes import Nodes
from kernel.services.recall import Recall
from kernel.services.supervision import ShutdownSignal
from kernel.services.telemetry import EventCounters
from kernel.services.tree_work import TreeWork, WorkChecks
from kernel.services.upgrade import Upgrade
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
from kernel.workflows.find import Remotes, workflow_names
from kernel.workflows.instruction_prompt import definition_for
from kernel.workflows.load import Definitions
from protocol.agent import AgentDefinition
from protocol.api.kernel import PruneReport, PruneRequest
from protocol.errors import Refused
from protocol.names import (
    DEFAULT_TAG,
    AgentKey,
    SpaceId,
    base_space,
    inline_key,
    is_below,
    is_personal,
    number_of,
    split_space,
)
from protocol.standby import StandbyState


class StoreAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The log: written by one, read by many, followed as it grows; and the copies that follow when words are erased."""

    writer: CommitWriter
    append: Callable[[Draft, RequestKey | None], Awaitable[Appended]]
    """Append a message from outside; an agent that is free begins with it in the same commit. Raises Refused."""
    reader: Reader
    feed: Feed
    mirror: Mirror
    homes: CliHomes
    now_ms: Callable[[], int]
    """Wall clock."""
    salt: Callable[[], str]
    """Another text each time, by chance: nobody can guess it."""


class TreeServices(msgspec.Struct, frozen=True, kw_only=True):
    """All that is done with agents' working trees."""

    diffs: Worktrees
    work: TreeWork
    removal: WorktreeSweep
    checks: WorkChecks
    repository: Repository
    """Working trees are made of it."""


class ProjectFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The project's files: definitions, the trust in them, its repository, and the environment they are read with."""

    catalog: Catalog
    contexts: PersonalContexts
    """What each agent keeps: memory, notes, todo list. Blocks: in a thread."""
    definitions: Callable[[], Awaitable[Definitions | None]]
    """As they are now; None while those that were there at the start are being read for the first time."""
    trust: ProjectTrust
    remotes: Remotes
    """Workflows of other repositories."""
    worktrees: TreeServices
    environ: Mapping[str, str]
    """The kernel's own environment: provider keys, and what trust may pass on."""
    own_bin: frozenset[str]
    """Directories that setup commands do not get to see on their PATH."""


class AttemptActivity(msgspec.Struct, frozen=True, kw_only=True):
    """A live attempt: the pid of its worker once it runs, and what it last said it was doing."""

    pid: int | None
    doing: str = ""


class AttemptControl(msgspec.Struct, frozen=True, kw_only=True):
    """The live attempts, as far as requests may look at them and act on them."""

    activity: Callable[[], Mapping[str, AttemptActivity]]
    """All of them, by instruction id."""
    interrupt: Callable[[AgentKey], bool]
    """Stop what an agent (its key) does; its instruction goes back to its lane. Returns whether it did something."""
    hold: Callable[[str], AbstractContextManager[None]]
    """While the block lasts the attempt of an instruction waits for a person: its silence is no fault."""
    until_gone: Callable[[Callable[[Leased], bool]], Awaitable[None]]
    """Wait for the end of the attempts that are named so, trees and all."""
    reached: Callable[[str], None]
    """The attempt of an instruction has come to Daemon MCP."""
    calling: Callable[[AcceptedConnection, str], Awaitable[bytes | None]]
    """The digest of the token of the attempt whose process has the other end of a connection, and knows its cookie."""
    kept: Callable[[], Mapping[AgentKey, AttemptActivity]] = dict
    """The workers that wait for another attempt of their agent."""


class ProcessControl(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of this kernel: started, asked, measured, and told from those of others."""

    launcher: Launcher
    probes: VersionProbes
    """Ask programs what they are."""
    attempts: AttemptControl
    runs_client: Callable[[int], bool]
    """Whether the client at this port of our own machine is a process that we run. Reads much: ask in a thread."""
    single_flight: SingleFlight[StartedRun] = msgspec.field(default_factory=SingleFlight[StartedRun])
    """Workflows whose setup runs."""
    resources: ResourceSampler = msgspec.field(default_factory=ResourceSampler)
    landings: Landings
    prune: Callable[[PruneRequest], Awaitable[PruneReport]]
    """Remove what takes room and neither they nor anybody else needs."""


class KernelIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's own description. ``project`` is the root's path; ``url`` ends without a slash."""

    pid: int
    url: str
    version: str
    project: str
    term: int
    """Higher than that of any kernel of the project before: nodes refuse a lower one."""


class RequestCount:
    """Requests that are being answered, streams among them, and how many were begun since the start."""

    def __init__(self) -> None:
        self.open = self.begun = 0

    def told(self) -> tuple[int, int]:
        """Both numbers."""
        return self.open, self.begun

    def __enter__(self) -> None:
        self.open += 1
        self.begun += 1

    def __exit__(self, *_error: object) -> None:
        self.open -= 1


class KernelNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of this kernel that no table has."""

    counters: EventCounters
    commits: Durations
    """Of the writer, from the begin of a transaction until it is durable."""
    turns: Durations
    """Of the event loop."""
    retention_seconds: Callable[[], float]
    free_bytes: Callable[[], int]
    """On the disk of the database."""
    requests: RequestCount = msgspec.field(default_factory=RequestCount)
    """Without those that only ask how the kernel is."""


class Keys(msgspec.Struct, frozen=True):
    """The kernel's own tokens, the keys that tokens of the page are given for, and what was answered to whose keys."""

    token: str
    """The administrator's."""
    record: str
    """The limited one of the discovery record."""
    page: PageKeys = msgspec.field(default_factory=PageKeys)
    answers: KeyedAnswers = msgspec.field(default_factory=KeyedAnswers)


class KernelState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of this kernel, and what people are told of the one before."""

    uptime_seconds: Callable[[], float]
    ready: Callable[[], bool]
    """Whether work is leased."""
    safe_mode: Callable[[], bool]
    """Whether no work is begun because the kernels before this one kept dying."""
    saved_notice: Callable[[], str | None]
    """What an earlier kernel saved of a database that is not in use, and what to do. Reads a folder: in a thread."""
    restart_notice: str | None = None
    """Of the service that keeps this kernel: for people, where the kernel before had died."""
    standby: Callable[[], StandbyState | None] = lambda: None
    """How the copy of the log at another place is; None: there is none."""


class KernelControl(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel itself: its identity, its state, and its end."""

    identity: KernelIdentity
    keys: Keys
    state: KernelState
    rules: InstalledRules
    """Those of installed packages."""
    numbers: KernelNumbers
    shutdown: ShutdownSignal
    upgrade: Upgrade


class MemoryAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Access to conversations and memory of agents, and to their indexes."""

    history: Recall
    """What they find again."""
    vectors: EmbeddingClient
    derived: tuple[Recall, ...]
    """What has to forget with the log and the files."""
    souls: Souls
    trays: MemoryGuard
    guard: MemoryGuard
    prompts: Memories


class NodeAccess(msgspec.Struct, frozen=True):
    """The machines beside the kernel's own."""

    control: Nodes
    door: NodeDoor
    """What processes there come to Daemon MCP by."""


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The six records together."""

    store: StoreAccess
    files: ProjectFiles
    processes: ProcessControl
    kernel: KernelControl
    memory: MemoryAccess
    nodes: NodeAccess


def not_running(store: StoreAccess, files: ProjectFiles, space: str, what: str = "") -> Refused:
    """The refusal of a ``space`` without a workflow that runs, with the command that starts it.

    Of a name that nobody knows it suggests the nearest, or those there are.
    ``what`` is said in place of that it does not run.
    """
    if is_below(space):
        hint = "awk space list shows those that agents opened"
        return Refused("workflow_not_running", f"the space {space[:100]} is closed, or was never opened", hint)
    name, tag = split_space(space)
    text = what or f"workflow {space[:100]} is not running"
    names = workflow_names(files.catalog, files.catalog.kept_project())
    before = store.reader.now(workflows.newest_at, space)
    start = name if name in names else before and before.file  # it was started from a path, or from elsewhere
    if start is None:
        known = {*names, *(record.name for record in store.reader.now(workflows.running))}
        text = f"{text}, and there is no workflow {name[:60]!r}"
        return Refused("workflow_not_running", text, suggest(name, known, what="workflows here"))
    flag = "" if tag == DEFAULT_TAG else f" --tag {tag[:64]}"
    return Refused("workflow_not_running", text, f"start it: awk start {start}{flag}")


def known_space(store: StoreAccess, files: ProjectFiles, text: str) -> SpaceId:
    """The space ``text`` names, if it is there now or was: of a workflow that of its newest run. Raises Refused."""
    name, tag = split_space(text)
    place = SpaceId(f"{name}:{tag}")
    if is_personal(place):
        if store.reader.now(agents.row, tag) is None and not any(
            not message.cleared for message in store.reader.now(messages.channel, place, 1)
        ):
            raise Refused("unknown_agent", f"there is no agent {tag[:60]!r}", hint="awk ls lists the agents")
        return place
    found = store.reader.now(workflows.space_at, place)
    if found is None and is_below(place):
        raise Refused("not_found", f"there was never a space {place[:100]!r}", "awk space list shows those there are")
    if found is None:
        raise not_running(store, files, place, f"nothing was ever started as {place[:100]!r}")
    return found


def space_of(store: StoreAccess, text: str) -> SpaceId:
    """The space ``text`` names, whether there was ever one or not: of a workflow that of its newest run."""
    place = SpaceId(":".join(split_space(text)))
    found = None if is_personal(place) else store.reader.now(workflows.space_at, place)
    return found or place


def agent_key(store: StoreAccess, text: str) -> AgentKey:
    """The key of the agent that people call ``text``: ``bob@review:main`` is the one in the newest run there."""
    name, at, place = text.partition("@")
    return inline_key(name, space_of(store, place)) if at else AgentKey(text)


def context_of(store: StoreAccess, files: ProjectFiles, key: AgentKey) -> ContextPlace:
    """The place of what an agent keeps."""
    return files.contexts.place(key, store.reader.now(agents.row, key))


def run_asked(conn: apsw.Connection, asked: str) -> WorkflowRecord:
    """The run ``asked``: ``r12``, or of ``review:main`` the newest. Raises Refused (not_found)."""
    number = number_of(asked, "r")
    place = ":".join(split_space(asked))
    record = workflows.newest_at(conn, place) if number is None else workflows.by_id(conn, number)
    if record is None:
        raise unknown_run(asked)
    return record


def unknown_run(asked: str) -> Refused:
    """Return the refusal of a run that does not exist."""
    hint = "awk runs lists those that are kept; they are called like r12, the last one of a workflow like review:main"
    return Refused("not_found", f"there is no run {asked[:100]!r}", hint)


def run_at(store: StoreAccess, files: ProjectFiles, text: str, asked: str | None) -> WorkflowRecord:
    """The run ``asked`` (r12) of those at the space ``text``; None: the newest there. Raises Refused."""
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
        raise Refused("not_found", f"{asked} is no run of {place[:100]}: it is one of {record.place}")
    return record


def own_definition(identity: Identity, store: StoreAccess, files: ProjectFiles) -> AgentDefinition:
    """Return the definition of the agent of an attempt; the default where its file is gone."""
    try:
        return definition_for(identity.agent, identity.space, files.catalog, store.reader)
    except (Refused, BadDefinition):
        return AgentDefinition(name=identity.name)


def check_known(store: StoreAccess, files: ProjectFiles, name: str) -> AgentRecord | None:
    """The agent, or None where only its file is there yet. Raises Refused (unknown_agent)."""
    record = store.reader.now(agents.row, name)
    if record is None:
        files.catalog.agent(name)
    return record
