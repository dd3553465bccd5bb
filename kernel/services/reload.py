"""Reloads edited definition files: updates changed agents in the store, and reports invalid files.

The previous version of an invalid file stays in effect until it is fixed. inotify reports edits
without polling (LF01; watchfiles polls 20 times per second). Without inotify, edits are noticed
when an agent is leased, and once a minute by the schedules.
"""

import ctypes
import gc
import logging
import os
import select
import struct
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, ENOENT, ENOTDIR
from pathlib import Path
from typing import Final, cast

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
from protocol.names import split_instance

logger = logging.getLogger(__name__)

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_ONLYDIR: Final = 0x01000000
_ANYTHING: Final = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
MOVED: Final = _MOVED_TO
"""Files moved into place; other files may change all the time."""
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK: Final = 65536
_EVENT: Final = struct.Struct("iIII")
_ABSENT: Final = frozenset({ENOENT, ENOTDIR, EACCES})


class CannotWatch(Exception):
    """inotify is missing or exhausted; the text has the reason."""


class DirectoryWatch:
    """Watch of a few directories, created by ``watch_directories``."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc = libc
        self._descriptor = descriptor
        self._covered: dict[int, Path | None] = {}
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def cover(self, folders: Iterable[Path], what: int = _ANYTHING) -> bool:
        """Also watch ``folders`` without their subfolders, ignoring missing ones. Raises CannotWatch.

        Calls after each change are cheap and include recreated folders. Returns whether a folder was added.
        """
        before = len(self._covered)
        for folder in folders:
            number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), what | _ONLYDIR)
            if number >= 0:
                known = self._covered.get(number, folder)  # numbers are never reused
                self._covered[number] = folder if known == folder else None  # two paths lead to the folder
            elif (error := ctypes.get_errno()) not in _ABSENT:
                raise CannotWatch(os.strerror(error))
        return len(self._covered) > before

    async def changed(self) -> frozenset[str]:
        """Wait until files were created, deleted or written; return their paths, or "" for lost reports."""
        await trio.lowlevel.wait_readable(self._descriptor)
        found: set[str] = set()
        with suppress(BlockingIOError):
            while data := os.read(self._descriptor, _CHUNK):
                end = 0
                while end < len(data):
                    number, _, _, length = _EVENT.unpack_from(data, end)
                    start, end = end + _EVENT.size, end + _EVENT.size + length
                    folder = self._covered.get(number)
                    found.add("" if folder is None else f"{folder}/{os.fsdecode(data[start:end].rstrip(bytes(1)))}")
        return frozenset(found)

    def pending(self) -> bool:
        """Return whether a change is pending that ``changed`` has not reported."""
        return bool(self._poll.poll(0))


@contextmanager
def watch_directories() -> Generator[DirectoryWatch]:
    """Yield a watch without directories; ``cover`` adds them. Raises CannotWatch."""
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
"""Delay for editors that write a file in several steps, and tools that write several files."""
GONE_SECONDS: Final = 1.0
"""Time until the agent of a missing file is forgotten, because some editors delete a file before writing it."""
START_SECONDS: Final = 0.8
"""Time limit for reading agents' files at startup: enough for two thousand, while ten thousand are read later."""


class Reload(msgspec.Struct, eq=False, kw_only=True):
    """Applies edited definitions, and caches the current ones; one task."""

    catalog: Catalog
    log: StoreLog
    sleep: Callable[[float], Awaitable[object]] = trio.sleep
    _told: frozenset[FileError] = frozenset()
    _watch: DirectoryWatch | None = None
    _found: Definitions | None = None
    """Definitions as of the last read."""
    _sure: bool = False
    """No change was reported since the last read."""
    _unread: bool = False
    """Files that could not be read within the startup limit are still being read."""
    _gone: bool = False
    """Agents without a file may remain, because they had work."""
    _left: frozenset[str] = frozenset()
    """Agents that a crashed kernel had created at run time; an unread file of the same name replaces them."""

    async def start(self) -> AgentScan:
        """Register as many agents as START_SECONDS allow, before any work starts, and return the scan of their files.

        ``run`` reads the rest; a file is read at once if its agent receives a message. Raises BadDefinition for the
        project file.
        """
        scan = await register(self.catalog, self.log.writer, self.log.reader, START_SECONDS)
        self._unread = not scan.whole
        if self._unread:
            self._left = await made_at_run_time(self.log.reader)
        return scan

    async def current(self) -> Definitions | None:
        """Return the current definitions, reading files only if they may have changed.

        Returns None until the initial files have been read.
        """
        if self._sure and self._watch is not None and not self._watch.pending():
            return self._found
        if root_fault(str(self.catalog.root)) is not None:
            return self._found
        if self._unread and self._watch is not None:
            return None
        return await self._look()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until cancelled, or until inotify fails."""
        task_status.started()
        try:
            with watch_directories() as watch:
                self._watch, changed = watch, cast("frozenset[str] | None", None)
                while True:
                    if watch.cover(self._folders()):  # a newly watched folder may have changed before
                        changed = None
                    try:
                        await self.run_once(changed)
                    except Refused as refused:  # full disk: the next lease reads the files itself
                        self._sure = False
                        logger.warning("reload.refused %s", refused.text)
                    changed = None
                    if watch.cover(self._folders()):
                        continue
                    edited = await watch.changed()
                    changed = edited if self._sure else None
                    self._sure = False
                    await self.sleep(SETTLE_SECONDS)
        except CannotWatch as error:
            logger.warning("reload.off %s: edited files are read when their agent works next", error)
        finally:
            self._watch = None
        if self._unread:
            await self.run_once()

    async def run_once(self, changed: Collection[str] | None = None) -> None:
        """Apply the current definitions, and report new errors. Only the files ``changed`` have changed, if given."""
        if root_fault(str(self.catalog.root)) is not None:
            return
        scan = None if self._found is None else self._found.scan
        names = None if changed is None or scan is None else self.catalog.touched(changed, self._workflows())
        if names is not None and not names:  # other files
            self._sure = True
            return
        if names is not None and scan is not None:  # another file may have mended a broken agent
            names = names.union(dict(scan.broken))
        found = await self._look(names)
        if self._unread:  # thousands of definitions remain: a collection of garbage would stop all for 0.1 seconds
            gc.collect()
            gc.freeze()
        self._found, self._sure, self._unread = found, True, False
        if found.scan is not None:
            loaded = [
                one for one in found.scan.loaded if names is None or split_instance(one.definition.name)[0] in names
            ]
            await take_over(loaded, self.log.writer, self.log.reader, over=self._left)
            self._left = frozenset()
            # Agents without a file; those with work stay until it has ended.
            before, now = (() if one is None else [a.definition.name for a in one.loaded] for one in (scan, found.scan))
            deleted = (
                self._gone or names is None or not all(map(self.catalog.defines, names)) or bool({*before} - {*now})
            )
            self._gone = deleted and bool(await gone(self.catalog, self.log.reader))
            if self._gone:
                await self.sleep(GONE_SECONDS)
                await forget(self.catalog, self.log.writer, self.log.reader)
        fresh = [one for one in dict.fromkeys(found.errors) if one not in self._told]
        self._told = frozenset(found.errors)
        for one in fresh:
            logger.warning("definition.broken %s:%d:%d %s", one.path, one.line, one.column, one.message)
        if fresh:
            await self.log.writer.commit(emit_broken, fresh)

    async def _look(self, names: Collection[str] | None = None) -> Definitions:
        # A stop does not wait for the reading of many files.
        return await trio.to_thread.run_sync(definitions, self.catalog, names, abandon_on_cancel=True)

    def _workflows(self) -> tuple[str, ...]:
        return (WORKFLOWS, *self.catalog.kept_project().workflows.values())

    def _folders(self) -> Iterator[Path]:
        root = self.catalog.root
        project = self.catalog.kept_project()
        files = (*(one for one in project.agents.values() if isinstance(one, str)), *project.workflows.values())
        yield from (root, root / AGENTS, root / WORKFLOWS)
        users = self.catalog.users_folder()
        yield from () if users is None else (users,)
        yield from {root / os.path.dirname(file) for file in (*files, *self.catalog.prompt_files())}
