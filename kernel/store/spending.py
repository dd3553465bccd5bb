"""Questions about what was spent, for budgets: indexed, and bounded by the window, never by the queue."""

from typing import Final, Literal

import apsw
import msgspec

from protocol.instruction import LARGEST
from protocol.names import number_of

MINUTE_MS: Final = 60_000


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
    """What a run, or a workflow that was started, may cost and has cost. Limits that are None do not hold."""

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
