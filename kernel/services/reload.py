"""Reload of edited files: tells the store of agents that changed, and everybody of files that are wrong.

What a wrong file said before stays in effect until it is mended. The system tells of edits (inotify), so waiting is
free (LF01; watchfiles was tried: it wakes twenty times a second to look whether anything has come). Where the system
cannot, edits are seen when an agent is leased next, and once a minute by the schedules.
"""

import ctypes
import logging
import os
import select
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, ENOENT, ENOTDIR
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.catalog import AGENTS, AgentScan, Catalog
from kernel.agents.registration import forget, gone, made_at_run_time, register, take_over
from kernel.source.safe_paths import root_fault
from kernel.store.transaction import emit_broken
from kernel.store.writer import StoreLog
from kernel.workflows.find import WORKFLOWS
from kernel.workflows.load import Definitions, definitions
from protocol.api.document import FileError
from protocol.errors import Refused

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
        self._covered: set[int] = set()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def cover(self, folders: Iterable[Path], what: int = _ANYTHING) -> bool:
        """Watch ``folders`` too, but not what is below them; one that is not there is left out. Raises CannotWatch.

        Cheap where it is watched already: called again after each change, it finds what was made anew. Returns whether
        there was any such.
        """
        before = len(self._covered)
        for folder in folders:
            number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), what | _ONLYDIR)
            if number >= 0:
                self._covered.add(number)  # never given twice
            elif (error := ctypes.get_errno()) not in _ABSENT:
                raise CannotWatch(os.strerror(error))
        return len(self._covered) > before

    async def changed(self) -> None:
        """Return once a file came, went or was written; what came meanwhile counts as one."""
        await trio.lowlevel.wait_readable(self._descriptor)
        with suppress(BlockingIOError):
            while os.read(self._descriptor, _CHUNK):
                pass

    def pending(self) -> bool:
        """Return whether something has changed that ``changed`` has not told of yet."""
        return bool(self._poll.poll(0))


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
START_SECONDS: Final = 0.8
"""So long a start waits for agents' files. There is time for two thousand; nobody waits for ten thousand."""


class Reload(msgspec.Struct, eq=False, kw_only=True):
    """Takes over edited definitions, and knows what the files say now. One task."""

    catalog: Catalog
    log: StoreLog
    sleep: Callable[[float], Awaitable[object]] = trio.sleep
    _told: frozenset[FileError] = frozenset()
    _seen: object = None
    _watch: DirectoryWatch | None = None
    _found: Definitions | None = None
    """What was there when last looked."""
    _sure: bool = False
    """Nobody was told of a change since."""
    _unread: bool = False
    """There were more files at the start than could be read then, and they are being read."""
    _left: frozenset[str] = frozenset()
    """Agents that a kernel which died had made at run time: a file of such a name that is still unread says what
    becomes of it, as one does that was read at the start."""

    async def start(self) -> AgentScan:
        """Register the agents before any work is begun: all of them, or as many as START_SECONDS allow.

        Then ``run`` goes on behind it; who gets a message is read at once. Raises BadDefinition for the project file.
        """
        scan = await register(self.catalog, self.log.writer, self.log.reader, START_SECONDS)
        self._unread = not scan.whole
        if self._unread:
            self._left = await made_at_run_time(self.log.reader)
        return scan

    async def current(self) -> Definitions | None:
        """The definitions as they are now, without looking at files where nothing can have changed.

        None while those that were there at the start are being read for the first time.
        """
        if self._sure and self._watch is not None and not self._watch.pending():
            return self._found
        if root_fault(str(self.catalog.root)) is not None:
            return self._found
        if self._unread and self._watch is not None:
            return None
        return await self._look()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled, or until the system cannot tell of edits any longer."""
        task_status.started()
        try:
            with watch_directories() as watch:
                self._watch = watch
                while True:
                    watch.cover(self._folders())
                    try:
                        await self.run_once()
                    except Refused as refused:  # a full disk: the next lease reads the files itself
                        logger.warning("reload.refused %s", refused.text)
                    if watch.cover(self._folders()):
                        continue  # a folder that a file names: something may have changed in it meanwhile
                    await watch.changed()
                    self._sure = False
                    await self.sleep(SETTLE_SECONDS)
        except CannotWatch as error:
            logger.warning("reload.off %s: an edited file counts when its agent works next", error)
        finally:
            self._watch = None
        if self._unread:
            await self.run_once()

    async def run_once(self) -> None:
        """Take over what the files say now, and tell what is wrong with them that was not told yet."""
        if root_fault(str(self.catalog.root)) is not None:
            return
        stamp = await trio.to_thread.run_sync(self._stamp)
        if stamp == self._seen:  # some other file of the root
            self._sure = True
            return
        found = await self._look()
        self._found, self._sure, self._unread = found, True, False
        if found.scan is not None:
            await take_over(found.scan, self.log.writer, self.log.reader, over=self._left)
            self._left = frozenset()
            # Agents whose files are gone: those that have work are kept until that has ended.
            if await gone(self.catalog, self.log.reader):
                await self.sleep(GONE_SECONDS)
                await forget(self.catalog, self.log.writer, self.log.reader)
        self._seen = stamp
        fresh = [one for one in dict.fromkeys(found.errors) if one not in self._told]
        self._told = frozenset(found.errors)
        for one in fresh:
            logger.warning("definition.broken %s:%d:%d %s", one.path, one.line, one.column, one.message)
        if fresh:
            await self.log.writer.commit(emit_broken, fresh)

    async def _look(self) -> Definitions:
        """Cancellation: the thread is left to itself, for ten thousand files would keep a stop waiting."""
        return await trio.to_thread.run_sync(definitions, self.catalog, abandon_on_cancel=True)

    def _stamp(self) -> object:
        """Another one than before where a definition came, went or was written. Blocks."""
        found: set[tuple[str, int, int]] = set()
        with suppress(OSError), os.scandir(self.catalog.root / WORKFLOWS) as entries:
            found |= {(one.name, one.stat().st_mtime_ns, one.stat().st_size) for one in entries}
        return self.catalog.stamp(), found

    def _folders(self) -> Iterator[Path]:
        root = self.catalog.root
        project = self.catalog.kept_project()
        files = (*(one for one in project.agents.values() if isinstance(one, str)), *project.workflows.values())
        yield from (root, root / AGENTS, root / WORKFLOWS)
        users = self.catalog.users_folder()
        yield from () if users is None else (users,)
        yield from {root / os.path.dirname(file) for file in (*files, *self.catalog.prompt_files())}
