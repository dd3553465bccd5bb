"""Processes of agents, and the nodes that they run on."""

from typing import Literal

from protocol.api.agents import AgentCondition, AgentStatus
from protocol.api.document import Body, Document
from protocol.api.runs import DiffStat
from protocol.instruction import Usage
from protocol.tasks import TaskState


class Queue(Body, frozen=True, kw_only=True):
    """Counts of the instructions that wait, by lane."""

    immediate: int = 0
    normal: int = 0
    background: int = 0


class PsTask(Body, frozen=True, kw_only=True):
    """A task that an agent has claimed, or that is for it. ``blocked_by`` are the tasks that it waits for."""

    id: str
    title: str
    state: TaskState
    blocked_by: tuple[str, ...] = ()


class PsRow(AgentCondition, frozen=True, kw_only=True):
    """One agent in the process table."""

    pid: int | None = None
    node: str = ""
    """Where it works now; "" is on the kernel's machine, or nowhere."""
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
    status: AgentStatus | None = None
    """What it said of itself last, wherever that was."""
    diff: DiffStat | None = None
    """Of its own working tree, where it has one and has done a step since the kernel began."""
    tasks: tuple[PsTask, ...] = ()
    """Of its workspace: those that it has claimed, and those that are for it and not over."""
    project: str | None = None
    """The root of its project, with ``awk ps -A``; else null."""


class Ps(Document, frozen=True, kw_only=True):
    """``awk ps``."""

    agents: tuple[PsRow, ...]
    needs: int = 0
    """How many things need a person: the ``total`` of ``awk needs``, in all of the project."""
    notice: str | None = None
    """Tells that work does not run, and the way to let it."""
    schema: str = "awk/ps/1"


class NodeMachine(Body, frozen=True, kw_only=True):
    """The machine of a node, by its own account."""

    version: str
    """Of agent-worker there."""
    cpus: int
    memory_bytes: int
    gpus: int


class NodeRow(Body, frozen=True, kw_only=True):
    """One node as it is now."""

    name: str
    via: str
    state: Literal["connecting", "up", "lost", "draining", "off"]
    labels: tuple[str, ...]
    running: int
    """Attempts that run there."""
    workers: int
    """How many may."""
    since: str
    draining: bool = False
    """It is given nothing new, whatever its state."""
    why: str | None = None
    """What keeps it from being up."""
    added: bool = False
    """By hand: it is not in the project file."""
    machine: NodeMachine | None = None
    """By its own account; null: it was not up yet."""


class NodeList(Document, frozen=True, kw_only=True):
    """``awk node list``."""

    nodes: tuple[NodeRow, ...]
    schema: str = "awk/node-list/1"


class NodeAdded(Document, frozen=True, kw_only=True):
    """``awk node add``. ``command`` is typed on the other machine; its word is shown this once."""

    node: NodeRow | None
    command: str | None = None
    schema: str = "awk/node/1"
