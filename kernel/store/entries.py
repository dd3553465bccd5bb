"""Questions about entries: what of an instruction is durable."""

from typing import Final

import apsw
import msgspec

from protocol.ipc import Entry
from protocol.names import number_of

_decoder: Final = msgspec.json.Decoder(Entry)

OF: Final = "SELECT body FROM entries WHERE instruction = ? ORDER BY k"


def of(conn: apsw.Connection, instruction: str) -> tuple[Entry, ...]:
    """The entries of an instruction over all its attempts, in order: what a new attempt resumes from."""
    rows = conn.execute(OF, (number_of(instruction, "i"),))
    return tuple(_decoder.decode(row[0]) for row in rows)
