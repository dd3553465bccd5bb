"""Keys that were not there when work was tried: what is missing, in the words of who looked for it."""

from collections.abc import Iterable
from typing import Final

import apsw

from kernel.store.instructions import CHAIN
from protocol.names import number_of

# Who was refused waits for its provider's breaker. Who had no key to show waits for its own agent, and so does all of
# that agent's work behind it.
CREDENTIALS_ERROR: Final = """
SELECT t.stderr_tail FROM instructions AS i
CROSS JOIN instructions AS kept ON kept.agent = i.agent AND kept.state = 'waiting'
CROSS JOIN attempts AS t ON t.instruction = kept.id
WHERE i.id = ? AND kept.waits_for = 'credentials' AND kept.wait_key = 'agent:' || kept.agent AND t.outcome = 'auth'
ORDER BY t.instruction, t.epoch DESC LIMIT 1
"""


ANSWERED_BY: Final = "SELECT wait_key FROM instructions WHERE id = ? AND waits_for = 'answer'"


def missing_credentials(conn: apsw.Connection, id: str) -> str | None:
    """Return the credentials that are missing for the instruction to be tried; None where its provider was asked, or it
    waits for no key.

    Who waits for an answer lacks what whoever is to give it lacks.
    """
    number = number_of(id, "i")
    for _ in range(CHAIN):
        asks = conn.execute(ANSWERED_BY, (number,)).fetchone()
        if asks is None:
            break
        number = number_of(asks[0] or "", "i")
    row = conn.execute(CREDENTIALS_ERROR, (number,)).fetchone()
    return None if row is None else row[0]


def all_missing_credentials(conn: apsw.Connection, ids: Iterable[str]) -> dict[str, str]:
    """The same of several, for those of which it is so."""
    found = ((one, missing_credentials(conn, one)) for one in ids)
    return {one: why for one, why in found if why is not None}
