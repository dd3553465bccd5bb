"""Progress of a followed run: a line per active agent, or one line every 30 s without a terminal.

The lines are displayed below the output and hidden before any other output, so the log contains only the output.
"""

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, Self

from interface.cli.output import Output, OutputLost, cut, one_line
from interface.cli.transcript_view import seconds_text
from interface.clock import Clock

TICK_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 30.0
MOST_LINES: Final = 10
"""Maximum number of agents that are shown by name."""
_LEFT: Final = frozenset({"instruction.ended", "instruction.queued", "attempt.ended"})
"""Events after which no attempt works on an instruction."""


class Work(NamedTuple):
    """Agent that works on an instruction since ``began_at`` (monotonic seconds)."""

    agent: str
    began_at: float
    doing: str = ""
    step: int = 0
    max_steps: int | None = None
    tokens: int = 0
    cost_usd: float | None = None

    def line(self, now: float) -> str:
        """Return the work in one line: agent, step, tool, tokens, cost, time."""
        most = "" if self.max_steps is None else f"/{self.max_steps}"
        facts = (
            one_line(self.agent),
            f"step {self.step}{most}",
            one_line(self.doing),
            f"{self.tokens:,} tokens" if self.tokens else "",
            "" if self.cost_usd is None else f"${self.cost_usd:.4f}",
            seconds_text(now - self.began_at),
        )
        return "  ".join(fact for fact in facts if fact)


class Working:
    """Active agents, derived from the events of a run; times are parameters."""

    def __init__(self) -> None:
        self._work: dict[str, Work] = {}
        self._used: dict[str, tuple[int, float | None]] = {}
        """Tokens and cost in USD of each instruction of the run so far."""

    def take(self, event: Mapping[str, Any], now: float) -> None:
        """Update the active agents from an event (protocol.message.Event as JSON)."""
        instruction, kind, data = event.get("instruction"), event.get("type"), event.get("data") or {}
        if not instruction:
            return
        if kind in _LEFT:
            self._work.pop(str(instruction), None)
            return
        work = self._work.get(str(instruction))
        if kind in ("instruction.leased", "attempt.started", "instruction.step", "progress"):
            work = work or Work(str(event.get("agent") or "?"), now)
        if work is None:
            return
        match kind:
            case "attempt.started":
                work = work._replace(max_steps=data.get("max_steps"))
            case "instruction.step":
                work = work._replace(
                    step=data.get("step") or work.step,
                    tokens=data.get("tokens") or work.tokens,
                    cost_usd=work.cost_usd if data.get("cost_usd") is None else data["cost_usd"],
                    doing="",
                )
                self._used[str(instruction)] = work.tokens, work.cost_usd
            case "progress":
                work = work._replace(doing=str(data.get("what", "")).removeprefix("tool "))
            case _:
                pass
        self._work[str(instruction)] = work

    def used(self) -> str:
        """Return the cost of the run so far, as ``, 1,200 tokens, $0.0123``; "" if unknown."""
        tokens = sum(tokens for tokens, _ in self._used.values())
        costs = [cost for _, cost in self._used.values() if cost is not None]
        return (f", {tokens:,} tokens" if tokens else "") + (f", ${sum(costs):.4f}" if costs else "")

    def lines(self, now: float) -> list[str]:
        """Return a line per agent, longest work first."""
        lines = [work.line(now) for work in self._work.values()]
        left_out = len(lines) - MOST_LINES
        return [*lines[:MOST_LINES], f"and {left_out} more"] if left_out > 0 else lines


class RunProgress:
    """Display of the active agents, as a context manager around the output of a followed run."""

    def __init__(self, out: Output, clock: Clock) -> None:
        self._out = out
        self._clock = clock
        self.name = "the run"
        """Name of the run in progress lines."""
        self._working = Working()
        self._began_at = self._told_at = clock.now()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick_until_over, name="progress", daemon=True)
        self._drawn = 0
        """Lines that are on the terminal now, below the log."""
        self._hidden = False
        """Whether a question occupies the last line."""

    def __enter__(self) -> Self:
        if self._out.shows_progress:
            self._out.aside, self._out.hide_aside = self._aside, self._hide
        self._ticker.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def end(self) -> None:
        """Remove the lines, so that only the report remains."""
        if not self._over.is_set():
            self._over.set()
            self._ticker.join()
            with suppress(BrokenPipeError, OutputLost):
                self._clear()
            self._out.leave_aside()

    def take(self, event: Mapping[str, Any]) -> None:
        """Update the display from an event of the run (protocol.message.Event as JSON)."""
        with self._lock:
            self._working.take(event, self._clock.now())

    def tick(self) -> None:
        """Redraw the lines; without a terminal print a periodic status line."""
        now = self._clock.now()
        if self._out.shows_progress:
            with self._lock:
                if not self._hidden:
                    self._clear()
                    self._draw(now)
        elif now - self._told_at > HEARTBEAT_SECONDS - TICK_SECONDS:  # the next tick would be too late
            self._told_at = now
            with self._lock:
                lines, used = self._working.lines(now), self._working.used()
            at_work = "; ".join(lines) if lines else "no active agents"
            self._out.note(f"{one_line(self.name)} runs for {seconds_text(now - self._began_at)}{used}: {at_work}")

    def _tick_until_over(self) -> None:
        with suppress(BrokenPipeError, OutputLost):  # the report fails in the same way
            while not self._over.wait(TICK_SECONDS):
                self.tick()

    @contextmanager
    def _aside(self) -> Generator[None]:
        with self._lock:
            self._clear()
            yield
            self._hidden = False
            self._draw(self._clock.now())

    def _hide(self) -> None:
        with self._lock:
            self._clear()
            self._hidden = True

    def _draw(self, now: float) -> None:
        if not self._over.is_set():
            lines = [cut(line, self._out.width() - 1) for line in self._working.lines(now)]
            if lines:
                self._out.draw("\n".join(lines))
            self._drawn = len(lines)

    def _clear(self) -> None:
        if self._drawn:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            self._out.draw(f"\r{up}\x1b[J")
            self._drawn = 0
