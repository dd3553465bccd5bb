"""Questions about durable events."""

from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.store.clock_text import rfc3339
from kernel.store.messages import message_of
from protocol.events import Event
from protocol.names import instruction_id, number_of, place_of

LIMIT: Final = 1000
"""Events in one answer at most."""


class EventFilter(NamedTuple):
    """Only events with these values; None: any. ``space`` is what people call it: all runs of that name and tag.

    ``type`` may name several, with commas between them.
    """

    space: str | None = None
    agent: str | None = None
    type: str | None = None
    instruction: str | None = None
    beside: str | None = None
    """Events of this type too, whatever their other values."""


EVERYTHING: Final = EventFilter()

SINCE: Final = """
SELECT e.seq, e.type, e.at_ms, e.space, e.agent, e.instruction, e.data,
  m.seq, m.kind, m.space, m.sender, m.addressed, m.text, m.hops, m.cause, m.at_ms, m.cleared
FROM events AS e LEFT JOIN messages AS m ON m.seq = e.message
WHERE e.seq > :since AND (e.type = :beside
  OR (:space IS NULL OR e.space = :space OR substr(e.space, 1, length(:space) + 1) = :space || '#')
  AND (:agent IS NULL OR e.agent = :agent)
  AND (:type IS NULL OR instr(',' || :type || ',', ',' || e.type || ','))
  AND (:instruction IS NULL OR e.instruction = :instruction))
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
        "beside": wanted.beside,
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
        space=None if space is None else place_of(space),
        agent=agent,
        instruction=None if instruction is None else instruction_id(instruction),
        data=body,
    )


class Kept(NamedTuple):
    """From ``oldest`` to ``newest`` no event is missing. 0 and 0 where there never was one."""

    oldest: int
    newest: int


# Of old events only those of work that has not ended are left: up to there something is missing.
KEPT: Final = """
SELECT max(coalesce((SELECT min(e.seq) FROM events AS e), 0), CASE WHEN k.events > 0 THEN k.events + 1 ELSE 0 END),
  max(coalesce((SELECT max(e.seq) FROM events AS e), 0), k.events)
FROM kept AS k WHERE k.id = 1
"""


def kept(conn: apsw.Connection) -> Kept:
    """Which events can be read again."""
    return Kept(*cast("tuple[int, int]", conn.execute(KEPT).fetchone()))
