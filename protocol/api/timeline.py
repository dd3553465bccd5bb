"""A run at a glance: its timeline, and the graph of its messages."""

from typing import Literal

from msgspec import field

from protocol.api.document import Body, Document
from protocol.api.runs import RunReport
from protocol.message import MessageKind

BarKind = Literal["attempt", "model", "tool", "wait"]


class TimelineBar(Body, frozen=True):
    """Attempt of an instruction, model or tool call within it, or wait. ``until`` is null while it lasts.

    ``label``: outcome of the attempt, model, tool, or reason of the wait.
    """

    kind: BarKind
    at: str
    until: str | None
    instruction: str
    step: int | None
    """Number of the call in the transcript of its instruction."""
    label: str
    failed: bool


class TimelineMark(Body, frozen=True, kw_only=True):
    """Event of an agent: its vote, a merge of its branch, its task, or an approval that it requested."""

    kind: Literal["vote", "merge", "task", "approval"]
    at: str
    id: str
    label: str


class TimelineLane(Body, frozen=True, kw_only=True):
    """Work of one agent, oldest first."""

    agent: str
    bars: tuple[TimelineBar, ...] = ()
    marks: tuple[TimelineMark, ...] = ()


class TimelineMessage(Body, frozen=True, kw_only=True):
    """Message with the first 120 characters of its text."""

    seq: int
    at: str
    sender: str = field(name="from")
    to: tuple[str, ...]
    kind: MessageKind
    text: str


class LeftOut(Body, frozen=True):
    """Number of older bars and messages that exceed the limits of a timeline."""

    bars: int = 0
    messages: int = 0


class Timeline(Document, frozen=True, kw_only=True):
    """GET /runs/<run>/timeline: a lane for each agent that worked, or sent or received a message, by first activity.

    ``why``: reason that the run is blocked, incomplete or failed, in a sentence.
    """

    run: str
    space: str
    status: str
    report: RunReport
    """Report without messages."""
    why: str | None = None
    since: str = field(name="from")
    until: str | None = field(name="to")
    lanes: tuple[TimelineLane, ...]
    messages: tuple[TimelineMessage, ...]
    """The newest messages, oldest first."""
    left_out: LeftOut = LeftOut()
    schema: str = "awk/timeline/1"


class GraphNode(Body, frozen=True):
    """Agent, user or system, with the number of messages that it sent."""

    name: str
    messages: int


class GraphEdge(Body, frozen=True):
    """Messages from one sender to one recipient. ``mentions``: messages whose text mentions the recipient."""

    sender: str = field(name="from")
    to: str
    messages: int
    mentions: int


class RunGraph(Document, frozen=True, kw_only=True):
    """GET /runs/<run>/graph: senders and recipients of a run's messages."""

    run: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    schema: str = "awk/graph/1"
