"""Questions about entries: what of an instruction is durable."""

from typing import Final

import apsw
import msgspec

from protocol.ipc import Entry
from protocol.names import number_of

_decoder: Final = msgspec.json.Decoder(Entry)

OF: Final = """
SELECT CASE WHEN e.blob IS NULL THEN e.body ELSE b.body END
FROM entries AS e LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.instruction = :id AND e.k >= :first AND e.k < :end ORDER BY e.k
"""

END: Final = 2**62
"""Behind every entry."""


def of(conn: apsw.Connection, instruction: str, first: int = 0, end: int = END) -> tuple[Entry, ...]:
    """The entries of an instruction over all its attempts, in order, from ``first`` up to and without ``end``."""
    rows = conn.execute(OF, {"id": number_of(instruction, "i"), "first": first, "end": end})
    return tuple(_decoder.decode(row[0]) for row in rows)
