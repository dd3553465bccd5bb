"""Spending: the amounts that budgets count, and the report by agent, workspace and model.

Queries for budgets use an index and depend on the window, not on the queue.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, Literal, NamedTuple

import apsw
import msgspec
from msgspec.structs import asdict

from kernel.store import rows
from kernel.store.rows import Sql, instruction_sql, select
from kernel.store.transaction import rfc3339
from protocol.api.kernel import GROUPED_BY, GroupedBy, UsageGroup, UsageNumbers, UsageReport, UsageRow
from protocol.api.overview import OverviewHour
from protocol.errors import Refused
from protocol.instruction import ENDED, LARGEST, Status, Usage
from protocol.names import SpaceId, number_of, place_of

MINUTE_MS: Final = 60_000
KEPT_MINUTES: Final = 31 * 24 * 60
"""Length of the longest window plus a day."""


class SpentAmounts(msgspec.Struct, frozen=True):
    """Tokens of all kinds, USD for known prices, and milliseconds of work of ended attempts."""

    tokens: int
    usd: float
    worked_ms: int = 0


OF_INSTRUCTION: Final = """
SELECT input_tokens + output_tokens + cache_read_tokens + cache_write_tokens AS tokens, coalesce(cost_usd, 0.0) AS usd,
  (SELECT coalesce(sum(a.worked_ms), 0) FROM attempts AS a WHERE a.instruction = i.id) AS worked_ms
FROM instructions AS i WHERE i.id = ?
"""


def of_instruction(conn: apsw.Connection, instruction: str) -> SpentAmounts:
    """Return the amounts of one instruction over all its attempts."""
    found = conn.execute(OF_INSTRUCTION, (number_of(instruction, "i"),))
    return rows.one(found, OF_INSTRUCTION, SpentAmounts) or SpentAmounts(0, 0.0)


OF_AGENT: Final = """
SELECT CAST(min(total(tokens), :largest) AS INTEGER) AS tokens, min(total(usd), :largest) AS usd,
  coalesce(sum(worked_ms), 0) AS worked_ms
FROM spending WHERE agent = :agent AND minute >= :since
"""


def of_agent(conn: apsw.Connection, agent: str, since_ms: int) -> SpentAmounts:
    """Return the amounts of an agent since the minute of ``since_ms``."""
    values = {"agent": agent, "since": since_ms // MINUTE_MS, "largest": LARGEST}
    return rows.one(conn.execute(OF_AGENT, values), OF_AGENT, SpentAmounts) or SpentAmounts(0, 0.0)


MINUTES: Final = """
SELECT minute, tokens, usd, worked_ms FROM spending WHERE agent = ? AND minute >= ? ORDER BY minute LIMIT 50000
"""


def by_minute(conn: apsw.Connection, agent: str, since_ms: int) -> tuple[tuple[int, SpentAmounts], ...]:
    """Return the amounts of an agent by minute, each with the minute's end in ms, in order."""
    rows = conn.execute(MINUTES, (agent, since_ms // MINUTE_MS))
    return tuple(((minute + 1) * MINUTE_MS, SpentAmounts(*spent)) for minute, *spent in rows)


class RunMoney(msgspec.Struct, frozen=True):
    """Budget and spending of a run. None means that a limit does not exist."""

    mode: Literal["start", "run"]
    budget_tokens: int | None
    budget_usd: float | None
    spent_tokens: int
    spent_usd: float
    deadline_ms: int | None
    wall_time_ms: int | None


of_run = Sql(select(RunMoney, "workflows WHERE id = ?")).row(RunMoney)
"""Return the budget, spending and time limits of one run."""


# One pass over the selected instructions. Columns that were not requested form one group.
USAGE: Final = """
SELECT iif(:agent, i.agent, '') AS agent, iif(:workflow AND i.run IS NOT NULL, i.space, '') AS place,
  iif(:model, coalesce(i.model, ''), '') AS model, iif(:day, date(i.ended_ms / 1000, 'unixepoch'), '') AS day, i.state,
  count(*) AS instructions, CAST(total(max(i.attempts + i.crashes - 1, 0)) AS INTEGER) AS retries,
  {spent}, sum(i.steps) AS steps,
  coalesce(sum((SELECT sum(a.worked_ms) FROM attempts AS a WHERE a.instruction = i.id)), 0) AS worked_ms,
  -- work with tokens but without a known price
  sum(i.cost_usd IS NULL AND i.input_tokens + i.output_tokens + i.cache_read_tokens
    + i.cache_write_tokens > 0) AS unpriced
FROM instructions AS i {period}
-- a public name includes the spaces of all its runs, name#3
  AND (:space IS NULL OR i.space = :space OR substr(i.space, 1, length(:space) + 1) = :space || '#')
  AND coalesce(:name, i.name) = i.name AND coalesce(:key, i.agent) = i.agent
GROUP BY 1, 2, 3, 4, 5 LIMIT :limit
"""
TOTALS: Final = instruction_sql(USAGE.replace("{period}", "WHERE true"))
# An index has the time of the end of work.
IN_TIME: Final = (
    "INDEXED BY instructions_ended WHERE i.ended_ms IS NOT NULL AND i.ended_ms >= :since AND i.ended_ms < :until"
)
ENDED_THEN: Final = instruction_sql(USAGE.replace("{period}", IN_TIME))


class _UsageSums(msgspec.Struct, frozen=True):
    agent: str
    place: str
    """Empty for work outside of workflows."""
    model: str
    day: str
    state: Status
    instructions: int
    retries: int
    steps: int
    worked_ms: int
    unpriced: int
    usage: Usage


def _sums(conn: apsw.Connection, statement: str, by: Sequence[GroupedBy], **values: Any) -> list[_UsageSums]:
    grouped = {word: word in by for word in GROUPED_BY}
    return rows.all_(conn.execute(statement, grouped | values | {"largest": LARGEST}), statement, _UsageSums)


def report(
    conn: apsw.Connection, *, space: SpaceId | None = None, name: str | None = None, agent: str | None = None
) -> UsageReport:
    """Return the usage in ``space`` (a public name: all its runs), of ``name`` or ``agent``, or all.

    ``name`` is an agent's name there, ``agent`` its key. Reads every instruction: call in a thread.
    """
    found = _sums(conn, TOTALS, ("agent", "workflow", "model"), space=space, name=name, key=agent, limit=-1)
    return UsageReport(
        rows=_grouped(found, lambda row: row.agent),
        workflows=_grouped(found, lambda row: row.place),
        models=_grouped(found, lambda row: row.model),
        total=_sum("", found),
    )


def _grouped(found: list[_UsageSums], column: Callable[[_UsageSums], str]) -> tuple[UsageRow, ...]:
    groups: dict[str, list[_UsageSums]] = {}
    for row in found:
        groups.setdefault(place_of(column(row)), []).append(row)
    return tuple(_sum(key, groups[key]) for key in sorted(groups) if key)


def _numbers(found: Sequence[_UsageSums]) -> UsageNumbers:
    return UsageNumbers(
        usage=reduce(Usage.plus, (row.usage for row in found), Usage()),
        instructions=sum(row.instructions for row in found),
        ended={one: sum(row.instructions for row in found if row.state == one) for one in sorted(ENDED)},
        steps=sum(row.steps for row in found),
        worked_seconds=sum(row.worked_ms for row in found) / 1000,
        unpriced=sum(row.unpriced for row in found),
    )


def _sum(key: str, found: Sequence[_UsageSums]) -> UsageRow:
    row = _numbers(found)
    return UsageRow(key=key, failures=row.ended["failed"] + row.ended["dead"], **asdict(row))


GROUPS_LIMIT: Final = 5_000

# Of each run with a landing in the period, the whole cost, including cost outside the period.
LANDED: Final = """
SELECT l.space AS place, date(min(l.ended_ms) / 1000, 'unixepoch') AS day, count(*) AS merges,
  (SELECT sum(i.cost_usd) FROM instructions AS i INDEXED BY instructions_run WHERE i.run = l.run) AS cost_usd
FROM landings AS l WHERE l.state = 'merged' AND l.ended_ms >= :since AND l.ended_ms < :until
  AND (:space IS NULL OR l.space = :space OR substr(l.space, 1, length(:space) + 1) = :space || '#')
GROUP BY l.run
"""


class Period(msgspec.Struct, frozen=True):
    """Period, with ``until_ms`` excluded, and the columns by which its work is grouped."""

    by: tuple[GroupedBy, ...]
    since_ms: int
    until_ms: int


class _LandedRow(msgspec.Struct, frozen=True):
    place: str
    day: str
    merges: int
    cost_usd: float | None


def over_time(
    conn: apsw.Connection,
    period: Period,
    *,
    space: SpaceId | None = None,
    name: str | None = None,
    agent: str | None = None,
) -> tuple[UsageGroup, ...]:
    """Return the usage of work that ended in ``period``, by group, and the total last.

    Landings belong to runs: work that is grouped by agent or model, or limited to one agent, has
    none. Reads every instruction that ended then: call in a thread. Raises Refused (too_large).
    """
    values = {"since": period.since_ms, "until": period.until_ms, "space": space}
    found = _sums(conn, ENDED_THEN, period.by, name=name, key=agent, limit=GROUPS_LIMIT + 1, **values)
    if len(found) > GROUPS_LIMIT:
        hint = "request a shorter period or fewer groups"
        raise Refused("too_large", f"report has more than {GROUPS_LIMIT} rows", hint)
    of_runs = agent is None and name is None
    landed = rows.all_(conn.execute(LANDED, values), LANDED, _LandedRow) if of_runs else []
    groups: dict[tuple[str, ...], tuple[list[_UsageSums], list[_LandedRow]]] = {}
    for row in found:
        groups.setdefault(_key(period, row.agent, row.place, row.model, row.day), ([], []))[0].append(row)
    of_runs_too = of_runs and not {"agent", "model"} & set(period.by)
    for one in landed if of_runs_too else ():
        groups.setdefault(_key(period, "", one.place, "", one.day), ([], []))[1].append(one)
    total = _group({}, found, landed if of_runs else None)
    named = [
        _group(dict(zip(period.by, key, strict=True)), work, landings if of_runs_too else None)
        for key, (work, landings) in sorted(groups.items())
    ]
    return (*named, total) if period.by else (total,)


def _key(period: Period, agent: str, place: str, model: str, day: str) -> tuple[str, ...]:
    found = {"agent": agent, "workflow": place_of(place), "model": model, "day": day}
    return tuple(found[word] for word in period.by)


def _group(key: dict[str, str], work: list[_UsageSums], landed: list[_LandedRow] | None) -> UsageGroup:
    row = _numbers(work)
    merges = None if landed is None else sum(one.merges for one in landed)
    spent = sum(one.cost_usd or 0.0 for one in landed or ())
    return UsageGroup(
        key=key,
        success=round(row.ended["done"] / row.instructions, 4) if row.instructions else None,
        retries=sum(one.retries for one in work),
        merges=merges,
        cost_per_merge=round(spent / merges, 6) if merges and spent else None,
        **asdict(row),
    )


HOUR_MS: Final = 60 * MINUTE_MS

# Spending by agent, and ended work in one pass over an index that has the time of its end.
HOURS: Final = """
SELECT hour * 3600000 AS at, CAST(total(tokens) AS INTEGER) AS tokens, round(total(usd), 6) AS cost_usd,
  sum(ended) AS ended, sum(failed) AS failed FROM (
  SELECT s.minute / 60 AS hour, s.tokens, s.usd, 0 AS ended, 0 AS failed
  FROM agents AS a CROSS JOIN spending AS s ON s.agent = a.key AND s.minute >= :since * 60
  UNION ALL
  SELECT i.ended_ms / 3600000, 0, 0, 1, i.state IN ('failed', 'dead') FROM instructions AS i
  INDEXED BY instructions_ended WHERE i.ended_ms IS NOT NULL AND i.ended_ms >= :since * 3600000)
GROUP BY 1
"""


def hours(conn: apsw.Connection, now_ms: int) -> tuple[OverviewHour, ...]:
    """Return the work of the last 24 hours, oldest first. Reads all of it: call in a thread."""
    last = now_ms // HOUR_MS
    found = rows.each(conn.execute(HOURS, {"since": last - 23}), HOURS, OverviewHour, at=rfc3339)
    made = {row.at: row for row in found}
    times = [rfc3339(hour * HOUR_MS) for hour in range(last - 23, last + 1)]
    return tuple(made.get(at) or OverviewHour(at, 0.0, 0, 0, 0) for at in times)


tokens_since = Sql("""
SELECT CAST(total(s.tokens) AS INTEGER) FROM agents AS a CROSS JOIN spending AS s ON s.agent = a.key AND s.minute > ?
""").scalar(int)
"""Return the tokens that all agents used after a minute."""


class Spent(NamedTuple):
    """Usage of an agent or model at a time."""

    name: str
    at_ms: int
    usage: Usage


ended_usage = instruction_sql("""
SELECT CASE :by WHEN 'agent' THEN i.agent ELSE coalesce(i.model, '') END AS name,
  i.ended_ms / :bucket * :bucket AS at_ms, {spent}
FROM instructions AS i INDEXED BY instructions_ended
WHERE i.ended_ms IS NOT NULL AND i.ended_ms >= :since AND i.ended_ms < :until GROUP BY 1, 2 LIMIT :limit
""").rows(Spent)
"""Return the usage of work that ended in a period, by name and start of the bucket. Reads all of it."""
