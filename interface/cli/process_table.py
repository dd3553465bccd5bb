"""Columns of the process table and their content, for ``ps`` and ``top``. Pure."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from interface.cli.output import width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from protocol.api.processes import PsRow


class Column(NamedTuple):
    """Column of the table; ``right`` aligns numbers."""

    title: str
    right: bool = False


COLUMNS: Final[tuple[Column, ...]] = (
    Column("NAME"),
    Column("STATE"),
    Column("AGE", right=True),
    Column("DOING"),
    Column("QUEUE", right=True),
    Column("COST$", right=True),
    Column("SILENT", right=True),
    Column("STEP", right=True),
    Column("STATUS"),
    Column("PID", right=True),
    Column("BACKEND"),
    Column("MODEL"),
    Column("RESTARTS", right=True),
    Column("EXIT"),
    Column("NODE"),
    Column("CPU%", right=True),
    Column("RSS", right=True),
    Column("TOKENS", right=True),
    Column("DIFF", right=True),
    Column("TASKS"),
    Column("LAST", right=True),
)
"""Columns in order of importance: a narrow window drops them from the right. QUEUE is immediate/normal/background.
AGE is that of the attempt, SILENT the time since its last output; DOING ends with the age of the step."""
GAP: Final = 2
"""Blanks between two columns."""
SLOW_SECONDS: Final = 10.0
"""Age from which on DOING states the age of the step."""


def columns_for(rows: "Sequence[PsRow]") -> tuple[Column, ...]:
    """Return the columns with content in ``rows``: NODE only if an agent runs on a node."""
    away = any(row.node for row in rows)
    return tuple(column for column in COLUMNS if away or column.title != "NODE")


def fitting(titled: "Sequence[Column]", texts: "Sequence[Sequence[str]]", columns: int | None) -> int:
    """Return the number of columns, from the left, that fit into ``columns`` (None: no limit); at least one."""
    used = -GAP
    for place, column in enumerate(titled):
        used += GAP + max([width(column.title), *(width(row[place]) for row in texts)])
        if columns is not None and used > columns:
            return max(place, 1)
    return len(titled)


BY_WORD: Final = MappingProxyType({column.title.lower().rstrip("%$"): column for column in COLUMNS})
"""Columns by the words that users type: ``cpu`` is CPU%."""


def sort_key(word: str) -> "Callable[[PsRow], Any]":
    """Return the sort key for a column: numbers descending, texts alphabetically."""

    def key(row: "PsRow") -> Any:
        usage = row.usage
        numbers = {
            "pid": row.pid or 0,
            "step": row.step,
            "age": row.age_s or 0.0,
            "silent": row.silent_s or 0.0,
            "queue": row.queue.immediate + row.queue.normal + row.queue.background,
            "restarts": row.restarts,
            "cpu": row.cpu_percent,
            "rss": row.rss_bytes,
            "tokens": usage.input_tokens + usage.cache_write_tokens + usage.output_tokens,
            "cost": usage.cost_usd or 0.0,
            "diff": 0 if row.diff is None else row.diff.added + row.diff.deleted,
        }
        if word in numbers:
            return -numbers[word]
        if word == "urgency":  # the kernel's order
            return 0
        if word == "last":  # the latest time first
            return [-ord(character) for character in row.last_event_at or ""] or [0]
        texts = {
            "state": row.state,
            "node": row.node,
            "backend": row.backend,
            "model": row.model,
            "doing": row.doing,
            "status": status_of(row),
        }
        return texts.get(word) or (row.last_exit or "" if word == "exit" else row.name)

    return key


def target_of(row: "PsRow") -> str:
    """Return the target of an agent; an agent of a workflow includes the workflow."""
    return row.name if row.space is None or row.space.startswith("dm:") else f"{row.name}@{row.space}"


def status_of(row: "PsRow") -> str:
    """Return the agent's own status in a few words."""
    return "" if row.status is None else ": ".join(part for part in (row.status.state, row.status.task) if part)


SHOWN: Final = 3
"""Maximum number of tasks in one cell."""


def cells(row: "PsRow", now: float, columns: "Sequence[Column]" = COLUMNS) -> tuple[str, ...]:
    """Return the text of each of ``columns`` for an agent, at a wall time in seconds since 1970."""
    workspace = row.space is not None and not row.space.startswith("dm:")
    left = seconds_between(now, row.until)
    until = f" {left:.0f}s" if left is not None and left > 0 else ""
    left = seconds_between(now, row.last_event_at)
    words = [  # t3 claimed, t5 after t3,t4
        f"{one.id} after {','.join(one.blocked_by)}" if one.blocked_by else f"{one.id} {one.state}" for one in row.tasks
    ]
    in_step = row.step_age_s or 0.0
    texts = (
        (f"{row.name}@{row.space}" if workspace else row.name),
        (row.state + until + (f" ({row.reason})" if row.reason else "")),
        "-" if row.age_s is None else age(row.age_s),
        " ".join([row.doing or "-", *([age(in_step)] if in_step >= SLOW_SECONDS else [])]),
        f"{row.queue.immediate}/{row.queue.normal}/{row.queue.background}",
        "-" if row.usage.cost_usd is None else f"{row.usage.cost_usd:.4f}",
        "-" if row.silent_s is None else age(row.silent_s),
        str(row.step),
        status_of(row) or "-",
        str(row.pid or "-"),
        row.backend or "-",
        row.model or "-",
        str(row.restarts),
        row.last_exit or "-",
        row.node or "-",
        f"{row.cpu_percent:.1f}",
        size(row.rss_bytes),
        f"{row.usage.input_tokens + row.usage.cache_write_tokens}/{row.usage.output_tokens}",
        "-" if row.diff is None else f"+{row.diff.added}/-{row.diff.deleted}",
        ", ".join([*words[:SHOWN], *([f"{len(words) - SHOWN} more"] if len(words) > SHOWN else [])]) or "-",
        ("-" if left is None else age(-left)),
    )
    return tuple(text for column, text in zip(COLUMNS, texts, strict=True) if column in columns)


def size(count: int) -> str:
    """Format ``count`` bytes as ``12.3M``; ``-`` for 0."""
    if count <= 0:
        return "-"
    value = float(count)
    for unit in "BKMG":
        if value < 1024 or unit == "G":
            return f"{value:.0f}B" if unit == "B" else f"{value:.1f}{unit}"
        value /= 1024
    raise AssertionError


def age(seconds: float) -> str:
    """Format elapsed time in the largest unit that fits: ``42s``, ``5m``, ``3h``, ``2d``."""
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
