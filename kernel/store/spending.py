"""Spending: what budgets count, and the report by agent, workspace and model.

Queries for budgets are indexed, and bounded by the window, never by the queue.
"""

from typing import Final, Literal, cast

import apsw
import msgspec

from protocol.api.kernel import UsageReport, UsageRow
from protocol.instruction import ENDED, LARGEST, Usage
from protocol.names import SpaceId, number_of, place_of

MINUTE_MS: Final = 60_000
KEPT_MINUTES: Final = 31 * 24 * 60
"""As long as the longest window, and a day."""


class Spent(msgspec.Struct, frozen=True):
    """Tokens of every kind, USD as far as prices are known, and milliseconds worked in attempts that have ended."""

    tokens: int
    usd: float
    worked_ms: int = 0


OF_INSTRUCTION: Final = """
SELECT input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, coalesce(cost_usd, 0.0)
FROM instructions WHERE id = ?
"""


def of_instruction(conn: apsw.Connection, instruction: str) -> Spent:
    """By one instruction, over all its attempts."""
    row = conn.execute(OF_INSTRUCTION, (number_of(instruction, "i"),)).fetchone()
    return Spent(0, 0.0) if row is None else Spent(*row)


WORKED: Final = "SELECT coalesce(sum(worked_ms), 0) FROM attempts WHERE instruction = ?"


def worked_ms(conn: apsw.Connection, instruction: str) -> int:
    """For how long attempts that have ended worked on it."""
    (total,) = conn.execute(WORKED, (number_of(instruction, "i"),)).fetchone() or (0,)
    return int(total)


OF_AGENT: Final = """
SELECT CAST(min(total(tokens), :largest) AS INTEGER), min(total(usd), :largest), coalesce(sum(worked_ms), 0)
FROM spending WHERE agent = :agent AND minute >= :since
"""


def of_agent(conn: apsw.Connection, agent: str, since_ms: int) -> Spent:
    """By an agent since then, to the minute."""
    values = {"agent": agent, "since": since_ms // MINUTE_MS, "largest": LARGEST}
    tokens, usd, worked_ms = conn.execute(OF_AGENT, values).fetchone() or (0, 0.0, 0)
    return Spent(tokens, usd, worked_ms)


MINUTES: Final = """
SELECT minute, tokens, usd, worked_ms FROM spending WHERE agent = ? AND minute >= ? ORDER BY minute LIMIT 50000
"""


def by_minute(conn: apsw.Connection, agent: str, since_ms: int) -> tuple[tuple[int, Spent], ...]:
    """The same, minute by minute: when each of them ended, and what it took. Asked only once a budget is used up."""
    rows = conn.execute(MINUTES, (agent, since_ms // MINUTE_MS))
    return tuple(((minute + 1) * MINUTE_MS, Spent(*spent)) for minute, *spent in rows)


class RunMoney(msgspec.Struct, frozen=True):
    """Budget and spending of a run, or of a workflow that was started. Limits that are None do not hold."""

    mode: Literal["start", "run"]
    budget_tokens: int | None
    budget_usd: float | None
    spent_tokens: int
    spent_usd: float
    deadline_ms: int | None
    wall_time_ms: int | None


OF_RUN: Final = """
SELECT mode, budget_tokens, budget_usd, spent_tokens, spent_usd, deadline_ms, wall_time_ms FROM workflows WHERE id = ?
"""


def of_run(conn: apsw.Connection, run: int) -> RunMoney | None:
    """One run, by its number."""
    row = conn.execute(OF_RUN, (run,)).fetchone()
    return None if row is None else RunMoney(*row)


# One pass over what was asked for. Rows are few: agents, workspaces and models, and how work of them ended.
TOTALS: Final = """
SELECT i.agent, CASE WHEN i.run IS NULL THEN '' ELSE i.space END, coalesce(i.model, ''), i.state, count(*),
  CAST(min(total(i.input_tokens), :largest) AS INTEGER), CAST(min(total(i.output_tokens), :largest) AS INTEGER),
  CAST(min(total(i.cache_read_tokens), :largest) AS INTEGER),
  CAST(min(total(i.cache_write_tokens), :largest) AS INTEGER), min(sum(i.cost_usd), :largest), sum(i.steps),
  sum((SELECT sum(a.worked_ms) FROM attempts AS a WHERE a.instruction = i.id)),
  -- work whose price is not known, though it took tokens
  sum(i.cost_usd IS NULL AND i.input_tokens + i.output_tokens + i.cache_read_tokens
    + i.cache_write_tokens > 0)
FROM instructions AS i
-- a place stands for the spaces of all its runs, place#3
WHERE (:space IS NULL OR i.space = :space OR substr(i.space, 1, length(:space) + 1) = :space || '#')
  AND coalesce(:name, i.name) = i.name AND coalesce(:agent, i.agent) = i.agent
GROUP BY 1, 2, 3, 4
"""

_Row = tuple[str, str, str, str, int, int, int, int, int, float | None, int, int | None, int]


def report(
    conn: apsw.Connection, *, space: SpaceId | None = None, name: str | None = None, agent: str | None = None
) -> UsageReport:
    """Of all work; or of what was done in ``space`` (a place: in all its runs), by who is called ``name`` there, or by
    the ``agent`` of that key.

    Reads every instruction: ask in a thread.
    """
    values = {"space": space, "name": name, "agent": agent, "largest": LARGEST}
    found = [cast("_Row", row) for row in conn.execute(TOTALS, values)]
    return UsageReport(
        rows=_grouped(found, 0), workflows=_grouped(found, 1), models=_grouped(found, 2), total=_sum("", found)
    )


def _grouped(found: list[_Row], column: int) -> tuple[UsageRow, ...]:
    """A row for each value of ``column`` that says something, in order."""
    groups: dict[str, list[_Row]] = {}
    for row in found:
        groups.setdefault(place_of(str(row[column])), []).append(row)
    return tuple(_sum(key, groups[key]) for key in sorted(groups) if key)


def _sum(key: str, found: list[_Row]) -> UsageRow:
    statuses: list[str] = sorted(ENDED)
    ended = dict.fromkeys(statuses, 0)
    usage = Usage()
    instructions = steps = worked_ms = unpriced = 0
    for _agent, _space, _model, state, count, read, written, cached, kept, cost, stepped, worked, unknown in found:
        if state in ended:
            ended[state] += count
        usage = usage.plus(
            Usage(
                input_tokens=read,
                output_tokens=written,
                cache_read_tokens=cached,
                cache_write_tokens=kept,
                cost_usd=cost,
            )
        )
        instructions += count
        steps += stepped
        worked_ms += worked or 0
        unpriced += unknown
    return UsageRow(
        key=key,
        usage=usage,
        instructions=instructions,
        failures=ended["failed"] + ended["dead"],
        ended=ended,
        steps=steps,
        worked_seconds=worked_ms / 1000,
        unpriced=unpriced,
    )
