"""Ending what a keeper left behind when it was killed itself: by descent while it lasts, then by cookie.

The zygote does the same from below, and sees more (it adopts every orphan); this is for the case that it is gone too.
"""

from collections.abc import Collection, Iterable
from typing import Final

import trio

from kernel.procs import process_table
from kernel.procs.process_table import ProcessId

ROUND_SECONDS: Final = 0.005
PATIENCE_SECONDS: Final = 2.0
"""A killed process is gone within milliseconds, unless the system holds it in an uninterruptible wait."""


async def end(
    roots: Iterable[ProcessId], cookies: Collection[str], patience_seconds: float = PATIENCE_SECONDS
) -> frozenset[ProcessId]:
    """SIGKILL ``roots``, all below them and all that carries ``cookies``, until none is found.

    Returns:
        Those that would not die within ``patience_seconds``; empty is the proof that they are gone.
    """
    known = set(roots)
    deadline = trio.current_time() + patience_seconds
    while known or cookies:
        alive = await trio.to_thread.run_sync(_round, known, cookies)
        if not alive or trio.current_time() >= deadline:
            return frozenset(alive)
        known |= alive
        await trio.sleep(ROUND_SECONDS)
    return frozenset()


def _round(known: set[ProcessId], cookies: Collection[str]) -> set[ProcessId]:
    """Kill all that can be found now. What was found before stays known: its own parent may be dead by now."""
    rows = process_table.table()
    found = process_table.family(known | process_table.carriers(cookies, rows), rows)
    for target in found:
        process_table.kill(target)
    return found
