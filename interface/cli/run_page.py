"""Page of a run in one HTML file: lanes as SVG, marks and messages. It contains no script and loads nothing.

All texts are escaped, and the page's content policy allows only its own style.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from html import escape as html_escape
from typing import Final

from interface.cli.context import Context
from interface.cli.output import escape, one_line
from interface.cli.timeline_view import scale
from interface.failure import Failure
from osfiles.atomic_write import replacing
from protocol.api.timeline import Timeline
from protocol.text import encode_json

WIDTH: Final = 1000
MARGIN: Final = 150
ROW: Final = 26
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:14px system-ui,sans-serif;margin:2em;max-width:75em}"
    "td,th{text-align:left;vertical-align:top;padding:.2em 1em .2em 0;overflow-wrap:anywhere}svg{width:100%}"
    "text{font-size:12px;fill:CanvasText}.attempt{fill:#8a8f98}.model{fill:#2f855a}.tool{fill:#2b6cb0}"
    ".wait{fill:#d69e2e}.failed{fill:#c53030}.mark{fill:#6b46c1}.said{stroke:#8a8f98;opacity:.5}"
)
_HEIGHTS: Final = {"wait": 4, "attempt": 8, "model": 16, "tool": 16}


def write_run_page(context: Context, found: Timeline, facts: Sequence[str]) -> bytes:
    """Write the page of a run to ``--html`` atomically, readable only by its owner. Return a document that describes
    the file. Raises Failure."""
    name: str = context.args.html
    body = run_page(found, facts).encode()
    try:
        with replacing(os.path.join(context.cwd, name), new=not context.args.force) as file:
            file.write(body)
    except FileExistsError as error:
        hint = "use another name, or --force to replace it"
        raise Failure("already_exists", f"{one_line(name)} already exists", hint) from error
    except OSError as error:
        raise Failure("failed", f"{one_line(name)} cannot be written: {error.strerror or error}") from error
    return encode_json({"schema": "awk/run-page/1", "file": name, "run": found.run, "bytes": len(body)})


def run_page(found: Timeline, facts: Sequence[str]) -> str:
    """Return the page of a run; ``facts`` precede its timeline."""
    left = found.left_out
    marks = sorted((mark.at, lane.agent, mark.kind, mark.id, mark.label) for lane in found.lanes for mark in lane.marks)
    said = [(one.at, one.sender, " ".join(one.to), one.kind, one.text) for one in found.messages]
    title = _text(f"{found.run} {found.space}")
    older = f"<p>Older and not shown: {left.bars} bars, {left.messages} messages.</p>"
    parts = (
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f'<meta name="viewport" content="width=device-width"><title>{title}</title><style>{_STYLE}</style></head>',
        f"<body><h1>{title}</h1>",
        *(f"<p>{_text(fact)}</p>" for fact in (*facts, f"{found.since} to {found.until or 'now'}", found.why or "")),
        *_drawing(found),
        "<p>Bars: model green, tool blue, attempt grey, wait yellow, failed red; triangles are marks.</p>",
        *([older] if left.bars or left.messages else []),
        *(["<h2>Marks</h2>", _table(("At", "Agent", "Mark", "Id", "What"), marks)] if marks else []),
        "<h2>Messages</h2>",
        _table(("At", "From", "To", "Kind", "Text"), said),
        "</body></html>",
    )
    return "\n".join(parts) + "\n"


def _text(text: str) -> str:
    return html_escape(escape(text))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "\n".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _drawing(found: Timeline) -> Iterator[str]:
    """Yield the SVG: a row per agent with bars and marks, and a line per message from its sender to each recipient."""
    place, rows = scale(found, WIDTH - MARGIN), {lane.agent: place * ROW for place, lane in enumerate(found.lanes)}
    yield f'<svg viewBox="0 0 {WIDTH} {max(len(rows), 1) * ROW}" role="img" aria-label="Timeline">'
    for one in found.messages:
        for name in (one.sender in rows) * one.to:
            x, ends = MARGIN + place(one.at), (rows[one.sender] + ROW // 2, rows.get(name, 0) + ROW // 2)
            yield f'<line class="said" x1="{x:.1f}" x2="{x:.1f}" y1="{ends[0]}" y2="{ends[1]}"/>'
    for lane in found.lanes:
        top = rows[lane.agent]
        yield f'<text x="0" y="{top + 17}">{_text(lane.agent[:22])}<title>{_text(lane.agent)}</title></text>'
        for bar in lane.bars:
            x, height = MARGIN + place(bar.at), _HEIGHTS[bar.kind]
            size, step = max(MARGIN + place(bar.until) - x, 1), "" if bar.step is None else f" #{bar.step}"
            title = f"{bar.instruction}{step} {bar.kind} {bar.label}: {bar.at} to {bar.until or 'now'}"
            yield (
                f'<rect class="{"failed" if bar.failed else bar.kind}" x="{x:.1f}" y="{top + (ROW - height) // 2}" '
                f'width="{size:.1f}" height="{height}"><title>{_text(title)}</title></rect>'
            )
        for mark in lane.marks:
            x = MARGIN + place(mark.at)
            yield f'<path class="mark" d="M{x:.1f} {top + 8}l4 -8h-8z"><title>{_text(mark.label)}</title></path>'
    yield "</svg>"
