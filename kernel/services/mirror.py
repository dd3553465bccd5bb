"""The mirror of messages: writes them to files in the project, after they are committed. Nothing reads them back.

It looks at the log from where it was, and never holds anybody up: it reads and writes in threads, in batches, at most
a tenth of the time. A directory that cannot be written is told once and tried again; the others go on. The place up to
which all is written is stored now and then; after a crash the ends of the files tell the rest (mirror_files).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import trio

from kernel.services.mirror_files import CHANNEL, MirrorFiles, Target
from kernel.store import agents, mirrors
from kernel.store.feed import Wake
from kernel.store.mirrors import Batch, Line, Place, redone, set_written
from kernel.store.reader import Reader
from kernel.store.writer import Writer
from protocol.agent_layout import default_dir, dir_fault
from protocol.errors import Refused
from protocol.message import Message

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"message", "space.cleared"})
PAUSE_SECONDS: Final = 0.05
"""Between two looks, at least."""
GATHER_SECONDS: Final = 0.2
"""From the first of what is said to the look: what follows is written together, and whoever waits for an answer is not
kept from it by a look of ours, which takes two threads."""
SHARE: Final = 9.0
"""How many times as long as a look took it rests before the next."""
LONGEST_REST_SECONDS: Final = 5.0
STORE_SECONDS: Final = 30.0
"""Between two commits of how far it is."""
RETRY_SECONDS: Final = 30.0
LAST_WRITE_SECONDS: Final = 2.0
"""The time that a clean stop gives it for the rest."""


class _Context(msgspec.Struct, frozen=True):
    dir: str | None = None


class _Homed(msgspec.Struct, frozen=True):
    context: _Context = _Context()


_homed: Final = msgspec.json.Decoder(_Homed)


class Mirror:
    """Writes messages of spaces to files (one task). ``conversations``: what is said to agents directly is too."""

    def __init__(
        self,
        *,
        reader: Reader,
        writer: Writer,
        wake: Wake,
        files: MirrorFiles,
        conversations: Callable[[], bool],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._wake = wake
        self._files = files
        self._conversations = conversations
        self._seen = 0
        self._stored = 0
        self._behind: dict[Place, int] = {}
        """Folders that could not be written, each with the last message before that."""
        self._unremoved: set[str] = set()
        """Spaces whose removed words could not be removed from files."""
        self._turn = trio.Lock()
        self._store_at = self._retry_at = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; then what is left, for as long as LAST_WRITE_SECONDS. Raises StorageFailed."""
        self._seen = self._stored = self._reader.now(mirrors.written)
        self._store_at = trio.current_time() + STORE_SECONDS
        task_status.started()
        try:
            while True:
                self._wake.clear()
                began = trio.current_time()
                await self.write()
                took = trio.current_time() - began
                await trio.sleep(min(max(PAUSE_SECONDS, SHARE * took), LONGEST_REST_SECONDS))
                now = trio.current_time()
                until = [self._store_at] if self._seen > self._stored else []
                until += [self._retry_at] if self._behind or self._unremoved else []
                with trio.move_on_after(max(PAUSE_SECONDS, min(until) - now) if until else float("inf")):
                    await self._wake.wait()
                    await trio.sleep(GATHER_SECONDS)
        finally:
            with trio.move_on_after(LAST_WRITE_SECONDS, shield=True):
                await self.write()
                await self._store()

    async def write(self) -> None:
        """Write all that is not written yet. Cancellation: what was begun is finished in its thread, by itself."""
        async with self._turn:
            with suppress(Refused):  # reading took too long; the next look goes on from here
                await self._redo()
                while await self._write_batch():
                    pass
                if self._behind and trio.current_time() >= self._retry_at:
                    # Write what could not be written before, if it works now.
                    self._retry_at = trio.current_time() + RETRY_SECONDS
                    for place in tuple(self._behind):
                        if await self._write_place(place):
                            del self._behind[place]
                            logger.info("mirror.caught_up %s", self._target(place).folder)
            if trio.current_time() >= self._store_at:
                await self._store()

    async def redo(self, patience_seconds: float = 5.0) -> None:
        """Have words that were removed from the log out of the files too. What takes longer is done later."""
        with trio.move_on_after(patience_seconds):
            async with self._turn:
                await self._redo()

    async def _write_batch(self) -> bool:
        batch = await self._reader.read(mirrors.lines, self._seen)
        said: dict[Place, list[Message]] = {}
        for line in self._wanted(batch.lines):
            said.setdefault(line.place, []).append(line.message)
        for place in await self._append({place: said[place] for place in said.keys() - self._behind.keys()}):
            self._behind[place] = said[place][0].seq - 1
        self._seen = batch.upto
        return batch.more

    def _wanted(self, lines: Iterable[Line]) -> Iterator[Line]:
        personal = self._conversations()
        return (line for line in lines if personal or line.place.folder is not None)

    async def _append(self, said: Mapping[Place, list[Message]]) -> Iterable[Place]:
        """Returns where it did not work; that is told the first time."""
        if not said:
            return ()
        targets = {place: self._target(place) for place in said}

        def append() -> dict[Place, Exception]:
            failed: dict[Place, Exception] = {}
            for place, target in targets.items():
                try:
                    self._files.append(target, said[place])
                except (OSError, ValueError) as error:
                    failed[place] = error
            return failed

        failed = await trio.to_thread.run_sync(append, abandon_on_cancel=True)
        for place in failed.keys() - self._behind.keys():
            logger.warning("mirror.failed %s: %s; it is tried again", targets[place].folder, failed[place])
            self._retry_at = trio.current_time() + RETRY_SECONDS
        return failed

    async def _write_place(self, place: Place) -> bool:
        """Write one folder up to where all others are. False: it cannot be written."""
        while True:
            batch: Batch = await self._reader.read(mirrors.lines, self._behind.get(place, 0), place)
            said = [line.message for line in self._wanted(batch.lines)]
            if said and await self._append({place: said}):
                return False
            self._behind[place] = batch.upto
            if not batch.more:
                return True

    async def _redo(self) -> None:
        for one in await self._reader.read(mirrors.to_redo):
            if one.space in self._unremoved and trio.current_time() < self._retry_at:
                continue
            try:
                for place in one.places:
                    if place.folder is None:
                        parts = await self._reader.read(mirrors.days, place.agent or "")
                    else:
                        parts = (CHANNEL, *await self._reader.read(mirrors.names, place.folder))
                    await trio.to_thread.run_sync(
                        self._files.remove, self._target(place), parts, abandon_on_cancel=True
                    )
                    self._behind[place] = 0
                    if await self._write_place(place):
                        del self._behind[place]
            except (OSError, ValueError) as error:
                if one.space not in self._unremoved:
                    logger.warning("mirror.not_removed %s: %s; it is tried again", one.space, error)
                self._unremoved.add(one.space)
                self._retry_at = trio.current_time() + RETRY_SECONDS
                continue
            self._unremoved.discard(one.space)
            with suppress(Refused):  # then it is made anew once more
                await self._writer.commit(redone, one.space)

    async def _store(self) -> None:
        """Store how far it is, if that is further than before and on the disk."""
        self._store_at = trio.current_time() + STORE_SECONDS
        reached = min([self._seen, *self._behind.values()])
        if reached <= self._stored:
            return
        try:
            await trio.to_thread.run_sync(self._files.sync, abandon_on_cancel=True)
            await self._writer.commit(set_written, reached)
        except (OSError, Refused) as error:
            logger.warning("mirror.not_stored %s", error)
            return
        self._stored = reached

    def _target(self, place: Place) -> Target:
        if place.folder is not None:
            return Target(place.folder)
        agent = place.agent or ""
        record = self._reader.now(agents.row, agent)
        own = None if record is None or record.definition is None else _homed.decode(record.definition).context.dir
        sound = own is not None and dir_fault(own, agent) is None
        return Target(own if own is not None and sound else default_dir(agent), agent)
