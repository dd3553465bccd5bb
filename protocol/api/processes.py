"""Processes of agents, and nodes."""

from typing import Literal

from protocol.api.agents import AgentCondition, AgentStatus
from protocol.api.document import Body, Document
from protocol.api.instructions import QueueReport
from protocol.api.runs import DiffStat
from protocol.instruction import Usage
from protocol.tasks import TaskState


class Queue(Body, frozen=True, kw_only=True):
    """Number of waiting instructions by lane."""

    immediate: int = 0
    normal: int = 0
    background: int = 0


class PsTask(Body, frozen=True, kw_only=True):
    """Task that an agent has claimed, or that is assigned to it. ``blocked_by`` are its unfinished dependencies."""

    id: str
    title: str
    state: TaskState
    blocked_by: tuple[str, ...] = ()


class PsRow(AgentCondition, frozen=True, kw_only=True):
    """Agent in the process table."""

    pid: int | None = None
    node: str = ""
    """Node on which the agent's worker runs. "": on the kernel's machine, or no worker runs."""
    backend: str = ""
    model: str = ""
    step: int = 0
    doing: str = ""
    age_s: float | None = None
    """Age of the running attempt in seconds. This and the next two are null unless its worker is connected."""
    step_age_s: float | None = None
    """Time since the start of the attempt's current step."""
    silent_s: float | None = None
    """Time since the attempt's last output, without waits for a person."""
    queue: Queue = Queue()
    unread: int = 0
    restarts: int = 0
    last_exit: str | None = None
    cpu_percent: float = 0.0
    rss_bytes: int = 0
    usage: Usage = Usage()
    last_event_at: str | None = None
    status: AgentStatus | None = None
    """Last status that the agent set, in any space."""
    diff: DiffStat | None = None
    """Changes in the agent's working tree. Null: it has no tree, or has completed no step since the kernel started."""
    tasks: tuple[PsTask, ...] = ()
    """Tasks that the agent has claimed in its workspace, or that are assigned to it and unfinished."""
    project: str | None = None
    """Root of the agent's project in ``awk ps -A``; otherwise null."""


class Ps(Document, frozen=True, kw_only=True):
    """``awk ps``."""

    agents: tuple[PsRow, ...]
    needs: int = 0
    """Number of needs of the whole project, the ``total`` of ``awk needs``."""
    notice: str | None = None
    """Reason that no work runs, with a remedy."""
    idle: int = 0
    """Number of idle agents that are not listed, because there are more than requested."""
    queue: QueueReport | None = None
    """Queue of the agent, if the request names one."""
    schema: str = "awk/ps/1"


class NodeMachine(Body, frozen=True, kw_only=True):
    """Machine of a node, as the node reports it."""

    version: str
    """Version of agent-worker on the node."""
    cpus: int
    memory_bytes: int
    gpus: int


class NodeRow(Body, frozen=True, kw_only=True):
    """Node with its current state."""

    name: str
    via: str
    state: Literal["connecting", "up", "lost", "draining", "off"]
    labels: tuple[str, ...]
    running: int
    """Number of attempts that run on the node."""
    workers: int
    """Maximum number of attempts at a time on the node."""
    since: str
    draining: bool = False
    """Whether the node receives no new work, in any state."""
    why: str | None = None
    """Reason that the node is not up."""
    added: bool = False
    """Whether the node was added by a command instead of the project file."""
    machine: NodeMachine | None = None
    """Machine, as the node reports it. Null until the node is up."""


class NodeList(Document, frozen=True, kw_only=True):
    """``awk node list``."""

    nodes: tuple[NodeRow, ...]
    schema: str = "awk/node-list/1"


class NodeAdded(Document, frozen=True, kw_only=True):
    """``awk node add``. Run ``command`` on the other machine. The join token in ``command`` is shown only once."""

    node: NodeRow | None
    command: str | None = None
    schema: str = "awk/node/1"
