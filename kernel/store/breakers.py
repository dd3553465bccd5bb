"""Questions about breakers: which providers are being left alone. A breaker that has no row is closed."""

from typing import Final, cast

import apsw
import msgspec

from kernel.policy.breaker import Breaker, State
from protocol.instruction import WaitReason

ONE: Final = "SELECT key, reason, state, open_until_ms, opens, failures, probe FROM breakers WHERE key = ?"

_failures: Final = msgspec.json.Decoder(tuple[int, ...])


def breaker(conn: apsw.Connection, key: str) -> Breaker | None:
    """The breaker of ``key``, if it ever failed since it was last closed."""
    row = conn.execute(ONE, (key,)).fetchone()
    return None if row is None else _of(row)


ALL: Final = "SELECT key, reason, state, open_until_ms, opens, failures, probe FROM breakers ORDER BY key"


def breakers(conn: apsw.Connection) -> tuple[Breaker, ...]:
    """Every breaker that is not simply closed: a handful."""
    return tuple(_of(row) for row in conn.execute(ALL))


PROBER: Final = """
SELECT i.agent FROM breakers AS b CROSS JOIN instructions AS i ON i.id = b.probe
WHERE b.key = ? AND b.state = 'half_open'
"""


def closed_for(conn: apsw.Connection, keys: tuple[str, ...], agent: str) -> Breaker | None:
    """The first breaker among ``keys`` that keeps ``agent`` from calling; None: it may. A prober's agent may."""
    for key in keys:
        found = breaker(conn, key)
        if found is None or found.state == "closed":
            continue
        row = conn.execute(PROBER, (key,)).fetchone()
        if row is None or row[0] != agent:
            return found
    return None


PROBED_BY: Final = """
SELECT b.key FROM breakers AS b CROSS JOIN instructions AS i ON i.id = b.probe
WHERE b.state = 'half_open' AND i.agent = ?
"""


def probed_by(conn: apsw.Connection, agent: str) -> tuple[str, ...]:
    """The breakers that ``agent`` is trying whether they can be closed."""
    return tuple(str(key) for (key,) in conn.execute(PROBED_BY, (agent,)))


def _of(row: object) -> Breaker:
    key, reason, state, until, opens, failures, probe = cast(
        "tuple[str, WaitReason, State, int, int, bytes, int | None]", row
    )
    return Breaker(
        key=key,
        reason=reason,
        state=state,
        open_until_ms=until,
        opens=opens,
        failures=_failures.decode(failures),
        probe=probe,
    )
