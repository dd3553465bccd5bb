"""Tabs of ``awk top``: agents, runs, needs and tasks, with the queries, columns and states of their rows."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from interface.cli.commands.needs import need_lines
from interface.cli.commands.show import run_lines
from interface.cli.commands.teamwork import task_lines
from interface.cli.output import Screen, decode, view_lines
from interface.cli.process_table import COLUMNS, Column, age, age_column, cost, target_of
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


class Tab(msgspec.Struct, frozen=True):
    """Table of one kind of rows. The first word of the second column is the state, which selects the colour."""

    read: Callable[[Client], Sequence[Any]]
    key: Callable[[Any], str]
    columns: Sequence[Column]
    lines: Callable[[Client, Any, float], list[str]]
    """Returns a row in full."""


def _listed(path: str, kind: type[Any], field: str) -> Callable[[Client], Sequence[Any]]:
    return lambda client: getattr(decode(client.get(path, {"limit": ROWS}), kind), field)


def tasks(client: Client) -> Sequence[Any]:
    """Query the tasks of the running workflows."""
    found: list[Any] = []
    for row in json.loads(client.get("/workflows"))["workflows"][:WORKSPACES]:
        with suppress(Failure):  # the workflow has ended meanwhile, or has no channel
            space = quoted(f"{row['name']}:{row['tag']}")
            found += _listed(f"/spaces/{space}/tasks", TaskList, "tasks")(client)
    return found


def _title(row: Any, _now: float) -> str:
    return f"{row.title} (after {', '.join(row.blocked_by)})" if row.blocked_by else str(row.title)


_RUNS: Final = (
    Column("RUN", lambda row, _now: row.id),
    Column("STATE", lambda row, _now: row.status or row.state),
    age_column("AGE", lambda row: row.started_at),
    Column("DURATION", lambda row, _now: age(row.duration_seconds), lambda row: row.duration_seconds),
    Column("COST$", lambda row, _now: cost(row.cost_usd), lambda row: row.cost_usd),
    Column("VERDICT", lambda row, _now: row.verdict or ""),
    Column("WORKFLOW", lambda row, _now: row.run),
)
_NEEDS: Final = (
    Column("ID", lambda row, _now: row.id),
    Column("KIND", lambda row, _now: row.kind),
    age_column("AGE", lambda row: row.since),
    Column("TEXT", lambda row, _now: row.text),
)
_TASKS: Final = (
    Column("TASK", lambda row, _now: row.id),
    Column("STATE", lambda row, _now: row.state),
    age_column("AGE", lambda row: row.claimed_at or row.created_at),
    Column("AGENT", lambda row, _now: row.holder or row.for_ or ""),
    Column("WORKFLOW", lambda row, _now: row.space),
    Column("TITLE", _title),
)
TABS: Final[Mapping[str, Tab]] = {
    AGENTS: Tab(lambda _c: (), target_of, COLUMNS, lambda _c, _row, _t: []),
    "runs": Tab(
        _listed("/runs", RunList, "runs"),
        lambda row: str(row.id),
        _RUNS,
        lambda client, row, _t: view_lines(run_lines, client.get(f"/runs/{row.id}"), Screen()),
    ),
    "needs": Tab(
        _listed("/needs", NeedList, "items"),
        lambda row: f"{row.kind} {row.id}",
        _NEEDS,
        lambda _c, row, now: need_lines(row, Screen(), now),
    ),
    "tasks": Tab(tasks, lambda row: f"{row.space} {row.id}", _TASKS, lambda _c, row, _t: task_lines(row, Screen())),
}
"""Tabs in the order of the keys 1 to 4. The rows of ``awk ps`` are queried with the header."""
STYLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("running", "claimed"), "green"),
    **dict.fromkeys(("waiting", "backoff", "paused", "open", "approval", "vote", "answer", "task"), "yellow"),
    **dict.fromkeys(("error", "failed", "dead", "incomplete", "rejected", "timeout", "agent_error"), "red"),
    **dict.fromkeys(("credentials", "quota", "limit", "silent", "node", "project"), "red"),
    **dict.fromkeys(("stopped", "idle", "done", "cancelled"), "dim"),
}
"""Colour by state of an agent, run or task, and by kind of a need."""
