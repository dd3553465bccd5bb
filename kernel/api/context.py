"""What a handler may use: everything is handed in, nothing is looked up."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import trio

from kernel.agents.catalog import Catalog
from kernel.agents.trust import GrantSource
from kernel.api.resource_usage import ResourceSampler
from kernel.api.single_flight import SingleFlight
from kernel.procs.command import VersionProbes
from kernel.procs.launcher import Launcher
from kernel.store.feed import Feed
from kernel.store.reader import Reader
from kernel.store.transitions.runs import StartedRun
from kernel.store.writer import Writer
from kernel.workflows.remote import Remotes
from kernel.workflows.repository import Repository
from protocol.api.worktrees import DiffStat, WorktreeDiff


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelIdentity:
    """What this kernel says of itself. ``project`` is the root's path; ``url`` ends without a slash."""

    pid: int
    url: str
    version: str
    project: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptActivity:
    """A live attempt: the pid of its worker once it runs, and what it last said it was doing."""

    pid: int | None
    doing: str = ""


class WorktreeDiffs(Protocol):
    """Says what was done in the working trees of a run, or in that of one of its agents; ``patch``: line by line."""

    async def __call__(self, run: int, name: str | None, *, patch: bool) -> tuple[WorktreeDiff, ...]:
        """As they are now. Raises Refused."""
        ...


async def _no_worktrees(run: int, name: str | None, *, patch: bool) -> tuple[WorktreeDiff, ...]:
    """Everybody works in the project."""
    return ()


async def _nothing() -> None:
    """Nothing is written to files."""


async def _no_homes(_agent: str | None, _space: str | None) -> None:
    """No program keeps anything."""


def _unwatched(_instruction: str) -> AbstractContextManager[None]:
    """Nobody watches attempts."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The kernel, as its handlers see it."""

    writer: Writer
    reader: Reader
    feed: Feed
    catalog: Catalog
    launcher: Launcher
    probes: VersionProbes
    """Ask programs what they are."""
    environ: Mapping[str, str]
    """The kernel's own environment: provider keys, and what trust may pass on."""
    token: str
    """The admin's."""
    trusted: bool = False
    """Whether whoever started this kernel vouched for the project's files (``awk start --trust``)."""
    kept: GrantSource = tuple
    """What the user keeps to trust (``awk trust``)."""
    remotes: Remotes | None = None
    """Where workflows of other repositories come from."""
    about: KernelIdentity
    now_ms: Callable[[], int]
    """Wall clock."""
    salt: Callable[[], str]
    """Another text each time, by chance: nobody can guess it."""
    uptime_seconds: Callable[[], float]
    activity: Callable[[], Mapping[str, AttemptActivity]]
    """Live attempts by instruction id."""
    interrupt: Callable[[str], bool] = lambda _agent: False
    """Stop what an agent (its key) does; its instruction goes back to its lane. Returns whether it did something."""
    reached: Callable[[str], None] = lambda _instruction: None
    """The attempt of an instruction has come to Daemon MCP."""
    runs_client: Callable[[int], bool] = lambda _port: False
    """Whether the client at this port of our own machine is a process that we run. Reads much: ask in a thread."""
    hold: Callable[[str], AbstractContextManager[None]] = _unwatched
    """While the block lasts the attempt of an instruction waits for a person: its silence is no fault."""
    ready: Callable[[], bool]
    """Whether work is leased."""
    safe_mode: Callable[[], bool] = lambda: False
    """Whether no work is begun because the kernels before this one kept dying."""
    saved_notice: Callable[[], str | None] = lambda: None
    """What an earlier kernel saved of a database that is not in use, and what to do. Reads a folder: in a thread."""
    shutdown: Callable[[float], None]
    """Begin to stop; attempts get that many seconds to end by themselves."""
    closing: trio.Event
    """Set when the server has to go: streams say good-bye and connections end. Attempts need their MCP until they
    are gone, so it comes after them."""
    stopping: Callable[[], bool] = lambda: False
    """Whether the kernel has been asked to stop: from then on nothing new is taken."""
    own_bin: frozenset[str] = frozenset()
    """Directories that setup commands do not get to see on their PATH."""
    mirror_redo: Callable[[], Awaitable[None]] = _nothing
    """Have what was removed from the log removed from the files written from it."""
    forget_homes: Callable[[str | None, str | None], Awaitable[None]] = _no_homes
    """Remove what programs keep of an agent (its key), or in a space."""
    repository: Repository | None = None
    """What working trees are made of."""
    worktrees: WorktreeDiffs = _no_worktrees
    diff_stat: Callable[[str | None, str], DiffStat | None] = lambda _space, _agent: None
    """The same of one agent in numbers, as they were when they were measured last."""
    launches: SingleFlight[StartedRun] = field(default_factory=SingleFlight)
    """Workflows whose setup runs."""
    processes: ResourceSampler = field(default_factory=ResourceSampler)
