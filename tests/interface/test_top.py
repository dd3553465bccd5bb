"""top: the live table, drawn for 200 and for 60 columns, and watched on a real terminal."""

import fcntl
import io
import json
import os
import pty
import queue
import re
import struct
import subprocess
import termios
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from rich.console import Console

from interface.cli.commands.live_table import NewNeeds, alert, forget_keys, keys_in, process_table
from interface.cli.commands.top_tabs import STYLES, TABS
from interface.cli.output import width
from interface.cli.process_table import COLUMNS, age, cells, columns_for, fitting, size
from protocol.api.agents import AgentStatus
from protocol.api.approvals import Need, NeedList
from protocol.api.instructions import QueueReport
from protocol.api.processes import Ps, PsRow, Queue
from protocol.api.runs import DiffStat
from protocol.instruction import Usage
from tests.interface.conftest import AWK, Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble, Stream, sse
from tests.interface.samples import event, need, ps_row, read_answers
from tests.interface.top_screens import (
    CALL,
    DOCUMENTS,
    OVERVIEW,
    PICTURE,
    SCREENS,
    picture,
    screens,
    steps,
    text_of,
    view_of,
)

NOW = 1_795_255_242.0
"""2026-11-21T10:00:42Z: 42 s after the events of the samples."""
ROWS = (
    ps_row(
        "reviewer", "", model="mock/reviewer", doing="channel_send", reason=None, last_exit=None, cpu_percent=12.34,
        age_s=1200.0, step_age_s=420.0, silent_s=360.0,
        diff=DiffStat(files=2, added=9, deleted=3), rss_bytes=8_388_608, queue=Queue(normal=2),
        usage=Usage(input_tokens=1200, output_tokens=34, cost_usd=0.0123),
        status=AgentStatus(task="PR 12", state="reviewing", metadata=None, instruction="i7", at=""),
    ),
    ps_row(
        "coder", "", model="mock/coder", doing="", state="backoff", reason=None, until="2026-11-21T10:00:46Z", pid=None,
        last_exit="SIGKILL", restarts=3, space="dm:coder",
    ),
)  # fmt: skip


def _drawn(columns: int, rows: tuple[PsRow, ...] = ROWS) -> list[str]:
    console = Console(width=columns, file=io.StringIO(), color_system=None)
    console.print(process_table(rows, columns, NOW))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_wide_window_shows_every_column() -> None:
    """Its columns at a width of 220."""
    expected = """
NAME                  STATE       AGE  DOING            QUEUE   COST$  SILENT  STEP  STATUS             PID
reviewer@review:main  running     20m  channel_send 7m  0/2/0  0.0123      6m     3  reviewing: PR 12  4711
coder                 backoff 4s    -  -                0/0/0       -       -     3  -                    -
""".strip().splitlines()
    rest = [
        "  BACKEND  MODEL          RESTARTS  EXIT     CPU%   RSS   TOKENS   DIFF  TASKS  LAST",
        "  sdk      mock/reviewer         0  -        12.3  8.0M  1200/34  +9/-3  -       42s",
        "  sdk      mock/coder            3  SIGKILL   0.0     -      0/0      -  -       42s",
    ]
    assert _drawn(220) == [left + right for left, right in zip(expected, rest, strict=True)]


def test_a_narrow_window_loses_columns_from_the_right() -> None:
    """At 72: what fits, whole; never a broken line."""
    assert _drawn(72) == [
        "NAME                  STATE       AGE  DOING            QUEUE   COST$",
        "reviewer@review:main  running     20m  channel_send 7m  0/2/0  0.0123",
        "coder                 backoff 4s    -  -                0/0/0       -",
    ]


def test_the_screens_are_what_they_were() -> None:
    """At 60 columns and at 100; what an agent wrote is behind a bar, and no line is longer than the window."""
    shown = "\n".join(screens())
    assert shown == SCREENS.read_text("utf-8")
    assert obeyed(shown) == []
    for part in shown.split("== ")[1:]:
        head, *lines = part.splitlines()
        assert max(map(width, lines)) <= int(head.split()[-2])


def test_the_picture_in_the_docs_is_of_this_version() -> None:
    assert picture() == PICTURE.read_text("utf-8")


def test_a_call_is_approved_once_all_of_it_was_shown_and_asked_once() -> None:
    view, kernel = view_of(60, "a", "y", rows=8)
    assert (kernel.posted, view.question is None) == ([], False)
    for _ in range(20):
        if view.is_read():
            break
        view.press("y", kernel)  # type: ignore[arg-type]
    view.press("y", kernel)  # type: ignore[arg-type]
    assert kernel.posted == ["/approvals/a3/approve"]
    assert (view.view, view.said) == ("table", "a3 was granted")
    for keys in (("a", "x"), ("a", "escape"), ("n", "q"), ("n", "n"), ("c", "x")):
        assert view_of(60, *keys)[1].posted == []
    assert view_of(60, "a", "n")[1].posted == ["/approvals/a3/deny"]
    assert view_of(100, "n", "y")[1].posted == ["/approvals/a3/deny"]
    assert view_of(100, "c", "y")[1].posted == ["/instructions/i7/cancel"]
    assert view_of(100, "p")[1].posted == ["/agents/coder@review:main/pause"]


def test_a_call_is_granted_for_good_by_a_and_y_and_only_this_very_call() -> None:
    """a asks once more, so that a key held too long grants nothing; with a * there is no a (decision 13.11)."""
    view, kernel = view_of(60, "a", "a")
    assert (kernel.posted, view.footer()) == ([], "Approve a3? This very call from now on, too? [y/N]")
    view.press("y", kernel)  # type: ignore[arg-type]
    assert kernel.posted == ["/approvals/a3/approve"]
    assert kernel.bodies == [{"always": json.dumps(CALL["input"], ensure_ascii=False, separators=(",", ":"))}]
    assert view_of(60, "a", "a", "a", "a", "a")[1].posted == []
    view, kernel = view_of(60, "a", call={"command": "rm *"})
    assert "always" not in view.footer()
    view.press("a", kernel)  # type: ignore[arg-type]
    assert (kernel.posted, view.view) == ([], "table")


def test_the_change_of_an_edit_is_shown_above_the_call() -> None:
    edit = {"path": "notes.md", "old_string": "one\ntwo\n", "new_string": "one\nthree\n"}
    view, kernel = view_of(60, "a", rows=9, call=edit)
    assert "d diff" in view.footer()
    view.press("d", kernel)  # type: ignore[arg-type]
    changed = ["  | --- before", "  | +++ after", "  | @@ -1,2 +1,2 @@", "  |  one", "  | -two", "  | +three"]
    assert (view.page(), view.lines[7]) == (changed, "  | {")
    assert view.footer() == "Approve a3? [y, down: more of it, n no, esc later]"
    view.press("y", kernel)  # type: ignore[arg-type]
    assert (kernel.posted, view.is_read()) == ([], True)
    view.press("y", kernel)  # type: ignore[arg-type]
    assert kernel.posted == ["/approvals/a3/approve"]


@pytest.mark.promise("P16")
def test_what_a_narrower_window_cuts_off_is_not_granted() -> None:
    view, kernel = view_of(200, "a", rows=9)
    assert view.is_read()
    view._context.out.columns = 30  # type: ignore[attr-defined]
    view.fit(9)
    assert (view.is_read(), view.first, max(map(width, view.lines)) <= 30) == (False, 0, True)
    view.press("y", kernel)  # type: ignore[arg-type]
    assert (kernel.posted, view.question is None) == ([], False)
    before = view.first
    view.press("pagedown", kernel)  # type: ignore[arg-type]
    assert view.first == before + len(view.page())


def test_an_answer_that_was_typed_before_its_question_is_none() -> None:
    signals: queue.Queue[str] = queue.Queue()
    for signal in ("key:a", "changed", "key:y", "gone"):
        signals.put(signal)
    forget_keys(signals)
    assert [signals.get_nowait() for _ in range(signals.qsize())] == ["changed", "gone"]


def test_the_work_of_an_agent_is_its_last_steps() -> None:
    view, kernel = view_of(60, "enter", rows=200)
    work = view.lines[: view.lines.index("")]
    assert work[0] == "29 earlier: awk show i7 --steps"
    heads = [line for line in work if line.startswith("#")]
    assert [line.split()[0] for line in heads] == [f"#{number}" for number in range(30, 40)]
    assert work[-2].startswith("asked for bash  (its outcome is not known)") and work[-1].startswith("    > {")
    assert len(work) == 1 + 5 * (1 + 2) + 5 * (1 + 1) + 2, "a line for each thing, however long it is"
    assert [asked.get("after") for asked in kernel.asked] == [None, "29"]
    kernel.entries = []
    view.press("enter", kernel)  # type: ignore[arg-type]
    assert view.lines[0] == "nothing was done yet"


def test_the_last_steps_are_found_where_numbers_are_left_out() -> None:
    view, kernel = view_of(60)
    kernel.entries = [{**entry, "n": 1000 + 2 * entry["n"]} for entry in kernel.entries]
    view.press("enter", kernel)  # type: ignore[arg-type]
    heads = [line.split()[0] for line in view.lines if line.startswith("#")]
    assert heads == [f"#{1000 + 2 * number}" for number in range(30, 40)]


@pytest.mark.promise("P16")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_step_of_an_agent_moves_the_cursor_or_passes_for_a_line_of_ours(text: str) -> None:
    safe = text.encode("utf-8", "replace").decode()
    view, kernel = view_of(60)
    kernel.entries = steps(3, f"#99{safe}\n#99  forged", tool=f"#99{safe}")
    view.press("enter", kernel)  # type: ignore[arg-type]
    work = view.lines[: view.lines.index("")]
    assert obeyed("".join(work)) == []
    assert [line.split()[0] for line in work if line.startswith("#")] == ["#1", "#2", "#3", "#4", "#5"]
    assert max(map(width, work)) <= 60


def test_keys_choose_sort_filter_and_leave() -> None:
    assert view_of(60, "j", "down", "down")[0].chosen == "tester"
    assert view_of(60, "down", "k")[0].chosen == "coder@review:main"
    assert view_of(60, "s", "s")[0].sort == "state"
    assert [row.name for row in view_of(60, "/", "t", "e", "s", "enter")[0].rows()] == ["tester"]
    assert len(view_of(60, "/", "q", "escape")[0].rows()) == 3
    assert view_of(60, "?", "escape")[0].view == "table"
    assert list(keys_in("j\x1b[A\x1bOB\x1b[5~\x1b[9~\r\x7f\x1b")) == [
        "j", "up", "down", "pageup", "enter", "backspace", "escape",
    ]  # fmt: skip


def test_idle_agents_are_one_line_until_i_or_a_filter_lists_them() -> None:
    view, kernel = view_of(100, "i")
    assert ([row.name for row in view.rows()], view.folded()) == (["coder", "reviewer", "tester"], 0)
    view.press("i", kernel)  # type: ignore[arg-type]
    assert ([row.name for row in view.rows()], view.folded()) == (["coder", "reviewer"], 97)
    assert "97 idle (i lists them)" in text_of(view, 100)
    for key in ("/", "t", "enter"):
        view.press(key, kernel)  # type: ignore[arg-type]
    view.read(kernel)  # type: ignore[arg-type]
    assert ([row.name for row in view.rows()], view.folded()) == (["tester"], 0)


def test_enter_on_an_idle_agent_opens_its_last_work(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = QueueReport(agent="tester", instructions=(), last="i7")
    monkeypatch.setitem(DOCUMENTS, "/queue", msgspec.json.encode(idle))
    view, kernel = view_of(100, "j", "j", "enter")
    assert (view.title, view.lines[0]) == ("tester: idle; last work: i7", "29 earlier: awk show i7 --steps")
    monkeypatch.setitem(DOCUMENTS, "/queue", msgspec.json.encode(msgspec.structs.replace(idle, last=None)))
    view.press("enter", kernel)  # type: ignore[arg-type]
    assert view.lines == ["it has nothing to do, and no earlier work"]
    view.press("c", kernel)  # type: ignore[arg-type]
    assert (view.said, kernel.posted) == ("tester has nothing to do", [])


def test_each_tab_lists_its_rows_and_opens_the_chosen_one() -> None:
    titles = {"2": "r12", "3": "approval a3", "4": "review:main t1"}
    for (key, title), name in zip(titles.items(), list(TABS)[1:], strict=True):
        view, _ = view_of(100, key, "enter")
        assert (view.tab, view.title, view.view) == (name, title, "lines")
    assert [view_of(100, *["tab"] * count)[0].tab for count in range(5)] == [*TABS, "agents"]
    view, kernel = view_of(100, "3", "p")
    assert (view.said, kernel.posted) == ("this key is for agents: press 1 and choose one", [])
    assert view_of(100, "3", "a")[0].title.startswith("a3: coder in review:main wants")
    assert view_of(100, "2", "/", "q", "enter", "enter")[0].said == "no runs"
    assert [STYLES[word] for word in ("running", "failed", "claimed")] == ["green", "red", "green"]


def test_the_header_has_the_project_and_its_totals() -> None:
    view, _ = view_of(100)
    assert view.header() == (
        "3 need you | shop | 1 running, 1 waiting, 1 idle | $1.50 today, 1,200 tok/min | by urgency"
    )
    view.overview = None
    assert view.header(", the kernel is away") == "3 need you | 3 agents, the kernel is away"


def test_only_new_needs_alert() -> None:
    needs = NewNeeds()
    one, two = need(), need("a key is missing", kind="credentials", id="coder")
    assert needs.texts([one]) == []
    assert needs.texts([one, two]) == ["a key is missing"]
    assert needs.texts([two]) == []
    assert needs.texts([one]) == ["coder wants to call bash"], "it came back"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color"}, "\x07"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x07\x1b]9;agent-worker: a (and 1 more)\x07"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"}, "\x07"),
        ({"TERM": "xterm-kitty"}, "\x07\x1b]9;agent-worker: a (and 1 more)\x07"),
        ({"TERM": "rxvt-unicode-256color"}, "\x07\x1b]777;notify;agent-worker;a (and 1 more)\x07"),
    ],
)
def test_a_notification_goes_to_terminals_that_show_it(environ: dict[str, str], expected: str) -> None:
    assert alert(["a", "b"], environ) == expected


@pytest.mark.promise("P16")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_need_ends_or_forges_a_notification(text: str) -> None:
    shown = alert([f"{text}\x07\x1b]0;title\x1b\\" + "x" * 9999], {"TERM": "foot"})
    inner = shown.removeprefix("\x07\x1b]777;notify;agent-worker;").removesuffix("\x07")
    assert (obeyed(inner), len(inner) <= 200) == ([], True)


@pytest.mark.parametrize("columns", range(20, 220, 7))
def test_no_window_is_overrun(columns: int) -> None:
    lines = _drawn(columns)
    assert max(map(len, lines)) <= columns
    assert len(lines) == 3


def test_without_agents_there_is_a_header() -> None:
    assert _drawn(200, ())[0].split()[:2] == ["NAME", "STATE"]
    assert fitting(columns_for([]), [], 1) == 1


def test_where_agents_work_is_a_column_once_one_is_on_a_node() -> None:
    here, away = ps_row(), ps_row(node="gpu1")
    assert "NODE" not in [column.title for column in columns_for([here])]
    both = columns_for([here, away])
    place = [column.title for column in both].index("NODE")
    assert [cells(row, NOW, both)[place] for row in (here, away)] == ["-", "gpu1"]


@pytest.mark.promise("P16")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_is_drawn_and_not_obeyed(text: str) -> None:
    safe = text.encode("utf-8", "replace").decode()
    assert obeyed("".join(_drawn(400, (ps_row(text=safe),)))) == []


def test_every_column_has_a_cell() -> None:
    assert len(cells(ps_row(), NOW)) == len(COLUMNS)


def test_sizes_and_ages_are_short() -> None:
    assert [size(n) for n in (0, 512, 2048, 5 << 20, 3 << 30, 5 << 40)] == [
        "-", "512B", "2.0K", "5.0M", "3.0G", "5120.0G",
    ]  # fmt: skip
    assert [age(n) for n in (-1, 42, 300, 7200, 200_000)] == ["0s", "42s", "5m", "2h", "2d"]


def test_where_nobody_watches_it_is_printed_once(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= read_answers("x")
    assert cli("top").out == cli("ps").out
    cli.environ["CI"] = "true"
    assert "NAME" in cli("top", terminal=True).out


def test_it_is_drawn_anew_on_events_and_ends_with_q(cli: Cli, kernel: KernelDouble) -> None:
    names = iter(["first", "second"])
    shown = {"name": "first"}

    def ps(asked: object) -> Ps:
        shown["name"] = next(names, shown["name"])
        return Ps(agents=(ps_row(shown["name"]),))

    kernel.answers |= {
        "GET /overview": OVERVIEW,
        "GET /ps": ps,
        "GET /events": Stream([b": ping\n\n", sse("agent.changed", event("agent.changed", 1), 1)]),
    }
    seen, code = _on_a_terminal(cli, ["top"], [(b"first", b""), (b"second", b"q")])
    assert code == 0, seen
    assert b"\x1b[?1049l" in seen


def test_a_new_need_rings_the_bell(cli: Cli, kernel: KernelDouble) -> None:
    """With --bell: not for the needs that it finds at its start."""
    lists = iter([(need(),), (need(), need("the key of carol", id="a4"))])
    shown: dict[str, tuple[Need, ...]] = {"items": ()}

    def needs(asked: object) -> NeedList:
        shown["items"] = next(lists, shown["items"])
        return NeedList(items=shown["items"], total=len(shown["items"]))

    kernel.answers |= {
        "GET /overview": OVERVIEW,
        "GET /ps": lambda asked: Ps(agents=(ps_row("first"),), needs=1),
        "GET /needs": needs,
        "GET /events": Stream([b": ping\n\n", sse("agent.changed", event("agent.changed", 1), 1)]),
    }
    cli.environ["TERM_PROGRAM"] = "iTerm.app"
    seen, code = _on_a_terminal(
        cli, ["top", "--bell"], [(b"first", b""), (b"\x1b]9;agent-worker: the key of carol\x07", b"q")]
    )
    assert (code, seen.count(b"\x1b]9;")) == (0, 1)


def test_it_follows_the_size_of_the_window(cli: Cli, kernel: KernelDouble) -> None:
    shown = {"name": "first"}
    kernel.answers |= {
        "GET /overview": OVERVIEW,
        "GET /ps": lambda asked: Ps(agents=(ps_row(shown["name"]),)),
        "GET /events": Stream(b": ping\n\n" for _ in iter(int, 1)),
    }

    def narrow(leader: int) -> None:
        _resize(leader, 40)
        shown["name"] = "second"

    cli.environ |= {"COLUMNS": "", "NO_COLOR": "1"}
    seen, code = _on_a_terminal(cli, ["top"], [(b"first", narrow), (b"second", b"q")])
    last = seen.rpartition(b"q quits")[0].rpartition(b"\x1b[H")[2] + seen.rpartition(b"q quits")[2]
    drawn = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", last.partition(b"\x1b[?1049l")[0])
    assert code == 0, seen
    assert max(len(line.rstrip("\r")) for line in drawn.decode().split("\n")) <= 40


def _resize(leader: int, columns: int) -> None:
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 12, columns, 0, 0))


Typed = bytes | Callable[[int], None]
"""Keys, or what is done to the terminal (by its descriptor)."""


def _on_a_terminal(cli: Cli, words: list[str], script: list[tuple[bytes, Typed]]) -> tuple[bytes, int]:
    leader, follower = pty.openpty()
    _resize(leader, 150)
    command = [*AWK, *words]
    environ = {"COLUMNS": "150", "LINES": "30", **cli.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command, cwd=cli.root, env=environ, stdin=follower, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        seen = b""
        for text, keys in script:
            while text not in seen:
                seen += os.read(leader, 65536)
            if callable(keys):
                keys(leader)
            else:
                os.write(leader, keys)
        code = process.wait(timeout=10)
    with suppress(OSError):  # EIO: the other end is closed and all is read (pty(7))
        while True:
            seen += os.read(leader, 65536)
    os.close(leader)
    return seen, code
