"""The process table: which columns there are and what stands in them. Pure; ``ps`` and ``top`` both draw it."""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from protocol.api.processes import PsRow


class Column(NamedTuple):
    """One column; ``right`` is how numbers are aligned."""

    title: str
    right: bool = False


COLUMNS: Final[tuple[Column, ...]] = (
    Column("NAME"),
    Column("STATE"),
    Column("PID", right=True),
    Column("BACKEND"),
    Column("MODEL"),
    Column("STEP", right=True),
    Column("DOING"),
    Column("QUEUE", right=True),
    Column("RESTARTS", right=True),
    Column("EXIT"),
    Column("CPU%", right=True),
    Column("RSS", right=True),
    Column("TOKENS", right=True),
    Column("COST$", right=True),
    Column("DIFF", right=True),
    Column("LAST", right=True),
)
"""In order of importance: a narrow window loses them from the right. QUEUE is immediate/normal/background."""


def cells(row: "PsRow", now: float) -> tuple[str, ...]:
    """The text of every column for one agent, at a wall time in seconds since 1970."""
    workspace = row.space is not None and not row.space.startswith("dm:")
    left = seconds_between(now, row.until)
    until = f" {left:.0f}s" if left is not None and left > 0 else ""
    left = seconds_between(now, row.last_event_at)
    return (
        (f"{row.name}@{row.space}" if workspace else row.name),
        (row.state + until + (f" ({row.reason})" if row.reason else "")),
        str(row.pid or "-"),
        row.backend or "-",
        row.model or "-",
        str(row.step),
        row.doing or "-",
        f"{row.queue.immediate}/{row.queue.normal}/{row.queue.background}",
        str(row.restarts),
        row.last_exit or "-",
        f"{row.cpu_percent:.1f}",
        size(row.rss_bytes),
        f"{row.usage.input_tokens + row.usage.cache_write_tokens}/{row.usage.output_tokens}",
        "-" if row.usage.cost_usd is None else f"{row.usage.cost_usd:.4f}",
        "-" if row.diff is None else f"+{row.diff.added}/-{row.diff.deleted}",
        ("-" if left is None else age(-left)),
    )


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
    """A time that has passed, in the largest unit that fits: ``42s``, ``5m``, ``3h``, ``2d``."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def seconds_between(now: float, at: str | None) -> float | None:
    """Seconds from ``now`` to the time ``at`` (RFC 3339); None where there is none, or it is not one."""
    if not at:
        return None
    from datetime import datetime  # noqa: PLC0415  (most agents have no time to be shown)

    try:
        return datetime.fromisoformat(at).timestamp() - now
    except ValueError:
        return None
