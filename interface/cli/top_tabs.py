"""Tabs of ``awk top``: agents, runs, needs and tasks, with the queries, columns and states of their rows."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interface.cli.output import decode
from interface.cli.process_table import Column, age, cells, columns_for, seconds_between, target_of
from interface.client import Client, quoted
from interface.failure import Failure
from protocol.api.approvals import NeedList
from protocol.api.runs import RunList
from protocol.tasks import TaskList

ROWS: Final = "200"
"""Maximum number of rows that a tab requests of each list."""
WORKSPACES: Final = 20
"""Maximum number of running workflows whose tasks are listed."""
AGENTS: Final = "agents"
HELP: Final = (
    "1, 2, 3, 4, tab  agents, runs, needs, tasks",
    "up, down, j, k   choose a row, or scroll",
    "enter            open it, for an agent its work or last work",
    "i                list or fold idle agents",
    "l                its log",
    "a                approve a call: it is shown whole first",
    "n                deny one, in the same way",
    "p                pause or resume it",
    "c                cancel its work, after confirmation",
    "s                sort agents by another column",
    "/                show only rows whose name has a text",
    "escape           leave a view",
    "q                quit",
)


Lines = Callable[..., list[str]]


class Details(NamedTuple):
    """Formatters of the documents behind a row: an instruction, its prompt, changes, a run, a need, a task."""

    instruction: Lines
    prompt: Lines
    changes: Lines
    run: Lines
    need: Lines
    task: Lines
    log_events: str | tuple[str, ...]


class Tab(NamedTuple):
    """Table of one kind of rows. The first word of the second column is the state, which selects the colour."""

    read: Callable[[Client], Sequence[Any]]
    key: Callable[[Any], str]
    titles: Sequence[str]
    """Titles of the columns; empty for the columns of ``awk ps``."""
    cells: Callable[[Any, float, Sequence[Column]], tuple[str, ...]]

    def columns(self, rows: Sequence[Any]) -> Sequence[Column]:
        """Return the columns for ``rows``."""
        return [Column(title, title in _RIGHT) for title in self.titles] or columns_for(rows)


def _listed(path: str, kind: type[Any], field: str) -> Callable[[Client], Sequence[Any]]:
    return lambda client: getattr(decode(client.get(path, {"limit": ROWS}), kind), field)


def no_rows(_client: Client) -> Sequence[Any]:
    """Return no rows: the rows of ``awk ps`` are queried with the header."""
    return ()


def _joined(*names: str) -> Callable[[Any], str]:
    return lambda row: " ".join(getattr(row, name) for name in names)


def tasks(client: Client) -> Sequence[Any]:
    """Query the tasks of the running workflows."""
    found: list[Any] = []
    for row in json.loads(client.get("/workflows"))["workflows"][:WORKSPACES]:
        with suppress(Failure):  # the workflow has ended meanwhile, or has no channel
            space = quoted(f"{row['name']}:{row['tag']}")
            found += _listed(f"/spaces/{space}/tasks", TaskList, "tasks")(client)
    return found


def _since(now: float, at: str | None) -> str:
    passed = seconds_between(now, at)
    return "-" if passed is None else age(-passed)


def run_cells(row: Any, now: float, _columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the cells of a run."""
    cost = "-" if row.cost_usd is None else f"{row.cost_usd:.4f}"
    took = age(row.duration_seconds)
    return row.id, row.status or row.state, _since(now, row.started_at), took, cost, row.verdict or "-", row.run


def need_cells(row: Any, now: float, _columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the cells of a need."""
    return row.id, row.kind, _since(now, row.since), row.text


def task_cells(row: Any, now: float, _columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the cells of a task."""
    after = f" (after {', '.join(row.blocked_by)})" if row.blocked_by else ""
    since = _since(now, row.claimed_at or row.created_at)
    return row.id, row.state, since, row.holder or row.for_ or "-", row.space, row.title + after


_RIGHT: Final = frozenset({"AGE", "DURATION", "COST$"})
_RUNS: Final = ("RUN", "STATE", "AGE", "DURATION", "COST$", "VERDICT", "WORKFLOW")
_TASKS: Final = ("TASK", "STATE", "AGE", "AGENT", "WORKFLOW", "TITLE")
_NEEDS: Final = ("ID", "KIND", "AGE", "TEXT")
TABS: Final[Mapping[str, Tab]] = MappingProxyType(
    {
        AGENTS: Tab(no_rows, target_of, (), cells),
        "runs": Tab(_listed("/runs", RunList, "runs"), _joined("id"), _RUNS, run_cells),
        "needs": Tab(_listed("/needs", NeedList, "items"), _joined("kind", "id"), _NEEDS, need_cells),
        "tasks": Tab(tasks, _joined("space", "id"), _TASKS, task_cells),
    }
)
"""Tabs in the order of the keys 1 to 4."""
STYLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("running", "claimed"), "green"),
        **dict.fromkeys(("waiting", "backoff", "paused", "open", "approval", "vote", "answer", "task"), "yellow"),
        **dict.fromkeys(("error", "failed", "dead", "incomplete", "rejected", "timeout", "agent_error"), "red"),
        **dict.fromkeys(("credentials", "quota", "limit", "silent", "node", "project"), "red"),
        **dict.fromkeys(("stopped", "idle", "done", "cancelled"), "dim"),
    }
)
"""Colour by state of an agent, run or task, and by kind of a need."""
