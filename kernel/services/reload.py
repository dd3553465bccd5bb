"""Reload of edited files: tells the store of agents that changed, and everybody of files that are wrong.

What a wrong file said before stays in effect until it is mended. The system tells of edits (inotify), so waiting is
free (LF01; watchfiles was tried: it wakes twenty times a second to look whether anything has come). Where the system
cannot, edits are seen when an agent is leased next, and once a minute by the schedules.
"""

import ctypes
import logging
import os
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, ENOENT, ENOTDIR
from pathlib import Path
from typing import Final

import trio

from kernel.agents.catalog import AGENTS, Catalog
from kernel.agents.registration import register, update
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents
from kernel.store.reader import Reader
from kernel.store.transaction import emit_broken
from kernel.store.writer import Writer
from kernel.workflows.find import WORKFLOWS
from kernel.workflows.load import broken_workflows
from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.names import AgentKey

logger = logging.getLogger(__name__)

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_ONLYDIR: Final = 0x01000000
_ANYTHING: Final = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
MOVED: Final = _MOVED_TO
"""Files that are put in place whole. The rest may be written all the time."""
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK: Final = 65536
_ABSENT: Final = frozenset({ENOENT, ENOTDIR, EACCES})


class CannotWatch(Exception):
    """The system has no such thing, or none left to give. The text says why."""


class DirectoryWatch:
    """Waits until something in a few directories changed. Made by ``watch_directories``."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc = libc
        self._descriptor = descriptor

    def cover(self, folders: Iterable[Path], what: int = _ANYTHING) -> None:
        """Watch ``folders`` too, but not what is below them; one that is not there is left out. Raises CannotWatch.

        Cheap where it is watched already: called again after each change, it finds what was made anew.
        """
        for folder in folders:
            if self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), what | _ONLYDIR) < 0:
                number = ctypes.get_errno()
                if number not in _ABSENT:
                    raise CannotWatch(os.strerror(number))

    async def changed(self) -> None:
        """Return once a file came, went or was written; what came meanwhile counts as one."""
        await trio.lowlevel.wait_readable(self._descriptor)
        with suppress(BlockingIOError):
            while os.read(self._descriptor, _CHUNK):
                pass


@contextmanager
def watch_directories() -> Generator[DirectoryWatch]:
    """A watch over nothing yet. Raises CannotWatch."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = libc.inotify_init1(_FLAGS)
    except AttributeError:
        raise CannotWatch("this system has no inotify") from None
    if descriptor < 0:
        raise CannotWatch(os.strerror(ctypes.get_errno()))
    try:
        yield DirectoryWatch(libc, descriptor)
    finally:
        os.close(descriptor)


SETTLE_SECONDS: Final = 0.1
"""Editors write a file in several steps; tools write several files."""
GONE_SECONDS: Final = 1.0
"""So long a file has to be away until its agent is forgotten: some editors delete before they write."""


class Reload:
    """Takes over edited definitions. One task."""

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
            with watch_directories() as watch:
                watch.cover(self._folders())
                while True:
                    try:
                        await self.run_once()
                    except Refused as refused:  # a full disk: the next lease reads the files itself
                        logger.warning("reload.refused %s", refused.text)
                    await watch.changed()
                    await self._sleep(SETTLE_SECONDS)
                    watch.cover(self._folders())
        except CannotWatch as error:
            logger.warning("reload.off %s: an edited file counts when its agent works next", error)

    async def run_once(self) -> None:
        """Take over what the files say now, and tell what is wrong with them that was not told yet."""
        # The stamp is another than before where a definition came, went or was written.
        found: set[tuple[str, int, int]] = set()
        with suppress(OSError), os.scandir(self._catalog.root / WORKFLOWS) as entries:
            found |= {(one.name, one.stat().st_mtime_ns, one.stat().st_size) for one in entries}
        stamp = self._catalog.stamp(), found
        if stamp == self._seen:  # some other file of the root
            return
        try:
            errors = (await update(self._catalog, self._writer, self._ephemeral())).errors
        except BadDefinition as error:
            errors = error.errors
        else:
            errors += await trio.to_thread.run_sync(broken_workflows, self._catalog)
            # Agents whose files are gone: those that have work are kept until that has ended.
            if self._gone():
                await self._sleep(GONE_SECONDS)
                if self._gone():
                    with suppress(BadDefinition):
                        await register(self._catalog, self._writer, self._reader, self._ephemeral())
        self._seen = stamp
        fresh = [one for one in dict.fromkeys(errors) if one not in self._told]
        self._told = frozenset(errors)
        for one in fresh:
            logger.warning("definition.broken %s:%d:%d %s", one.path, one.line, one.column, one.message)
        if fresh:
            await self._writer.commit(emit_broken, fresh)

    def _ephemeral(self) -> frozenset[AgentKey]:
        """Agents made at run time: whoever writes a file of that name says what becomes of them."""
        return frozenset(one.key for one in self._reader.now(agents.all) if one.origin == "ephemeral")

    def _gone(self) -> bool:
        names = frozenset(self._catalog.names())
        return any(one.origin == "file" and one.key not in names for one in self._reader.now(agents.all))

    def _folders(self) -> Iterator[Path]:
        root = self._catalog.root
        project = self._catalog.kept_project()
        files = (*(one for one in project.agents.values() if isinstance(one, str)), *project.workflows.values())
        yield from (root, root / AGENTS, root / WORKFLOWS)
        yield from {root / os.path.dirname(file) for file in files}
