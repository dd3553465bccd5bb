"""Questions about durable events."""

from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.store.clock_text import rfc3339
from kernel.store.messages import message_of
from protocol.events import Event
from protocol.names import instruction_id, number_of

LIMIT: Final = 1000
"""Events in one answer at most."""


class EventFilter(NamedTuple):
    """Only events with these values; None: any."""

    space: str | None = None
    agent: str | None = None
    type: str | None = None
    instruction: str | None = None


EVERYTHING: Final = EventFilter()

SINCE: Final = """
SELECT e.seq, e.type, e.at_ms, e.space, e.agent, e.instruction, e.data,
  m.seq, m.kind, m.space, m.sender, m.addressed, m.text, m.hops, m.cause, m.at_ms
FROM events AS e LEFT JOIN messages AS m ON m.seq = e.message
WHERE e.seq > :since
  AND (:space IS NULL OR e.space = :space)
  AND (:agent IS NULL OR e.agent = :agent)
  AND (:type IS NULL OR e.type = :type)
  AND (:instruction IS NULL OR e.instruction = :instruction)
ORDER BY e.seq LIMIT :limit
"""

_data: Final = msgspec.json.Decoder(dict[str, Any])


def since(conn: apsw.Connection, seq: int, limit: int = LIMIT, wanted: EventFilter = EVERYTHING) -> tuple[Event, ...]:
    """The first ``limit`` wanted events after ``seq``. With a filter it may read many rows: ask in a thread."""
    values = {
        "since": seq,
        "limit": min(limit, LIMIT),
        "space": wanted.space,
        "agent": wanted.agent,
        "type": wanted.type,
        "instruction": None if wanted.instruction is None else number_of(wanted.instruction, "i") or -1,
    }
    return tuple(_event(row) for row in conn.execute(SINCE, values))


def _event(row: object) -> Event:
    seq, kind, at_ms, space, agent, instruction, data, *message = cast("tuple[Any, ...]", row)
    if message[0] is not None:
        body = msgspec.to_builtins(message_of(message))
    else:
        body = {} if data is None else _data.decode(data)
    return Event(
        type=kind,
        at=rfc3339(at_ms),
        seq=seq,
        space=space,
        agent=agent,
        instruction=None if instruction is None else instruction_id(instruction),
        data=body,
    )


class Kept(NamedTuple):
    """The sequence numbers of the oldest and the newest event that are kept; 0 and 0 when there is none."""

    oldest: int
    newest: int


KEPT: Final = "SELECT coalesce((SELECT min(seq) FROM events), 0), coalesce((SELECT max(seq) FROM events), 0)"


def kept(conn: apsw.Connection) -> Kept:
    """Which events can be read again."""
    return Kept(*cast("tuple[int, int]", conn.execute(KEPT).fetchone()))
