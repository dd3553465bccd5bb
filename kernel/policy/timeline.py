"""Timeline of a run: bars of its instructions, the reason of its failure, and the graph of its messages. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kernel.policy.run_completion import BY_REASON
from kernel.policy.traces import IN_ORDER
from protocol.api.timeline import BarKind, GraphEdge, GraphNode
from protocol.instruction import Status, WaitReason
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


class Bar(NamedTuple):
    """Period in the lane of an agent; see protocol.api.timeline.TimelineBar."""

    kind: BarKind
    at_ms: int
    until_ms: int | None
    instruction: int
    step: int | None
    label: str
    failed: bool


def bars_of(work: WorkRow, attempts: Sequence[AttemptRow], steps: Sequence[StepRow]) -> list[Bar]:
    """Return the bars of one instruction; ``attempts`` and ``steps`` are in order."""
    bars = [
        Bar("attempt", one.started_ms, one.ended_ms, work.number, None, one.outcome or "", _is_failure(one))
        for one in attempts
    ]
    bars += _waits(work, attempts)
    started = {one.epoch: one.started_ms for one in attempts}
    ends = dict(started)
    for step in steps:
        first_ms = started.get(step.epoch, 0)
        since_ms = ends.get(step.epoch, step.at_ms) if step.duration_ms is None else step.at_ms - step.duration_ms
        ends[step.epoch] = step.at_ms
        kind: BarKind = "model" if step.tool is None else "tool"
        label = (work.model if step.tool is None else step.tool)[:LABEL_CHARACTERS]
        start_ms = min(max(first_ms, since_ms), step.at_ms)
        bars.append(Bar(kind, start_ms, step.at_ms, work.number, step.k + 1, label, step.failed))
    return bars


def _is_failure(attempt: AttemptRow) -> bool:
    return attempt.outcome is not None and attempt.outcome not in IN_ORDER


def _waits(work: WorkRow, attempts: Sequence[AttemptRow]) -> list[Bar]:
    """Return the waits before, between and after the attempts of ``work``."""
    waits: list[Bar] = []
    since_ms: int | None = work.enqueued_ms
    label = "queued"
    for one in attempts:
        if since_ms is not None and one.started_ms - since_ms >= SHORTEST_WAIT_MS:
            waits.append(Bar("wait", since_ms, one.started_ms, work.number, None, label, False))
        since_ms, label = one.ended_ms, one.outcome or "queued"
    if since_ms is not None and (work.ended_ms is None or work.ended_ms - since_ms >= SHORTEST_WAIT_MS):
        label = label if work.ended_ms is not None else work.waits_for or "queued"
        waits.append(Bar("wait", since_ms, work.ended_ms, work.number, None, label, False))
    return waits


def newest(bars: Sequence[Bar], limit: int) -> list[Bar]:
    """Return at most ``limit`` bars, oldest first. Attempts and waits precede calls, and the newest are kept."""
    kept = sorted(bars, key=lambda bar: (bar.step is None, bar.at_ms))[-limit:]
    return sorted(kept, key=lambda bar: (bar.at_ms, bar.step or 0))


_WHY: Final[Mapping[str, str]] = {
    "timeout": "the time limit of the run was reached",
    "rejected": "the vote decided against it",
    "cancelled": "it was stopped",
}
_GRAVITY: Final = ("failed", "dead", "waiting", "incomplete")


def why_of(status: str, limited_by: str | None, works: Iterable[WorkRow]) -> str | None:
    """Return the reason that a run is blocked, incomplete or failed; None if nothing prevents its success."""
    if status == "done" or (status == "running" and limited_by is None):
        return None
    if status in _WHY:
        return _WHY[status]
    if limited_by is not None:
        return f"a limit of the run was reached: {limited_by}"
    worst = sorted((one for one in works if one.state in _GRAVITY), key=lambda one: _GRAVITY.index(one.state))
    if not worst:
        return None
    first = worst[0]
    if first.state == "waiting":
        return BY_REASON[first.waits_for].reason
    more = sum(one.state == first.state for one in worst) - 1
    cause = f": {first.cause}" if first.cause else ""
    others = f" ({more} more like it)" if more else ""
    return f"{instruction_id(first.number)} of {first.name} is {first.state}{cause}{others}"


class Said(NamedTuple):
    """Number ``n`` of messages with the same sender, recipients (separated by blanks) and, if it has a mention, text
    in lower case."""

    sender: str
    addressed: str
    mentions: str
    n: int


def graph_of(said: Iterable[Said]) -> tuple[tuple[GraphNode, ...], tuple[GraphEdge, ...]]:
    """Return the nodes and edges of the messages ``said``, the most messages first."""
    sent, edges, mentions = Counter[str](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for one in said:
        sent[one.sender] += one.n
        for name in set(one.addressed.split()):
            sent[name] += 0
            edges[one.sender, name] += one.n
            mentions[one.sender, name] += one.n if f"@{name.lower()}" in one.mentions else 0
    nodes = tuple(GraphNode(name=name, messages=n) for name, n in sorted(sent.items(), key=lambda one: (-one[1], one)))
    return nodes, tuple(
        GraphEdge(sender=pair[0], to=pair[1], messages=n, mentions=mentions[pair])
        for pair, n in sorted(edges.items(), key=lambda one: (-one[1], one))
    )
