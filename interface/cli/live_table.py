"""The process table live on a terminal, as ``awk top`` shows it; rich, which draws it, costs 40 modules.

Three sources feed one queue: a thread on the event stream, a thread on the keyboard, and the clock (a timeout).
Events are only a reason to look: what is drawn is always a fresh ``/ps``, at most ten times a second. Agents' text
enters as rich Text, escaped: never as a string, where rich would look for markup.
"""

import queue
import sys
import termios
import threading
import tty
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import cut, one_line, width
from interface.cli.process_table import COLUMNS, cells
from interface.client import Client
from interface.event_follow import Follower
from interface.failure import Failure, Unreachable
from protocol.api.processes import Ps, PsRow

TICK_SECONDS: Final = 1.0
COALESCE_SECONDS: Final = 0.1
_IGNORED: Final = frozenset({"", "delta", "progress"})
"""Events that are too many to look for each; the tick shows what they mean."""
_GAP: Final = 2
_WIDEST: Final = 28
"""No cell takes more than this, so that one long model name does not push the rest out."""
_STYLE_OF_STATE: Final = {
    "running": "green",
    "waiting": "yellow",
    "backoff": "yellow",
    "error": "red",
    "stopped": "dim",
}

Signal = Literal["changed", "quit", "gone"]


def watch(context: Context) -> int:
    """Draw until ``q``. Raises Failure (no_kernel) where the kernel does not come back."""
    signals: queue.Queue[Signal] = queue.Queue()
    threading.Thread(target=signal_changes, args=(context, signals), name="events", daemon=True).start()
    console = Console(no_color=not context.out.screen.colour, highlight=False, markup=False)
    with (
        keys_as_signals(signals),
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        screen = _Screen(context, console, live)
        signal: Signal | None = "changed"
        while signal != "quit":
            if signal == "gone":
                raise Failure("no_kernel", "the kernel is gone and did not come back")
            screen.draw()
            signal = next_signal(signals)
    return Exit.OK


def next_signal(signals: queue.Queue[Signal]) -> Signal | None:
    """The next reason to draw; None for the tick. Changes that come together are one."""
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


class _Screen:
    """The terminal: the table that was drawn last, to be drawn anew."""

    def __init__(self, context: Context, console: Console, live: Live) -> None:
        self._context = context
        self._console = console
        self._live = live
        self._client: Client | None = None
        self._agents: Ps = Ps(agents=())
        self._state = ""

    def draw(self) -> None:
        """Ask for the table and draw it; while the kernel is away, what it said last."""
        try:
            self._client = self._client or self._context.find_kernel()
            self._agents = msgspec.json.decode(self._client.get("/ps"), type=Ps)
            self._state = ""
        except Unreachable:
            self._client = None
            self._state = ", the kernel is away"
        width = self._console.width = self._context.out.width()  # the window may have another size by now
        rows = self._agents.agents
        busy = sum(row.state == "running" for row in rows)
        head = Text(f"{len(rows)} agents, {busy} running{self._state}   q quits", style="dim", no_wrap=True)
        table = process_table(rows, width, self._context.clock.wall())
        self._live.update(Group(head, table), refresh=True)


def process_table(rows: Sequence[PsRow], columns: int, now: float) -> Table:
    """The agents as a table that fits ``columns``: what does not fit is dropped from the right."""
    texts = [[cut(one_line(cell), _WIDEST) for cell in cells(row, now)] for row in rows]
    shown = fitting(texts, columns)
    drawn = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in COLUMNS[:shown]:
        drawn.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for row, text in zip(rows, texts, strict=True):
        styles = ["", _STYLE_OF_STATE.get(row.state, ""), *([""] * len(COLUMNS))]
        drawn.add_row(*(Text(cell, style=style) for cell, style in zip(text[:shown], styles, strict=False)))
    return drawn


def fitting(texts: Sequence[Sequence[str]], columns: int) -> int:
    """The number of columns, from the left, that fit into ``columns``; never none."""
    used = -_GAP
    for place, column in enumerate(COLUMNS):
        used += _GAP + max([width(column.title), *(width(row[place]) for row in texts)])
        if used > columns:
            return max(place, 1)
    return len(COLUMNS)


def signal_changes(context: Context, signals: queue.Queue[Signal]) -> None:
    """Turn events into reasons to draw, through restarts of the kernel."""
    follower = Follower(connect=context.find_kernel, query={}, clock=context.clock, say=lambda text: None)
    try:
        for event in follower:
            if event.type not in _IGNORED:
                signals.put("changed")
    except (Failure, Unreachable):
        signals.put("gone")


@contextmanager
def keys_as_signals(signals: queue.Queue[Signal]) -> Generator[None]:
    """Keys one by one and unechoed, where standard input is a terminal; it is left as it was found."""
    if not sys.stdin.isatty():
        yield
        return

    def read() -> None:
        while key := sys.stdin.read(1):
            if key in "qQ":
                signals.put("quit")

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    threading.Thread(target=read, name="keys", daemon=True).start()
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
