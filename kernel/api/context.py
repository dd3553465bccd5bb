"""Records of what the API's handlers may use: the store, the project's files, processes, and the kernel itself.

Everything is handed in and nothing is looked up. A handler names the records that it uses as parameters: ``store``,
``files``, ``processes``, ``kernel``, ``memory``, ``nodes``.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import msgspec
import trio

from kernel.agents.catalog import Catalog
from kernel.agents.memory_search import Memories
from kernel.agents.personal_context import PersonalContexts
from kernel.agents.trust import GrantSource, TrustRequest
from kernel.api.keyed_answers import KeyedAnswers
from kernel.api.node_door import NodeDoor
from kernel.api.page_keys import PageKeys
from kernel.api.requests import RequestCount
from kernel.api.resource_usage import ResourceSampler
from kernel.policy.durations import Durations
from kernel.policy.node_states import NodeState
from kernel.policy.recall import Found
from kernel.procs.command import VersionProbes
from kernel.procs.launcher import Launcher
from kernel.procs.peer import Wire
from kernel.rule.draft import Author, Draft
from kernel.rule.installed import InstalledRules
from kernel.store.attempts import Identity
from kernel.store.feed import Feed
from kernel.store.idempotency import RequestKey, SingleFlight
from kernel.store.metrics import Counted
from kernel.store.reader import Reader
from kernel.store.transitions.append import Appended
from kernel.store.transitions.guarding import Question
from kernel.store.transitions.landings import MergePlan
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.runs import StartedRun
from kernel.store.tray import GuardJob
from kernel.store.turn_index import END, TurnFilter
from kernel.store.workflows import WorkflowRecord
from kernel.store.worktrees import Worktree
from kernel.store.writer import CommitWriter
from kernel.workflows.branches import Standing, TakeMode, Tip
from kernel.workflows.load import Definitions
from kernel.workflows.remote import Remotes
from kernel.workflows.repository import Repository
from kernel.workflows.setup import CheckOutcome
from protocol.agent import AgentLimits
from protocol.agent_memory import Entry, Tier
from protocol.api.history import HistoryFound, HistoryPage, Reindexed
from protocol.api.kernel import PruneReport, PruneRequest, UpgradeReport
from protocol.api.merges import MergeInfo
from protocol.api.runs import DiffStat, WorktreeDiff
from protocol.api.souls import SoulProposal, SoulReport
from protocol.api.tray import TrayReport, TrayRow
from protocol.guard import GuardSettings
from protocol.memory_eval import VectorTrial, VectorTrialRequest
from protocol.memory_files import Memory
from protocol.names import AgentKey
from protocol.node import NodeFacts
from protocol.project import NodeSettings
from protocol.standby import StandbyState


class ConversationMirror(Protocol):
    """The files that are written from the log."""

    async def redo(self) -> None:
        """Bring the files up to date with the log; remove what was removed from it."""
        ...


class BackendHomes(Protocol):
    """The private directories of the CLIs that run agents."""

    async def forget(self, agent: str | None, space: str | None) -> None:
        """Remove those of ``agent`` (its key), those in ``space``, or of one in the other. Raises nothing."""
        ...


class History(Protocol):
    """What agents said, were told and did, and what they keep, as it is found again. Each raises Refused."""

    async def search(
        self,
        agent: str,
        query: str,
        *,
        limit: int,
        offset: int = 0,
        since_ms: int = 0,
        until_ms: int = END,
        vectors: bool | None = None,
    ) -> HistoryFound:
        """The turns of an agent (its key) that answer ``query`` best; with vectors (True), or without (False)."""
        ...

    async def read(self, wanted: TurnFilter, limit: int, before: int | None = None) -> HistoryPage:
        """The newest turns of an agent, or those before one, oldest first."""
        ...

    async def find(
        self,
        agent: str,
        memory: Memory,
        query: str,
        limit: int,
        tiers: Iterable[Tier] = ...,
        counts: Callable[[Entry], bool] = ...,
    ) -> Found:
        """Of all that an agent keeps, what answers ``query`` best, by its place in ``memory``."""
        ...

    async def redo(self) -> None:
        """Remove from the index what was removed from the log. Raises nothing."""
        ...

    async def reindex(self, agent: str | None) -> Reindexed:
        """Make the index anew, of one agent or of all."""
        ...


class VectorTrials(Protocol):
    """For whose searches vectors were shown to be worth it."""

    def trial(self, agent: AgentKey, trial: VectorTrialRequest) -> VectorTrial:
        """Keep what was measured for an agent. Blocks. Raises Refused."""
        ...


class DerivedCopy(Protocol):
    """Something that is made of the log and of what agents keep, and can be made anew: an index."""

    async def purge(
        self, agent: str | None, *, messages: Iterable[int] = (), instructions: Iterable[int] = (), kept: bool = False
    ) -> object:
        """Forget these messages and instructions, and (``kept``) all that ``agent`` keeps. No byte of it is left."""
        ...


class StoreAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The log: written by one, read by many, followed as it grows; and the copies that follow when words are erased."""

    writer: CommitWriter
    append: Callable[[Draft, RequestKey | None], Awaitable[Appended]]
    """Append a message from outside; an agent that is free begins with it in the same commit. Raises Refused."""
    reader: Reader
    feed: Feed
    mirror: ConversationMirror
    homes: BackendHomes
    now_ms: Callable[[], int]
    """Wall clock."""
    salt: Callable[[], str]
    """Another text each time, by chance: nobody can guess it."""


class ProjectTrust(msgspec.Struct, frozen=True, kw_only=True):
    """The trust in the project's files: for all of them (``awk start --trust``), and as granted (``awk trust``)."""

    everything: bool
    kept: GrantSource

    def request(self, everything: bool, agreed: Iterable[str]) -> TrustRequest:
        """The trust that one request may rely on: the kernel's, and what the request itself brings."""
        return TrustRequest(
            everything=everything or self.everything, granted_digests=frozenset(agreed), grants=self.kept
        )


class WorktreeDiffs(Protocol):
    """The changes that were made in agents' working trees."""

    async def report(self, run: int, name: str | None, *, patch: bool) -> tuple[WorktreeDiff, ...]:
        """Those of ``run``, or of its agent ``name``, as they are now; with ``patch`` line by line. Raises Refused."""
        ...

    def stat(self, space: str | None, name: str) -> DiffStat | None:
        """Those of one agent in numbers, as they were when they were measured last. Never waits."""
        ...


class TreeTools(Protocol):
    """The work of an agent on its own working tree and with its colleagues' branches. Each raises Refused."""

    async def standing(self, identity: Identity) -> tuple[Worktree, Standing]:
        """Return its tree as it is now."""
        ...

    async def commit(self, identity: Identity, message: str) -> tuple[Worktree, Tip]:
        """Commit all that is not committed."""
        ...

    async def take(self, identity: Identity, source: str, mode: TakeMode) -> tuple[Worktree, Tip]:
        """Merge a colleague's branch into its own, or reset it to that."""
        ...

    async def seen(self, identity: Identity) -> str:
        """The commit that it has before its eyes, in words; "" where it has no tree. Raises nothing."""
        ...


class TaskChecks(Protocol):
    """Commands that check what agents did."""

    async def check(
        self, identity: Identity, command: str, limits: AgentLimits, *, task: str, confined: bool
    ) -> CheckOutcome:
        """Run ``command`` where the caller works, within its limits, perhaps in a sandbox. Raises Refused."""
        ...

    async def check_run(
        self, record: WorkflowRecord, command: str, limits: Iterable[AgentLimits], *, confined: bool
    ) -> CheckOutcome:
        """Run ``command`` in the project over what the agents of a run did there, as ``check`` does."""
        ...


class TreeRemoval(Protocol):
    """The end of working trees."""

    async def remove(
        self, trees: Iterable[Worktree], *, force: bool
    ) -> tuple[tuple[Worktree, ...], tuple[Worktree, ...]]:
        """Remove those whose runs have ended: which are gone, and which are kept, with the reason. Raises nothing."""
        ...


class TreeServices(msgspec.Struct, frozen=True, kw_only=True):
    """All that is done with agents' working trees."""

    diffs: WorktreeDiffs
    work: TreeTools
    removal: TreeRemoval
    checks: TaskChecks
    repository: Repository
    """Working trees are made of it."""


class SoulBook(Protocol):
    """The souls of agents: files of the project, and their versions. Each raises Refused."""

    async def report(self, key: AgentKey, space: str) -> SoulReport:
        """One soul as it is now, seen from ``space``."""
        ...

    async def suggest(
        self, identity: Identity, author: Author, trait: str, value: str, observation: str
    ) -> SoulProposal:
        """Keep what an agent suggests of its own, or take it at once."""
        ...

    async def approve(self, key: AgentKey, name: str, reason: str) -> SoulProposal:
        """Make a version of what was suggested, as a person."""
        ...

    async def reject(self, key: AgentKey, name: str, reason: str) -> SoulProposal:
        """Decide that it is not taken, as a person."""
        ...

    async def roll_back(self, key: AgentKey, version: int, reason: str) -> int:
        """Have it say again what ``version`` said, as a person. Returns the new version."""
        ...


class TrayKeeper(Protocol):
    """The trays of agents. Each raises Refused."""

    async def report(self, key: AgentKey) -> TrayReport:
        """One tray, the newest first."""
        ...

    async def decide(self, key: AgentKey, name: str, *, approved: bool, by: str) -> TrayRow:
        """Take what is proposed into its memory, or do not."""
        ...


class GuardModel(Protocol):
    """The guard's model, as far as a call may wait for what it says."""

    def settings(self, space: str) -> GuardSettings:
        """Those that count in ``space``."""
        ...

    async def ask(self, identity: Identity, settings: GuardSettings, question: Question) -> GuardJob | None:
        """Ask while a call of ``identity`` waits; None: there is no answer. Raises Refused (stale_attempt)."""
        ...


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
    calling: Callable[[Wire, str], Awaitable[bytes | None]]
    """The digest of the token of the attempt whose process has the other end of a connection, and knows its cookie."""
    kept: Callable[[], Mapping[AgentKey, AttemptActivity]] = dict
    """The workers that wait for another attempt of their agent."""


class MergePreview(Protocol):
    """The queue of what is merged into branches of the user's."""

    async def preview(self, record: WorkflowRecord, plan: MergePlan) -> MergeInfo:
        """The outcome that it would have, without its check. Changes nothing. Raises Refused."""
        ...


class NodeControl(Protocol):
    """The other machines on which attempts run."""

    running: Callable[[], Mapping[str, int]]
    """How many attempts run on each."""

    def states(self) -> tuple[NodeState, ...]:
        """All of them as they are now."""
        ...

    def facts(self, name: str) -> NodeFacts | None:
        """Its own account of itself."""
        ...

    def look_again(self) -> None:
        """Have what may have changed looked at now: who asks has perhaps just agreed to a node."""
        ...

    def added_by_hand(self, name: str) -> bool:
        """Return whether it is not in the project file."""
        ...

    async def add(self, name: str, settings: NodeSettings, host: str | None) -> str | None:
        """Add one. Returns the join word of one that dials home. Raises Refused."""
        ...

    async def drain(self, name: str, *, draining: bool) -> None:
        """Give it nothing new, or again something. Raises Refused (not_found)."""
        ...

    async def remove(self, name: str, *, force: bool) -> None:
        """Forget one. Raises Refused."""
        ...


class ProcessControl(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of this kernel: started, asked, measured, and told from those of others."""

    launcher: Launcher
    probes: VersionProbes
    """Ask programs what they are."""
    attempts: AttemptControl
    runs_client: Callable[[int], bool]
    """Whether the client at this port of our own machine is a process that we run. Reads much: ask in a thread."""
    single_flight: SingleFlight[StartedRun]
    """Workflows whose setup runs."""
    resources: ResourceSampler
    landings: MergePreview
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


class ShutdownControl(Protocol):
    """The request to stop."""

    closing: trio.Event
    """Set when the server has to go: streams say good-bye and connections end. Attempts need their MCP until they
    are gone, so it comes after them."""

    hands_over: bool
    """Another program of this kernel goes on: who gets no answer asks that one, with the same key."""

    def ask(self, grace_seconds: float) -> None:
        """Begin to stop; attempts get that many seconds to end by themselves. Asked again: hurry."""
        ...

    def begun(self) -> bool:
        """Return whether it was asked for: from then on nothing new is taken."""
        ...


class UpgradeControl(Protocol):
    """Upgrades of this kernel."""

    def ask(self, to: str | None) -> UpgradeReport:
        """Begin one. Raises Refused."""
        ...

    def tell(self) -> UpgradeReport:
        """Return how the last one went, or goes."""
        ...


class CountedEvents(Protocol):
    """Events, counted by type and by what they say."""

    behind: int
    """Those that are not counted yet."""

    async def look(self) -> Counted:
        """Count what is new, for a second at most. Raises Refused (busy)."""
        ...


class KernelNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of this kernel that no table has."""

    counters: CountedEvents
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
    page: PageKeys
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
    shutdown: ShutdownControl
    upgrade: UpgradeControl


class MemoryAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What agents said and keep, and the copies of it."""

    history: History
    """What they find again."""
    vectors: VectorTrials
    derived: tuple[DerivedCopy, ...]
    """What has to forget with the log and the files."""
    souls: SoulBook
    trays: TrayKeeper
    guard: GuardModel
    prompts: Memories


class NodeAccess(msgspec.Struct, frozen=True):
    """The machines beside the kernel's own."""

    control: NodeControl
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

    def named_by(self, handler: Callable[..., object]) -> dict[str, Any]:
        """The records that ``handler`` names as parameters, by their names."""
        return {name: getattr(self, name) for name in records_of(handler)}


@cache
def records_of(handler: Callable[..., object]) -> tuple[str, ...]:
    """The names of the records that ``handler`` takes."""
    parameters = inspect.signature(handler).parameters
    return tuple(name for name in Services.__struct_fields__ if name in parameters)
