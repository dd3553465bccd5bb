"""What work took, by agent, by workspace, by model and in all: tokens, money, time, and how it ended."""

from typing import Final, cast

import apsw

from protocol.api.usage import UsageReport, UsageRow
from protocol.instruction import ENDED, LARGEST, Usage
from protocol.names import SpaceId, place_of

# One pass over what was asked for. Rows are few: agents, workspaces and models, and how work of them ended.
TOTALS: Final = """
SELECT i.agent, CASE WHEN i.run IS NULL THEN '' ELSE i.space END, coalesce(i.model, ''), i.state, count(*),
  CAST(min(total(i.input_tokens), :largest) AS INTEGER), CAST(min(total(i.output_tokens), :largest) AS INTEGER),
  CAST(min(total(i.cache_read_tokens), :largest) AS INTEGER),
  CAST(min(total(i.cache_write_tokens), :largest) AS INTEGER), min(sum(i.cost_usd), :largest), sum(i.steps),
  sum((SELECT sum(a.worked_ms) FROM attempts AS a WHERE a.instruction = i.id)),
  sum(i.cost_usd IS NULL AND i.input_tokens + i.output_tokens + i.cache_read_tokens
    + i.cache_write_tokens > 0)
FROM instructions AS i
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
