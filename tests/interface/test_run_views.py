"""``awk show`` of a run as a timeline, as a graph and as a page."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interface.cli.output import Screen
from interface.cli.run_page import run_page
from interface.cli.timeline_view import GRAPHS, graph_lines, timeline_lines
from protocol.api.timeline import Timeline, TimelineBar, TimelineLane, TimelineMark, TimelineMessage
from tests.browser.payloads import payloads
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble
from tests.interface.samples import graph, read_answers, timeline

TEXTS = (*payloads(), *(one.encode("utf-8", "replace").decode() for one in HOSTILE))
START = "2026-11-21T10:00:00.000Z"
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "td", "th", "p", "svg", "line", "text",
    "rect", "path",
}  # fmt: skip
ATTRIBUTES = frozenset((
    "lang", "charset", "http-equiv", "content", "name", "viewbox", "role", "aria-label", "class", "x", "y", "x1", "x2",
    "y1", "y2", "d", "width", "height",
))  # fmt: skip


def at(seconds: int) -> str:
    return f"2026-11-21T10:{seconds // 60:02}:{seconds % 60:02}.000Z"


def bar(kind: Any, first: int, last: int | None, **more: Any) -> TimelineBar:
    until = None if last is None else at(last)
    return TimelineBar(kind, at(first), until, "i7", more.get("step"), "", bool(more.get("failed")))


def a_run(**more: Any) -> Timeline:
    """Seventy seconds, a column of a terminal each: alice waits, works and fails; bob gets a message and is quiet."""
    bars = (
        bar("wait", 0, 9), bar("attempt", 10, 49, failed=True), bar("model", 12, 20, step=1),
        bar("tool", 21, 30, step=2), bar("tool", 31, 35, step=3, failed=True),
    )  # fmt: skip
    mark = TimelineMark(kind="vote", at=at(60), id="p1", label="yes")
    also = TimelineMark(kind="vote", at=at(60), id="p2", label="no")
    said = TimelineMessage(seq=1, at=at(10), sender="user", to=("bob",), kind="said", text="go")
    fields = {
        "until": at(70),
        "lanes": (TimelineLane(agent="alice", bars=bars, marks=(mark, also)), TimelineLane(agent="bob")),
    }
    return timeline("x", **{**fields, "messages": (said,), **more})


def test_a_timeline_has_a_row_of_characters_per_agent() -> None:
    lines = timeline_lines(a_run(), Screen())
    assert lines[2] == "alice    ..........--#########++++++++++xxxxx-------------x          V"
    assert lines[3].strip() == "bob"
    assert lines[4] == "messages           1"
    assert any(re.search(r"alice +vote +p1 +yes", line) for line in lines)
    assert lines[-1] == "older and not shown: 2 bars, 1 messages"


@pytest.mark.parametrize("columns", [20, 80, 133])
def test_a_timeline_is_as_wide_as_the_terminal_but_not_less_than_80_columns(columns: int) -> None:
    lines = timeline_lines(
        a_run(lanes=(TimelineLane(agent="a" * 90, bars=(bar("attempt", 0, None),)),)), Screen(False, columns)
    )
    assert max(map(len, lines[:4])) == max(columns, 80)


def test_states_have_colours_on_a_terminal() -> None:
    shown = timeline_lines(a_run(), Screen(colour=True))[2]
    assert "\x1b[33m..........\x1b[0m" in shown and "\x1b[31mxxxxx\x1b[0m" in shown


class Reader(HTMLParser):
    """What a browser makes of a page: its elements, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.said.append(data)


@pytest.mark.promise("P16")
def test_no_text_of_an_agent_becomes_markup_of_the_page() -> None:
    assert len(TEXTS) >= 300
    for text in TEXTS:
        reader = Reader()
        reader.feed(page := run_page(timeline(text), [text]))
        assert reader.elements <= ELEMENTS
        assert {name for name, _ in reader.attributes} <= ATTRIBUTES
        assert obeyed(page) == []
        assert "url(" not in "".join(str(value) for name, value in reader.attributes if name != "content")
        assert "default-src 'none'; style-src 'unsafe-inline'" in page


DOT = re.compile(r"digraph S \{|  n\d+ \[label=S\];|  n\d+ -> n\d+ \[label=S\];|\}".replace("S", r'"(?:[^"\\]|\\.)*"'))
MERMAID = re.compile(r'flowchart LR|  n\d+\["S"\]|  n\d+ -->\|"S"\| n\d+'.replace("S", r"(?:[\w .,:()-]|#\d+;)*"))


@pytest.mark.promise("P16")
def test_no_name_ends_a_label_of_a_graph() -> None:
    for text in TEXTS:
        for name, grammar in (("dot", DOT), ("mermaid", MERMAID)):
            found = graph_lines(graph(text), Screen(), GRAPHS[name])
            assert all(grammar.fullmatch(line) for line in found), found
            assert len(found) in (4, 5)


def test_a_graph_names_agents_with_their_messages_and_mentions() -> None:
    assert graph_lines(graph('a"b'), Screen(), GRAPHS["dot"]) == [
        'digraph "a\\"b" {', '  n0 [label="a\\"b (3)"];', '  n1 [label="quiet (0)"];',
        '  n0 -> n1 [label="3, 1 mentioned"];', "}",
    ]  # fmt: skip
    assert graph_lines(graph("alice"), Screen(), GRAPHS["mermaid"])[1:] == [
        '  n0["alice (3)"]', '  n1["quiet (0)"]', '  n0 -->|"3, 1 mentioned"| n1',
    ]  # fmt: skip


def test_a_page_is_written_once_and_replaced_only_by_force(cli: Cli, kernel: KernelDouble, tmp_path: Path) -> None:
    kernel.answers |= read_answers("hello")
    path = tmp_path / "project/run.html"
    written = cli("show", "review", "--html", "run.html", "--json")
    assert written.json() == {
        "schema": "awk/run-page/1", "file": "run.html", "run": "r12", "bytes": path.stat().st_size,
    }  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    kernel.answers["GET /runs/review:main/timeline"] = msgspec.json.decode(msgspec.json.encode(timeline("other")))
    refused = cli("show", "review", "--html", "run.html")
    assert "run.html already exists" in refused.err and "--force" in refused.err
    assert path.read_bytes() == before
    assert cli("show", "review", "--html", "run.html", "--force").code == 0
    assert b"other" in path.read_bytes()
    assert not list(path.parent.glob("*.part"))
    assert "cannot be written" in cli("show", "review", "--html", "missing/run.html").err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("i7 --timeline", "--timeline requires a run"),
        ("i7 --html x", "--html requires a run"),
        ("review --steps", "--steps requires an instruction"),
        ("review --timeline --graph dot", "--timeline cannot be combined with --graph"),
        ("review --force", "--force requires --html"),
    ],
)
def test_views_that_do_not_fit_are_refused(cli: Cli, kernel: KernelDouble, words: str, text: str) -> None:
    refused = cli("show", *words.split())
    assert (refused.code, kernel.asked) == (2, [])
    assert text in refused.err
