"""The homes of programs, ``sessions/<agent>/<space>/``: removed with what was said there, and when nothing needs them.

A home is of use as long as something in it may be resumed: while its agent has work in its space that has not ended,
or that ended not long ago. It knows no backend, and never looks into a home.
"""

import logging
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import trio

from kernel.services.folders import plain

logger = logging.getLogger(__name__)

_GOING: Final = ".going-"


class Homes:
    """All homes of a project, below ``root``; None: there are none."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root

    async def forget(self, agent: str | None, space: str | None) -> None:
        """Remove the homes of ``agent`` (its key), those in ``space``, or of one in the other. Raises nothing.

        Cancellation waits until they are gone.
        """

        def meant(found: tuple[str, str]) -> bool:
            return all(asked is None or plain(asked) == name for asked, name in zip((agent, space), found, strict=True))

        await trio.to_thread.run_sync(self._remove, meant)

    async def keep(self, needed: Collection[tuple[str, str]]) -> int:
        """Remove the homes that are not of these agents (their keys) in these spaces. Returns how many."""
        names = {(plain(agent), plain(space)) for agent, space in needed}

        def unneeded(found: tuple[str, str]) -> bool:
            return found not in names

        return await trio.to_thread.run_sync(self._remove, unneeded)

    def _remove(self, unwanted: Callable[[tuple[str, str]], bool]) -> int:
        removed = [home for home in self._all() if unwanted((home.parent.name, home.name))]
        for home in removed:
            _remove(home)
            _leave(home.parent)
        return len(removed)

    def _all(self) -> Iterator[Path]:
        if self._root is not None:
            yield from [path for path in self._root.glob("*/*") if path.is_dir() and not path.is_symlink()]


def _remove(home: Path) -> None:
    """Out of the way first: whoever begins now makes itself a new one."""
    going = home.with_name(f"{_GOING}{secrets.token_hex(4)}")
    try:
        home.rename(going)
    except OSError as error:
        logger.warning("homes.kept %s: %s", home, error)
        return
    shutil.rmtree(going, ignore_errors=True)


def _leave(agent: Path) -> None:
    """Remove the agent's folder where that was its last home."""
    try:
        agent.rmdir()
    except OSError:
        return
