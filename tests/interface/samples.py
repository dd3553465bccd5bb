"""Documents a kernel answers with, filled with whatever text a test wants in every place an agent could write."""

from typing import Any

import msgspec

from protocol import tasks, voting
from protocol.api.agents import AgentList, AgentRow, AgentStatus
from protocol.api.approvals import ApprovalInfo, ApprovalRow, Need, NeedAction, Pending
from protocol.api.document import FileError
from protocol.api.instructions import (
    AskedApproval,
    AttemptInfo,
    Dead,
    DeadRow,
    FailedCall,
    Handover,
    InstructionInfo,
    PromptMessage,
    PromptReport,
    QueueReport,
    QueueRow,
    StepInfo,
)
from protocol.api.kernel import BackendList, BackendRow, HeldAgent, KernelInfo, StatusReport, UsageReport, UsageRow
from protocol.api.messages import Channel, Inbox, InboxRow
from protocol.api.processes import Ps, PsRow
from protocol.api.runs import DiffCommit, DiffFile, DiffReport, DiffStat, RunList, RunReport, RunRow, WorktreeDiff
from protocol.api.timeline import (
    GraphEdge,
    GraphNode,
    LeftOut,
    RunGraph,
    Timeline,
    TimelineBar,
    TimelineLane,
    TimelineMark,
    TimelineMessage,
)
from protocol.api.workflows import WorkflowRow
from protocol.instruction import Usage
from protocol.message import Message
from protocol.tasks import TaskInfo, TaskList
from protocol.voting import BallotInfo, Option, ProposalList, Resolution, Vote

AT = "2026-11-21T10:00:00.000Z"
VOTE = "/spaces/review:main/proposals/p1"


def message(seq: int, text: str, sender: str = "alice", **more: Any) -> Message:
    return Message(seq=seq, kind=more.pop("kind", "said"), space="review:main", sender=sender, text=text, at=AT, **more)


def message_event(seq: int, said: Message) -> dict[str, Any]:
    data = {
        "seq": said.seq, "kind": said.kind, "space": said.space, "from": said.sender, "text": said.text, "at": said.at,
    }  # fmt: skip
    return {
        "type": "message", "seq": seq, "at": AT, "space": said.space, "agent": None, "instruction": None, "data": data,
    }  # fmt: skip


def event(kind: str, seq: int | None = None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "seq": seq, "at": AT, "space": None, "agent": None, "instruction": None, "data": {}, **more}


def ps_row(name: str = "alice", text: str = "reads", **more: Any) -> PsRow:
    row = PsRow(
        name=name, space="review:main", state="running", reason=text, pid=4711, backend="sdk", model=f"mock/{text}",
        step=3, doing=text, last_exit=text, last_event_at=AT,
        status=AgentStatus(task=text, state=None, metadata={text: text}, instruction="i7", at=AT),
    )  # fmt: skip
    return msgspec.structs.replace(row, **more)


def backend_row(text: str, missing: str | None = None) -> BackendRow:
    return BackendRow(
        name=text, title=text, available=missing is None, path=text, version=text, missing=missing, steps="yes",
        resume="yes", permission_prompt="no", budget="weaker", system_prompt="weaker", daemon_check="no", notes=(text,),
    )  # fmt: skip


def report(text: str = "done", **more: Any) -> RunReport:
    made = RunReport(
        id="r12", run="review:main", status="done", exit_code=0, instructions={"done": 2}, duration_seconds=1.25,
        usage=Usage(input_tokens=1200, output_tokens=30),
        messages=(message(1, "go", "system", kind="kickoff"), message(2, text)),
    )  # fmt: skip
    return msgspec.structs.replace(made, **more)


def instruction(name: str = "i7", status: Any = "done", text: str = "the answer", **more: Any) -> InstructionInfo:
    attempts = (AttemptInfo(n=1, epoch=1, started_at=AT, ended_at=AT, outcome="done", exit=text, stderr_tail=text),)
    steps = (StepInfo(n=1, attempt=1, at=AT, failed=(FailedCall(tool=text, why="denied", text=text),)),)
    asked = (AskedApproval(id="a1", tool=text, state="granted", heard=False, requested_at=AT, decided_at=AT),)
    return InstructionInfo(
        id=name, agent="alice", space="dm:alice", status=status, lane="normal", attempts=attempts,
        steps=steps, approvals=asked, usage=Usage(input_tokens=5), text=text,
        handover=Handover(done=text, next=text, open=(text,), files=(text,), at=AT), **more,
    )  # fmt: skip


def timeline(text: str, **more: Any) -> Timeline:
    """A run with ``text`` in each place that an agent, a model or a user may write to."""
    bars = (
        TimelineBar("attempt", AT, None, "i7", None, text, False),
        TimelineBar("tool", AT, None, "i7", 2, text, False),
    )
    mark = TimelineMark(kind="approval", at=AT, id=text, label=text)
    fields: dict[str, Any] = {
        "run": "r12", "space": text, "status": "failed", "report": report(text, messages=(), branches={text: text}),
        "why": text, "since": AT, "until": None, "left_out": LeftOut(2, 1),
        "lanes": (TimelineLane(agent=text, bars=bars, marks=(mark,)), TimelineLane(agent="quiet")),
        "messages": (
            TimelineMessage(seq=1, at=AT, sender=text, to=("quiet",), kind="said", text=text),
            TimelineMessage(seq=2, at=AT, sender="quiet", to=(text, "gone"), kind="said", text=text),
        ),
        **more,
    }  # fmt: skip
    return Timeline(**fields)


def graph(text: str) -> RunGraph:
    edges = (GraphEdge(sender=text, to="quiet", messages=3, mentions=1),)
    return RunGraph(
        run=text, nodes=(GraphNode(name=text, messages=3), GraphNode(name="quiet", messages=0)), edges=edges
    )


def worktree(text: str) -> WorktreeDiff:
    return WorktreeDiff(
        agent=text, state="kept", branch=text, base=text, path=text, stat=DiffStat(files=1, added=1), kept_because=text,
        files=(DiffFile(path=text, added=1, deleted=0),), commits=(DiffCommit(id=text, subject=text),),
        patch=f"@@ -0,0 +1 @@\n+{text}\n", truncated=True,
    )  # fmt: skip


def vote(text: str) -> BallotInfo:
    return BallotInfo(
        id="p1", space="review:main", type="decision", title=text, description=text, resolution=Resolution(quorum=1),
        options=(Option(id="a", label=text, metadata={"note": text}), Option(id="b")), binding=False, creator="alice",
        created_at=AT, expires_at=AT, state="resolved", electors=("alice",), missing=(), counts={"a": 1, "b": 0},
        votes=(Vote(voter="alice", choice="a", reason=text),), winner="a", why="quorum", ended_at=AT,
    )  # fmt: skip


def task(name: str, text: str, **more: Any) -> TaskInfo:
    told = {"state": "done", "blocked_by": (), "blocks": (), "found_in": None, "creator": "alice", "created_at": AT}
    ended = {"holder": None, "instruction": None, "claimed_at": None, "result": text, "reason": text, "ready_at": AT}
    fields: dict[str, Any] = {**told, **ended, "ended_at": AT, "ended_by": "alice", "text": text, "title": text, **more}
    return TaskInfo(id=name, space="review:main", **fields)


def need(text: str = "coder wants to call bash", **fields: Any) -> Need:
    """Something that needs a person, with ``text`` wherever an agent, or a file, could have put it."""
    what: dict[str, Any] = {
        "kind": "approval",
        "id": "a3",
        "agent": "coder",
        "space": "review:main",
        "run": "r1",
        "since": AT,
        **fields,
    }
    actions = (NeedAction(label="approve", command="awk approve a3"), NeedAction(label="deny", command="awk deny a3"))
    defaults: dict[str, Any] = {"blocks": ("i7",), "text": text, "actions": actions}
    return Need(**{**defaults, **what})


def read_answers(text: str) -> dict[str, Any]:
    """An answer for every route that read commands ask, with ``text`` wherever an agent could have put it."""
    queued = QueueRow(id="i8", lane="normal", status="queued", attempt=0, step=0, preempted=0, enqueued_at=AT)
    lost = DeadRow(
        id="i9", agent="alice", space="dm:alice", status="dead", cause=text, attempts=3, text=text, died_at=AT,
        error_class="crash",
    )  # fmt: skip
    listed = AgentRow(name="alice", model=text, backend="sdk", file=text, ephemeral=False, state="idle")
    said = (message(1, text), message(2, "x", text))
    delivered = InboxRow(message_id="m1", seq=1, sender=text, text=text, state="queued")
    held = HeldAgent(name=text, space=text, state="error", reason=text)
    provider = {"name": text, "key_set": True, "base_url": None}
    about = KernelInfo(pid=1, url="http://127.0.0.1:1", version="0", project=text, uptime_seconds=61.0)
    took = UsageRow(
        key=text, usage=Usage(input_tokens=5), instructions=3, failures=1, ended={"done": 1, "failed": 1}, steps=2,
        worked_seconds=1.26, unpriced=1,
    )  # fmt: skip
    ran = RunRow(
        id="r12", run="review:main", mode="run", state="stopped", status=text, exit_code=1, started_at=AT,
        ended_at=None, duration_seconds=1.5, verdict=None, cost_usd=None,
    )  # fmt: skip
    row: dict[str, Any] = {
        "id": "a3", "agent": "coder", "space": "review:main", "tool": text, "input": {text: text}, "reason": text,
        "requested_at": AT, "expires_at": AT, "instruction_id": "i7",
    }  # fmt: skip
    voted = msgspec.structs.replace(vote(text), winner=text, reason=text, assigned={text: ("bob",)})
    fields = dict.fromkeys(("key", "for_", "holder", "check", "creator", "ended_by"), text)
    planned = task("t1", text, files=(text,), **fields)
    runs = WorkflowRow(name="review", tag="main", state="running", members=("alice", text), started_at=AT)
    return {
        "GET /ps": Ps(agents=(ps_row(text=text), ps_row("bob", "", space=None, state="idle", pid=None))),
        "GET /agents": AgentList(agents=(listed,)),
        "GET /dead": Dead(instructions=(lost,)),
        "GET /agents/alice/queue": QueueReport(agent="alice", instructions=(queued,)),
        "GET /agents/alice/inbox": Inbox(agent="alice", space="dm:alice", deliveries=(delivered,)),
        "GET /instructions/i7/prompt": PromptReport(
            id="i7", frozen=True, system=text, messages=(PromptMessage(role="user", text=text),)
        ),
        "GET /instructions/i7": instruction(text=text, cause=text, error_class="crash"),
        "GET /runs/review:main": report(text),
        "GET /runs/review:main/timeline": timeline(text),
        "GET /runs/review:main/graph": graph(text),
        "GET /status": StatusReport(state="up", kernel=about, agents={"idle": 2}, held=(held,), workflows=(runs,),
            broken=(FileError(path=text, line=1, column=2, where="model", message=text),)),
        "GET /spaces/review:main/channel": Channel(space="review:main", messages=said),
        "GET /spaces/dm:alice/channel": Channel(space="dm:alice", messages=(message(3, text),)),
        "GET /spaces/review:main/diff": DiffReport(space="review:main", worktrees=(worktree(text),)),
        "GET /usage": UsageReport(rows=(took,), workflows=(took,), models=(took,), total=took),
        "GET /runs": RunList(runs=(ran,)),
        "GET /providers": {"schema": "awk/providers/1", "providers": [provider]},
        "GET /backends": BackendList(backends=(backend_row(text), backend_row(text, missing=text))),
        "GET /approvals": Pending(approvals=(ApprovalRow(**row),)),
        "GET /approvals/a3": ApprovalInfo(**row, state="open"),
        "GET /proposals": ProposalList(proposals=(voted,)),
        **dict.fromkeys((f"GET {VOTE}", f"POST {VOTE}/vote"), voting.document(voted)),
        "GET /spaces/review:main/tasks": TaskList(tasks=(planned,), total=1),
        "GET /spaces/review:main/tasks/t1": tasks.document(planned),
    }  # fmt: skip


READS = {
    "ps": "GET /ps",
    "ls": "GET /agents",
    "dead": "GET /dead",
    "queue alice": "GET /agents/alice/queue",
    "inbox alice": "GET /agents/alice/inbox",
    "show i7 --prompt": "GET /instructions/i7/prompt",
    "show i7": "GET /instructions/i7",
    "show review": "GET /runs/review:main",
    "show review --timeline": "GET /runs/review:main/timeline",
    "show review --graph dot": "GET /runs/review:main/graph",
    "show review --graph mermaid": "GET /runs/review:main/graph",
    "status": "GET /status",
    "channel @review": "GET /spaces/review:main/channel",
    "peek alice": "GET /spaces/dm:alice/channel",
    "diff alice@review": "GET /spaces/review:main/diff",
    "stats": "GET /usage",
    "runs": "GET /runs",
    "providers": "GET /providers",
    "backends": "GET /backends",
    "pending": "GET /approvals",
    "pending a3": "GET /approvals/a3",
    "proposal list": "GET /proposals",
    "proposal show p1@review": f"GET {VOTE}",
    "proposal vote p1@review a": f"POST {VOTE}/vote",
    "task list @review": "GET /spaces/review:main/tasks",
    "task graph @review": "GET /spaces/review:main/tasks",
    "task show @review t1": "GET /spaces/review:main/tasks/t1",
}
"""Commands, and the route whose answer each shows."""
