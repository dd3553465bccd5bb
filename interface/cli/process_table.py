"""The process table: which columns there are and what stands in them. Pure; ``ps`` and ``top`` both draw it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from protocol.api import PsRow


class Column(NamedTuple):
    """One column. ``cell`` gives its text for a row at a wall time in seconds since 1970."""

    title: str
    cell: Callable[[PsRow, float], str]
    right: bool = False


def _name(row: PsRow, now: float) -> str:
    workspace = row.space is not None and not row.space.startswith("dm:")
    return f"{row.name}@{row.space}" if workspace else row.name


def _state(row: PsRow, now: float) -> str:
    left = _seconds_between(now, row.until)
    until = f" {left:.0f}s" if left is not None and left > 0 else ""
    return row.state + until + (f" ({row.reason})" if row.reason else "")


def _queue(row: PsRow, now: float) -> str:
    return f"{row.queue.immediate}/{row.queue.normal}/{row.queue.background}"


def _tokens(row: PsRow, now: float) -> str:
    return f"{row.usage.input_tokens}/{row.usage.output_tokens}"


def _cost(row: PsRow, now: float) -> str:
    return "-" if row.usage.cost_usd is None else f"{row.usage.cost_usd:.4f}"


def _last(row: PsRow, now: float) -> str:
    left = _seconds_between(now, row.last_event_at)
    return "-" if left is None else age(-left)


COLUMNS: Final[tuple[Column, ...]] = (
    Column("NAME", _name),
    Column("STATE", _state),
    Column("PID", lambda row, now: str(row.pid or "-"), right=True),
    Column("BACKEND", lambda row, now: row.backend or "-"),
    Column("MODEL", lambda row, now: row.model or "-"),
    Column("STEP", lambda row, now: str(row.step), right=True),
    Column("DOING", lambda row, now: row.doing or "-"),
    Column("QUEUE", _queue, right=True),
    Column("RESTARTS", lambda row, now: str(row.restarts), right=True),
    Column("EXIT", lambda row, now: row.last_exit or "-"),
    Column("CPU%", lambda row, now: f"{row.cpu_percent:.1f}", right=True),
    Column("RSS", lambda row, now: size(row.rss_bytes), right=True),
    Column("TOKENS", _tokens, right=True),
    Column("COST$", _cost, right=True),
    Column("LAST", _last, right=True),
)
"""In order of importance: a narrow window loses them from the right. QUEUE is immediate/normal/background."""


def cells(rows: Sequence[PsRow], now: float) -> list[list[str]]:
    """The text of every cell."""
    return [[column.cell(row, now) for column in COLUMNS] for row in rows]


def size(count: int) -> str:
    """Bytes as ``12.3M``; ``-`` for none."""
    if count <= 0:
        return "-"
    value = float(count)
    for unit in "BKMG":
        if value < 1024 or unit == "G":
            return f"{value:.0f}B" if unit == "B" else f"{value:.1f}{unit}"
        value /= 1024
    raise AssertionError


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits: ``42s``, ``5m``, ``3h``, ``2d``."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def _seconds_between(now: float, at: str | None) -> float | None:
    """Seconds from ``now`` to the time ``at`` (RFC 3339); None where there is none, or it is not one."""
    try:
        return datetime.fromisoformat(at).timestamp() - now if at else None
    except ValueError:
        return None
