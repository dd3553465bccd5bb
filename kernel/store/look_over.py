"""Whether a database file is damaged, as far as can be told without keeping anybody waiting (fault SF07).

A small file is looked at as a whole, of a large one what fits into the patience. Pages carry no checksums: what
is found is damage to the structure, not a changed letter in a text.
"""

import time
from typing import Final

import apsw

PATIENCE_SECONDS: Final = 0.15
_STEPS: Final = 1000
"""Between two looks at the clock, in SQLite's virtual machine."""
_CHECK: Final = "PRAGMA quick_check(1)"
_HARMLESS: Final = ("ok", "CHECK constraint failed", "NULL value")
"""What quick_check says of a file that is whole, or of rows that another schema allowed."""


def damage(connection: apsw.Connection) -> str | None:
    """What is broken, in SQLite's words; None: nothing was found in time. Raises apsw.Error."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        found = str(connection.execute(_CHECK).get)
    except apsw.InterruptError:
        return None
    finally:
        connection.set_progress_handler(None)
    return None if found.startswith(_HARMLESS) else " ".join(found.split())
