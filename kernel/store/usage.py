"""What work took, by agent: tokens, money, how much of it there was, and how much of it failed."""

from typing import Final

import apsw

from protocol.api.usage import UsageRow
from protocol.instruction import Usage

# A name in several workflows is one row where it is one agent, and several where each has its own.
BY_AGENT: Final = """
SELECT agent, sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cost_usd), count(*),
  sum(state IN ('failed', 'dead'))
FROM instructions WHERE coalesce(:space, space) = space GROUP BY agent ORDER BY agent LIMIT 10000
"""


def by_agent(conn: apsw.Connection, space: str | None) -> tuple[UsageRow, ...]:
    """For each agent by its key, in one space or in all. Reads every instruction: ask in a thread."""
    return tuple(
        UsageRow(
            key=key,
            usage=Usage(input_tokens=read, output_tokens=written, cache_read_tokens=cached, cost_usd=cost),
            instructions=count,
            failures=failures,
        )
        for key, read, written, cached, cost, count, failures in conn.execute(BY_AGENT, {"space": space})
    )
