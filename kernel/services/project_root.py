"""Watch over the project's folder: nothing is begun while it is renamed, deleted or replaced by another folder."""

import logging
from typing import Final

import trio

from kernel.source.safe_paths import root_fault

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0


async def watch_root(root: str) -> None:
    """Log until cancelled when the project's folder is lost, and when it is back."""
    told: str | None = None
    while True:
        fault = root_fault(root)
        if fault != told:
            logger.warning("project.%s %s", "back" if fault is None else "lost", fault or root)
            told = fault
        await trio.sleep(LOOK_SECONDS)
