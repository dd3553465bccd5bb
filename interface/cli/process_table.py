"""Columns of the process table and their content, for ``ps`` and ``top``. Pure."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from interface.cli.output import width

if TYPE_CHECKING:
    from protocol.api.processes import PsRow


class Column:
    """Column of a table. ``text`` returns the cell of a row at a wall time, or "" for ``-``.

    ``number`` is the sort key, the largest first. Columns with numbers are right-aligned.
    """

    def __init__(
        self, title: str, text: Callable[[Any, float], str], number: Callable[[Any], float | None] | None = None
    ) -> None:
        self.title, self.text, self.number, self.right = title, text, number, number is not None


def age_column(title: str, at: Callable[[Any], str | None]) -> Column:
    """Return a column with the time since ``at`` (RFC 3339) of a row; the latest comes first."""
    return Column(title, lambda row, now: since(now, at(row)), lambda row: seconds_between(0.0, at(row)))


GAP: Final = 2
"""Blanks between two columns."""


def fitting(titled: Sequence[Column], texts: Sequence[Sequence[str]], columns: int | None) -> int:
    """Return the number of columns, from the left, that fit into ``columns`` (None: no limit); at least one."""
    used = -GAP
    for place, column in enumerate(titled):
        used += GAP + max([width(column.title), *(width(row[place]) for row in texts)])
        if columns is not None and used > columns:
            return max(place, 1)
    return len(titled)


def target_of(row: "PsRow") -> str:
    """Return the target of an agent; an agent of a workflow includes the workflow."""
    return row.name if row.space is None or row.space.startswith("dm:") else f"{row.name}@{row.space}"


def status_of(row: "PsRow") -> str:
    """Return the agent's own status in a few words."""
    return "" if row.status is None else ": ".join(part for part in (row.status.state, row.status.task) if part)


def _state(row: "PsRow", now: float) -> str:
    left = seconds_between(now, row.until)
    until = f" {left:.0f}s" if left is not None and left > 0 else ""
    return row.state + until + (f" ({row.reason})" if row.reason else "")


def _doing(row: "PsRow", _now: float) -> str:
    in_step = row.step_age_s or 0.0
    return " ".join([row.doing or "-", *([age(in_step)] if in_step >= SLOW_SECONDS else [])])


def _tasks(row: "PsRow", _now: float) -> str:
    words = [  # t3 claimed, t5 after t3,t4
        f"{one.id} after {','.join(one.blocked_by)}" if one.blocked_by else f"{one.id} {one.state}" for one in row.tasks
    ]
    return ", ".join([*words[:SHOWN], *([f"{len(words) - SHOWN} more"] if len(words) > SHOWN else [])])


def cost(usd: float | None) -> str:
    """Format a cost; an unknown cost is ``-``."""
    return "-" if usd is None else f"{usd:.4f}"


SLOW_SECONDS: Final = 10.0
"""Age from which on DOING states the age of the step."""
SHOWN: Final = 3
"""Maximum number of tasks in one cell."""
COLUMNS: Final[tuple[Column, ...]] = (
    Column("NAME", lambda row, _now: target_of(row)),
    Column("STATE", _state),
    Column("AGE", lambda row, _now: age(row.age_s), lambda row: row.age_s),
    Column("DOING", _doing),
    Column(
        "QUEUE",
        lambda row, _now: f"{row.queue.immediate}/{row.queue.normal}/{row.queue.background}",
        lambda row: row.queue.immediate + row.queue.normal + row.queue.background,
    ),
    Column("COST$", lambda row, _now: cost(row.usage.cost_usd), lambda row: row.usage.cost_usd),
    Column("SILENT", lambda row, _now: age(row.silent_s), lambda row: row.silent_s),
    Column("STEP", lambda row, _now: str(row.step), lambda row: row.step),
    Column("STATUS", lambda row, _now: status_of(row)),
    Column("PID", lambda row, _now: str(row.pid or ""), lambda row: row.pid),
    Column("BACKEND", lambda row, _now: row.backend or ""),
    Column("MODEL", lambda row, _now: row.model or ""),
    Column("RESTARTS", lambda row, _now: str(row.restarts), lambda row: row.restarts),
    Column("EXIT", lambda row, _now: row.last_exit or ""),
    Column("NODE", lambda row, _now: row.node or ""),
    Column("CPU%", lambda row, _now: f"{row.cpu_percent:.1f}", lambda row: row.cpu_percent),
    Column("RSS", lambda row, _now: size(row.rss_bytes), lambda row: row.rss_bytes),
    Column(
        "TOKENS",
        lambda row, _now: f"{row.usage.input_tokens + row.usage.cache_write_tokens}/{row.usage.output_tokens}",
        lambda row: row.usage.input_tokens + row.usage.cache_write_tokens + row.usage.output_tokens,
    ),
    Column(
        "DIFF",
        lambda row, _now: "" if row.diff is None else f"+{row.diff.added}/-{row.diff.deleted}",
        lambda row: row.diff and row.diff.added + row.diff.deleted,
    ),
    Column("TASKS", _tasks),
    age_column("LAST", lambda row: row.last_event_at),
)
"""Columns in order of importance: a narrow window drops them from the right. QUEUE is immediate/normal/background.
AGE is that of the attempt, SILENT the time since its last output; DOING ends with the age of the step."""
BY_WORD: Final = {column.title.lower().rstrip("%$"): column for column in COLUMNS}
"""Columns by the words that users type: ``cpu`` is CPU%."""


def columns_for(rows: Sequence[Any], columns: Sequence[Column] = COLUMNS) -> Sequence[Column]:
    """Return the columns with content in ``rows``: NODE only if an agent runs on a node."""
    return [column for column in columns if column.title != "NODE" or any(row.node for row in rows)]


def sort_key(word: str) -> Callable[["PsRow"], Any]:
    """Return the sort key for a column: numbers descending, texts alphabetically. ``urgency`` is the kernel's order."""
    column = BY_WORD.get(word)
    if column is None:
        return lambda row: 0
    text, number = column.text, column.number
    return (lambda row: text(row, 0.0)) if number is None else (lambda row: -(number(row) or 0))


def cells(row: Any, now: float, columns: Sequence[Column] = COLUMNS) -> tuple[str, ...]:
    """Return the text of each of ``columns`` for a row, at a wall time in seconds since 1970."""
    return tuple(column.text(row, now) or "-" for column in columns)


def size(count: int) -> str:
    """Format ``count`` bytes as ``12.3M``; ``-`` for 0."""
    if count < 1024:
        return f"{count}B" if count > 0 else "-"
    power = min((count.bit_length() - 1) // 10, 3)
    return f"{count / 1024**power:.1f}{'BKMG'[power]}"


def age(seconds: float | None) -> str:
    """Format elapsed time in the largest unit that fits: ``42s``, ``5m``, ``3h``, ``2d``; ``-`` if it is unknown."""
    if seconds is None:
        return "-"
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def seconds_between(now: float, at: str | None) -> float | None:
    """Return the seconds from ``now`` to ``at`` (RFC 3339); None if ``at`` is missing or invalid."""
    if not at:
        return None
    from datetime import datetime  # noqa: PLC0415  (most agents have no time to be shown)

    try:
        return datetime.fromisoformat(at).timestamp() - now
    except ValueError:
        return None


def since(now: float, at: str | None) -> str:
    """Format the time that has passed since ``at`` (RFC 3339)."""
    left = seconds_between(now, at)
    return age(None if left is None else -left)
