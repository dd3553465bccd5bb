"""Timeline of a run: bars of its instructions, the reason of its failure, and the graph of its messages. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kernel.policy.run_completion import BY_REASON
from kernel.policy.traces import IN_ORDER
from protocol.api.timeline import BarKind, GraphEdge, GraphNode, TimelineBar
from protocol.instruction import Status, Usage, WaitReason
from protocol.names import instruction_id

SHORTEST_WAIT_MS: Final = 100
"""Shorter waits are not displayed: every attempt starts some milliseconds after its instruction."""
LABEL_CHARACTERS: Final = 120


class WorkRow(NamedTuple):
    """Instruction of a run."""

    number: int
    name: str
    state: Status
    waits_for: WaitReason | None
    cause: str | None
    model: str
    enqueued_ms: int
    ended_ms: int | None


class AttemptRow(NamedTuple):
    """Attempt of an instruction."""

    instruction: int
    epoch: int
    started_ms: int
    ended_ms: int | None
    outcome: str | None


class StepRow(NamedTuple):
    """Completed model call (``tool`` is None) or tool call."""

    instruction: int
    epoch: int
    k: int
    at_ms: int
    duration_ms: int | None
    tool: str | None
    failed: bool
    usage: Usage | None


def bars_of(
    work: WorkRow, attempts: Sequence[AttemptRow], steps: Iterable[StepRow], time: Callable[[int], str]
) -> Iterator[TimelineBar]:
    """Yield the bars of one instruction; ``attempts`` and ``steps`` are in order, and ``time`` formats milliseconds."""
    name, label = instruction_id(work.number), "queued"
    since: int | None = work.enqueued_ms
    for one in attempts:
        if since is not None and one.started_ms - since >= SHORTEST_WAIT_MS:
            yield TimelineBar("wait", time(since), time(one.started_ms), name, None, label, False)
        since, label = one.ended_ms, one.outcome or "queued"
        until = None if since is None else time(since)
        failed = one.outcome not in (None, *IN_ORDER)
        yield TimelineBar("attempt", time(one.started_ms), until, name, None, one.outcome or "", failed)
    if since is not None and work.ended_ms is None:
        yield TimelineBar("wait", time(since), None, name, None, work.waits_for or "queued", False)
    elif since is not None and work.ended_ms is not None and work.ended_ms - since >= SHORTEST_WAIT_MS:
        yield TimelineBar("wait", time(since), time(work.ended_ms), name, None, label, False)
    started = {one.epoch: one.started_ms for one in attempts}
    ends = dict(started)
    for step in steps:
        begun = ends.get(step.epoch, step.at_ms) if step.duration_ms is None else step.at_ms - step.duration_ms
        begun = min(max(started.get(step.epoch, 0), begun), step.at_ms)
        ends[step.epoch] = step.at_ms
        kind: BarKind = "model" if step.tool is None else "tool"
        label = (step.tool or work.model)[:LABEL_CHARACTERS]
        yield TimelineBar(kind, time(begun), time(step.at_ms), name, step.k + 1, label, step.failed)


def newest(bars: Iterable[TimelineBar], limit: int) -> list[TimelineBar]:
    """Return at most ``limit`` bars, oldest first. Calls are left out before attempts and waits, and old ones first."""
    kept = sorted(bars, key=lambda bar: (bar.step is None, bar.at))[-limit:]
    return sorted(kept, key=lambda bar: (bar.at, bar.step or 0))


_WHY: Final[Mapping[str, str]] = {
    "timeout": "the time limit of the run was reached",
    "rejected": "the vote rejected the result",
    "cancelled": "the run was stopped",
}
_GRAVITY: Final = ("failed", "dead", "waiting", "incomplete")


def why_of(status: str, limited_by: str | None, works: Iterable[WorkRow]) -> str | None:
    """Return the reason that a run is blocked, incomplete or failed; None if nothing prevents its success."""
    if status in ("done", *_WHY) or (status == "running" and limited_by is None):
        return _WHY.get(status)
    if limited_by is not None:
        return f"the run reached a limit: {limited_by}"
    worst = sorted((one for one in works if one.state in _GRAVITY), key=lambda one: _GRAVITY.index(one.state))
    if not worst or worst[0].state == "waiting":
        return BY_REASON[worst[0].waits_for].reason if worst else None
    first, others = worst[0], sum(one.state == worst[0].state for one in worst) - 1
    cause = f": {first.cause}" if first.cause else ""
    return f"{instruction_id(first.number)} of {first.name} is {first.state}{cause}{f'; {others} more' * bool(others)}"


class SentMessage(NamedTuple):
    """Message with its recipients, separated by blanks."""

    sender: str
    addressed: str
    text: str


def graph_of(said: Iterable[SentMessage]) -> tuple[tuple[GraphNode, ...], tuple[GraphEdge, ...]]:
    """Return the nodes and edges of the messages ``said``, the most messages first."""
    sent, edges, mentions = Counter[str](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    alike = Counter((one.sender, one.addressed, one.text.lower() if "@" in one.text else "") for one in said)
    for (sender, addressed, text), n in alike.items():
        sent[sender] += n
        for name in set(addressed.split()):
            sent[name] += 0
            edges[sender, name] += n
            mentions[sender, name] += n * (f"@{name.lower()}" in text)
    nodes = (GraphNode(name, n) for name, n in sorted(sent.items(), key=lambda one: (-one[1], one)))
    ordered = sorted(edges.items(), key=lambda one: (-one[1], one))
    return tuple(nodes), tuple(GraphEdge(*pair, n, mentions[pair]) for pair, n in ordered)
