"""Lets edited files count at once: tells the store of agents that changed, and everybody of files that are wrong.

What a wrong file said before stays in effect until it is mended. Between edits it sleeps (LF01). Where the system
cannot tell of edits, they are seen when an agent is leased next, and once a minute by the timers.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from kernel.agents.catalog import AGENTS, Catalog
from kernel.agents.registry import register, update
from kernel.services.watching import CannotWatch, Watch, watching
from kernel.source.problems import BadDefinition
from kernel.store import agents
from kernel.store.commits.broken import tell_broken
from kernel.store.reader import Reader
from kernel.store.writer import Writer
from kernel.workflows.broken import broken_workflows
from kernel.workflows.find import WORKFLOWS
from protocol.api.problem import FileError
from protocol.errors import Refused
from protocol.names import AgentKey

logger = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 0.1
"""Editors write a file in several steps; tools write several files."""
GONE_SECONDS: Final = 1.0
"""So long a file has to be away until its agent is forgotten: some editors delete before they write."""


class Reload:
    """One task."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        reader: Reader,
        writer: Writer,
        sleep: Callable[[float], Awaitable[object]] = trio.sleep,
    ) -> None:
        self._catalog = catalog
        self._reader = reader
        self._writer = writer
        self._sleep = sleep
        self._told: frozenset[FileError] = frozenset()
        self._seen: object = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled, or until the system cannot tell of edits any longer."""
        task_status.started()
        try:
            with watching() as watch:
                watch.cover(self._folders())
                await self._follow(watch)
        except CannotWatch as error:
            logger.warning("reload.off %s: an edited file counts when its agent works next", error)

    async def _follow(self, watch: Watch) -> None:
        while True:
            try:
                await self.run_once()
            except Refused as refused:  # a full disk: the next lease reads the files itself
                logger.warning("reload.refused %s", refused.text)
            await watch.changed()
            await self._sleep(SETTLE_SECONDS)
            watch.cover(self._folders())

    async def run_once(self) -> None:
        """Take over what the files say now, and tell what is wrong with them that was not told yet."""
        stamp = self._stamp()
        if stamp == self._seen:  # some other file of the root
            return
        try:
            errors = (await update(self._catalog, self._writer, self._ephemeral())).errors
        except BadDefinition as error:
            errors = error.errors
        else:
            errors += await trio.to_thread.run_sync(broken_workflows, self._catalog)
            await self._forget()
        self._seen = stamp
        fresh = [one for one in dict.fromkeys(errors) if one not in self._told]
        self._told = frozenset(errors)
        for one in fresh:
            logger.warning("definition.broken %s:%d:%d %s", one.path, one.line, one.column, one.message)
        if fresh:
            await self._writer.commit(tell_broken, fresh)

    async def _forget(self) -> None:
        """Agents whose files are gone: those that have work are kept until that has ended."""
        if self._gone():
            await self._sleep(GONE_SECONDS)
            if self._gone():
                with suppress(BadDefinition):
                    await register(self._catalog, self._writer, self._reader, self._ephemeral())

    def _ephemeral(self) -> frozenset[AgentKey]:
        """Agents made at run time: whoever writes a file of that name says what becomes of them."""
        return frozenset(one.key for one in self._reader.now(agents.all) if one.origin == "ephemeral")

    def _gone(self) -> bool:
        names = frozenset(self._catalog.names())
        return any(one.origin == "file" and one.key not in names for one in self._reader.now(agents.all))

    def _stamp(self) -> object:
        """Another one than before where a definition came, went or was written."""
        found: set[tuple[str, int, int]] = set()
        with suppress(OSError), os.scandir(self._catalog.root / WORKFLOWS) as entries:
            found |= {(one.name, one.stat().st_mtime_ns, one.stat().st_size) for one in entries}
        return self._catalog.stamp(), found

    def _folders(self) -> Iterator[Path]:
        root = self._catalog.root
        project = self._catalog.kept_project()
        files = (*(one for one in project.agents.values() if isinstance(one, str)), *project.workflows.values())
        yield from (root, root / AGENTS, root / WORKFLOWS)
        yield from {root / os.path.dirname(file) for file in files}
