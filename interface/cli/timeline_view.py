"""Timeline of a run as text: a lane of characters per agent; and the graph of its messages for Graphviz or Mermaid.

Names and texts of agents are escaped: they can neither move the cursor, nor end a label.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from interface.cli.output import DEFAULT_WIDTH, Screen, cut, one_line, table, width
from interface.cli.process_table import seconds_between
from protocol.api.timeline import BarKind, RunGraph, Timeline

LONGEST_NAME: Final = 20
MARKS: Final = 40
"""Number of the newest marks that are listed."""
CHARACTERS: Final[Mapping[BarKind, str]] = {"wait": ".", "attempt": "-", "model": "#", "tool": "+"}
"""Characters of bars; a later one covers an earlier one."""
FAILED: Final = "x"
_STYLES: Final = {".": "yellow", "-": "dim", "#": "green", "+": "cyan", FAILED: "red", **dict.fromkeys("VMTA", "bold")}
_LEGEND: Final = "- attempt  # model  + tool  . wait  x failed  V vote  M merge  T task  A approval"


def scale(found: Timeline, size: float) -> Callable[[str | None], float]:
    """Return a function that maps a time to a position from 0 to ``size``; None is the end, as far as it is known."""
    bars = [bar for lane in found.lanes for bar in lane.bars]
    times = [found.since, *(bar.until or bar.at for bar in bars), *(one.at for one in found.messages)]
    end, start = found.until or max(times), datetime.fromisoformat(found.since).timestamp()
    length = max(seconds_between(start, end) or 0.0, 0.001)

    def place(at: str | None) -> float:
        part = 1.0 if at is None else (seconds_between(start, at) or 0.0) / length
        return min(max(part, 0.0), 1.0) * size

    return place


def timeline_lines(found: Timeline, screen: Screen) -> list[str]:
    """Return the lanes, a legend, the reason of a failure and the marks, at least 80 columns wide."""
    columns = max(screen.width or DEFAULT_WIDTH, DEFAULT_WIDTH)
    names = {lane.agent: cut(one_line(lane.agent), LONGEST_NAME) for lane in found.lanes}
    margin = max(map(width, (*names.values(), "messages"))) + 1
    size = columns - margin
    place = scale(found, size - 1)
    status = screen.style(found.status, {"done": "green", "running": "cyan"}.get(found.status, "red"))
    took = f"{found.report.duration_seconds:.1f} s"
    lines = [f"{one_line(found.run)} {one_line(found.space)} {status} in {took}, from {one_line(found.since)}"]
    lines += [f"why: {one_line(found.why)}"] if found.why else []
    for lane in found.lanes:
        cells = [" "] * size
        for bar in sorted(lane.bars, key=lambda bar: list(CHARACTERS).index(bar.kind)):
            first, last = round(place(bar.at)), round(place(bar.until))
            character = FAILED if bar.failed and bar.kind != "attempt" else CHARACTERS[bar.kind]
            cells[first : last + 1] = character * (last + 1 - first)
            if bar.failed:
                cells[last] = FAILED
        for mark in lane.marks:
            cells[round(place(mark.at))] = mark.kind[0].upper()
        name = names[lane.agent]
        runs = ((one, "".join(same)) for one, same in groupby("".join(cells).rstrip()))
        drawn = "".join(screen.style(same, _STYLES[one]) if one in _STYLES else same for one, same in runs)
        lines.append(name + " " * (margin - width(name)) + drawn)
    counts = [0] * size
    for one in found.messages:
        counts[round(place(one.at))] += 1
    said = ["*" if count > 9 else str(count or " ") for count in counts]
    lines += ["messages".ljust(margin) + "".join(said).rstrip(), "", _LEGEND]
    marks = sorted([one.at, lane.agent, one.kind, one.id, one.label] for lane in found.lanes for one in lane.marks)
    lines += ["", *table(["AT", "AGENT", "MARK", "ID", "WHAT"], marks[-MARKS:], screen)] if marks else []
    left = found.left_out
    older = f"older and not shown: {left.bars:,} bars, {left.messages:,} messages"
    return [*lines, older] if left.bars or left.messages else lines


class GraphFormat(NamedTuple):
    """Notation of graphs: an escape for texts, templates of lines, and the last lines."""

    escape: Callable[[str], str]
    first: str
    node: str
    edge: str
    last: tuple[str, ...] = ()


def _dot(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def _mermaid(text: str) -> str:
    return re.sub(r"[^\w .,:()-]", lambda found: f"#{ord(found[0])};", one_line(text))


GRAPHS: Final[Mapping[str, GraphFormat]] = {
    "dot": GraphFormat(_dot, 'digraph "{}" {{', '  {} [label="{}"];', '  {} -> {} [label="{}"];', ("}",)),
    "mermaid": GraphFormat(_mermaid, "flowchart LR", '  {}["{}"]', '  {0} -->|"{2}"| {1}'),
}


def graph_lines(graph: RunGraph, _screen: Screen, form: GraphFormat) -> list[str]:
    """Return the graph of messages for Graphviz (dot) or as a Mermaid flowchart."""
    ids = {node.name: f"n{place}" for place, node in enumerate(graph.nodes)}
    lines = [form.first.format(form.escape(graph.run))]
    lines += [form.node.format(ids[one.name], form.escape(f"{one.name} ({one.messages})")) for one in graph.nodes]
    for one in graph.edges:
        count = f"{one.messages}, {one.mentions} mentioned" if one.mentions else str(one.messages)
        lines.append(form.edge.format(ids[one.sender], ids[one.to], form.escape(count)))
    return [*lines, *form.last]
