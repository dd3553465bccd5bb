"""Commits that must not be lost because the disk is full or the database is busy: they wait, and so does their work.

Nothing else is retried here: what the rule refuses stays refused (faults SF03, SF11).
"""

import logging
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

import trio

from kernel.store.transaction import Transaction
from kernel.store.writer import Writer
from protocol.errors import Refused

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

PASSING: Final = frozenset({"busy", "storage_full"})
"""Refusals that say nothing about the job: the same one can pass a moment later."""
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0


async def commit_patiently(
    writer: Writer, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Commit ``job``, however long the store cannot take it. Raises Refused for any other reason.

    Cancellation: the job was committed or it was not; ask the store.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await writer.commit(job, *args, **kwargs)
        except Refused as refused:
            if refused.code not in PASSING:
                raise
            logger.warning("store.refused %s: trying again in %.1f s", refused.code, pause)
        await trio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
