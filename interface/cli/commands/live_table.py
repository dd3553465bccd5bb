"""Live process table of ``awk top`` on a terminal, drawn with rich, whose import loads 40 modules.

Three sources feed one queue: a thread for the event stream, a thread for the keyboard, and the clock (a timeout).
Events only trigger an update: the screen always shows a new ``/ps`` response, at most ten times a second. Text of
agents becomes escaped rich Text, never a string that rich would parse as markup.
"""

import os
import queue
import re
import sys
import termios
import threading
import tty
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from interface.cli.commands.top_tabs import AGENTS, STYLES, TABS, Tab
from interface.cli.commands.top_view import Question, TopView
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import cut, one_line, width
from interface.cli.process_table import GAP, cells, columns_for, fitting
from interface.client import Client
from interface.discovery import Hanging
from interface.event_follow import Follower
from interface.failure import Failure, Unreachable

TICK_SECONDS: Final = 1.0
COALESCE_SECONDS: Final = 0.1
_IGNORED: Final = frozenset({"", "delta", "progress"})
"""Events that are too frequent to trigger an update. The tick shows their effect."""

_WIDEST: Final = 28
"""Maximum width of a cell, so that a long model name does not displace other columns."""
_SHORTEST: Final = 8
_NOTIFIED_COLUMNS: Final = 200
_OSC_9: Final = "\x1b]9;agent-worker: {}\x07"  # a text with a number first would be a command
_OSC_777: Final = "\x1b]777;notify;agent-worker;{}\x07"
_PROGRAMS: Final = {"iTerm.app": _OSC_9, "WezTerm": _OSC_9, "ghostty": _OSC_9}
"""Notification by TERM_PROGRAM, unless TERM has one."""
_TERMS: Final = {"xterm-kitty": _OSC_9, "foot": _OSC_777, "rxvt": _OSC_777, "tmux": "", "screen": ""}
"""Notification by the start of TERM."""
Signal = str
"""``changed``, ``quit``, ``gone``, or a key: ``key:up``."""
_KEY: Final = "key:"
_SEQUENCES: Final = {"A": "up", "B": "down", "5~": "pageup", "6~": "pagedown"}
_NAMES: Final = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape", "\t": "tab"}


def watch(context: Context) -> int:
    """Draw until ``q``. Raises Failure (no_kernel) if the kernel does not return."""
    signals: queue.Queue[Signal] = queue.Queue()
    threading.Thread(target=signal_changes, args=(context, signals), name="events", daemon=True).start()
    console = Console(no_color=not context.out.screen.colour, highlight=False, markup=False)
    with (
        keys_as_signals(signals),
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        screen = _Screen(context, console, live, signals)
        signal: Signal | None = "changed"
        while signal != "quit":
            if signal == "gone":
                raise Failure("no_kernel", "connection to the kernel lost")
            if signal is not None and signal.startswith(_KEY) and not screen.press(signal.removeprefix(_KEY)):
                break
            screen.draw()
            signal = next_signal(signals)
    return Exit.OK


def next_signal(signals: queue.Queue[Signal]) -> Signal | None:
    """Return the next reason to draw; None for the tick. Simultaneous changes count as one."""
    try:
        first = signals.get(timeout=TICK_SECONDS)
    except queue.Empty:
        return None
    while first == "changed":
        try:
            following = signals.get(timeout=COALESCE_SECONDS)
        except queue.Empty:
            return first
        if following != "changed" or signals.empty():
            return following
    return first


def forget_keys(signals: queue.Queue[Signal]) -> None:
    """Discard keys that were pressed before a question was displayed, so that they do not answer it."""
    kept: list[Signal] = []
    with suppress(queue.Empty):
        while True:
            kept.append(signals.get_nowait())
    for signal in kept:
        if not signal.startswith(_KEY):
            signals.put(signal)


class _Screen:
    """Terminal with the last drawn screen."""

    def __init__(self, context: Context, console: Console, live: Live, signals: queue.Queue[Signal]) -> None:
        self._context = context
        self._console = console
        self._live = live
        self._signals = signals
        self._asked: Question | None = None
        self._client: Client | None = None
        self._view = TopView(context)
        self._state = ""
        self._needs = NewNeeds()

    def press(self, key: str) -> bool:
        """Handle a key. Returns whether to continue."""
        if self._client is None:
            return key not in "qQ"
        self._view.fit(self._console.height)  # rows that a smaller window hides count as unread
        return self._view.press(key, self._client)

    def draw(self) -> None:
        """Query the table and draw it. Without a kernel, draw the last one."""
        try:
            self._client = self._client or self._context.find_kernel()
            self._view.read(self._client)
            self._state = ""
            needs = TABS["needs"].read(self._client) if self._context.args.bell and self._view.table.needs else ()
            if texts := self._needs.texts(needs):
                self._console.file.write(alert(texts, self._context.environ))
                self._console.file.flush()
        except (Unreachable, Hanging):
            self._client = None
            self._state = ", the kernel is away"
        width = self._console.width = self._context.out.width()  # the window may have been resized
        self._view.fit(self._console.height)
        if self._view.question not in (None, self._asked):
            forget_keys(self._signals)
        self._asked = self._view.question
        self._live.update(drawn(self._view, width, self._context.clock.wall(), self._state), refresh=True)


def drawn(view: TopView, columns: int, now: float, state: str = "") -> Group:
    """Return the whole screen: a header, the agents or the lines of a view, and a footer."""
    head = Text(cut(view.header(state), columns), style="dim", no_wrap=True)
    foot = Text(cut(view.footer(), columns), style="bold" if view.question else "dim", no_wrap=True)
    if view.view == "lines":
        title = Text(cut(view.title, columns), style="bold", no_wrap=True)
        return Group(head, title, *(Text(line, no_wrap=True) for line in view.page()), foot)
    rows, folded = view.rows(), view.folded()
    more = [Text(cut(f"  {folded:,} idle (i lists them)", columns), style="dim", no_wrap=True)] if folded else []
    place, room = view.place(), max(view.height - 4 - len(more), 1)
    first = max(place - room + 1, 0)
    shown = process_table(rows[first : first + room], columns, now, place - first, TABS[view.tab])
    return Group(head, shown, *more, foot)


def process_table(
    rows: Sequence[Any], columns: int, now: float, chosen: int | None = None, tab: Tab = TABS[AGENTS]
) -> Table:
    """Return the table of a tab within ``columns``. Columns that do not fit are dropped from the right.

    The last column of a tab other than agents is truncated to the remaining width instead.
    """
    titled = columns_for(rows, tab.columns)
    whole = [[one_line(cell) for cell in cells(row, now, titled)] for row in rows]
    texts = [[cut(cell, _WIDEST) for cell in row] for row in whole]
    if tab is not TABS[AGENTS]:
        widths = [max(map(width, (column.title, *shown))) for column, *shown in zip(titled, *texts, strict=True)]
        left = max(columns - sum(widths[:-1]) - GAP * len(titled), _SHORTEST)
        for row, text in zip(whole, texts, strict=True):
            text[-1] = cut(row[-1], left)
    if chosen is not None:
        texts = [[f"{'> ' if place == chosen else '  '}{text[0]}", *text[1:]] for place, text in enumerate(texts)]
    shown = fitting(titled, texts, columns)
    drawn = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in titled[:shown]:
        drawn.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for place, text in enumerate(texts):
        styles = ["", STYLES.get(text[1].split(" ")[0], ""), *([""] * len(titled))]
        line = (Text(cell, style=style) for cell, style in zip(text[:shown], styles, strict=False))
        drawn.add_row(*line, style="reverse" if place == chosen else None)
    return drawn


def alert(texts: Collection[str], environ: Mapping[str, str]) -> str:
    """Return the characters that alert the user to new needs: a bell, and one notification with the first text."""
    term, by_program = environ.get("TERM", ""), _PROGRAMS.get(environ.get("TERM_PROGRAM", ""), "")
    forms = (form for start, form in _TERMS.items() if term.startswith(start))
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return "\x07" + next(forms, by_program).format(cut(one_line(next(iter(texts))), _NOTIFIED_COLUMNS) + more)


class NewNeeds:
    """Needs that were not present at the previous check; the first check finds none."""

    _known: frozenset[tuple[str, str, str | None]] | None = None

    def texts(self, items: Collection[Any]) -> list[str]:
        """Return the texts of the new needs."""
        now = {(item.kind, item.id, item.since): item.text for item in items}
        known, self._known = self._known, frozenset(now)
        return [] if known is None else [text for key, text in now.items() if key not in known]


def signal_changes(context: Context, signals: queue.Queue[Signal]) -> None:
    """Put ``changed`` into ``signals`` for each relevant event, also after restarts of the kernel."""
    follower = Follower(connect=context.find_kernel, query={}, clock=context.clock, say=lambda text: None)
    try:
        for event in follower:
            if event.type not in _IGNORED:
                signals.put("changed")
    except (Failure, Unreachable):
        signals.put("gone")


@contextmanager
def keys_as_signals(signals: queue.Queue[Signal]) -> Generator[None]:
    """Read single keys without echo if standard input is a terminal; restore the terminal afterwards."""
    if not sys.stdin.isatty():
        yield
        return

    descriptor = sys.stdin.fileno()

    def read() -> None:
        while typed := os.read(descriptor, 256):
            for key in keys_in(typed.decode("utf-8", "replace")):
                signals.put(f"{_KEY}{key}")

    before = termios.tcgetattr(descriptor)
    threading.Thread(target=read, name="keys", daemon=True).start()
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys_in(typed: str) -> Iterator[str]:
    """Parse the keys in the terminal's input: arrow keys are sequences, and a lone escape is the escape key."""
    while typed:
        sequence = re.match(r"\x1b[\[O]([A-D]|[0-9]+~)", typed)
        if sequence is not None:
            if sequence[1] in _SEQUENCES:
                yield _SEQUENCES[sequence[1]]
            typed = typed[sequence.end() :]
            continue
        yield _NAMES.get(typed[0], typed[0])
        typed = typed[1:]
