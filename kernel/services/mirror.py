"""Mirror: writes messages and documents to files in the project after their commit.

Messages are never read back. People's edits of document files become versions by ``user``;
conflicts are reported, and people's text is never overwritten.

The mirror follows the log from its last position without delaying other work: it reads and writes
in threads, in batches, at most a tenth of the time. A directory that cannot be written is reported
once and retried; others are not affected. The position is stored periodically; after a crash, the
last line of each file shows which later messages were written (mirror_files).
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import trio

from kernel.policy.documents import DocumentChange, Mirrored, mirror_step
from kernel.rule.draft import Draft
from kernel.services.mirror_files import CHANNEL, DOCUMENTS, DocumentFile, DocumentFiles, MirrorFiles, MirrorTarget
from kernel.store import agents, documents, mirrors
from kernel.store.feed import Wake
from kernel.store.mirrors import DocumentFolder, MirrorBatch, MirrorLine, MirrorPlace, redone, set_written
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.documents import change
from kernel.store.writer import StoreLog
from protocol.agent_layout import default_dir, dir_fault
from protocol.documents import CONTENT_BYTES
from protocol.errors import Refused
from protocol.message import SYSTEM, Message
from protocol.names import place_of

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"message", "space.cleared"})
PAUSE_SECONDS: Final = 0.05
"""Minimum time between two rounds."""
GATHER_SECONDS: Final = 0.2
"""Delay between the first new message and the round, so that more messages are written together, and callers that
wait for an answer are not slowed down by a round, which uses two threads."""
SHARE: Final = 9.0
"""Rest before the next round, as a multiple of the duration of the last one."""
LONGEST_REST_SECONDS: Final = 5.0
STORE_SECONDS: Final = 30.0
"""Interval of commits of the position."""
RETRY_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0
"""Interval of checks of document files while a workflow with documents runs."""
SLOW_LOOK_SECONDS: Final = 15.0
"""Interval of checks of document files while no such workflow runs."""
LAST_WRITE_SECONDS: Final = 2.0
"""Time for the remaining writes during a clean stop."""


_UNSEEN: Final = Mirrored(0, b"")


class _Context(msgspec.Struct, frozen=True):
    dir: str | None = None


class _Homed(msgspec.Struct, frozen=True):
    context: _Context = _Context()


_homed: Final = msgspec.json.Decoder(_Homed)


class Mirror(msgspec.Struct, eq=False, kw_only=True):
    """Writes messages of spaces to files, in one task; ``conversations`` enables personal messages."""

    log: StoreLog
    wake: Wake
    files: MirrorFiles
    conversations: Callable[[], bool]
    document_files: DocumentFiles
    _seen: int = 0
    _stored: int = 0
    _behind: dict[MirrorPlace, int] = {}
    """Folders that could not be written, with the last message written before."""
    _unremoved: set[str] = set()
    """Spaces whose deleted messages could not be removed from files."""
    _look_at: float = float("inf")
    """Next check of document files for people's edits; infinite without such files."""
    _digests: dict[tuple[str, str], tuple[int, bytes | None]] = {}
    """Last checked version of each document of a space, with the digest of its text."""
    _faulty: set[str] = set()
    """Folders of documents whose read or write error was reported."""
    _turn: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _store_at: float = 0.0
    _retry_at: float = 0.0
    _lost_at: float = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled, then the remaining messages within LAST_WRITE_SECONDS. Raises StorageFailed."""
        self._seen = self._stored = self.log.reader.now(mirrors.written)
        self._store_at = trio.current_time() + STORE_SECONDS
        task_status.started()
        try:
            while True:
                self.wake.clear()
                began = trio.current_time()
                await self.write()
                took = trio.current_time() - began
                await trio.sleep(min(max(PAUSE_SECONDS, SHARE * took), LONGEST_REST_SECONDS))
                now = trio.current_time()
                until = [self._store_at] if self._seen > self._stored else []
                until += [self._retry_at] if self._behind or self._unremoved else []
                until.append(self._look_at)
                with trio.move_on_after(max(PAUSE_SECONDS, min(until) - now) if until else float("inf")):
                    await self.wake.wait()
                    await trio.sleep(GATHER_SECONDS)
        finally:
            with trio.move_on_after(LAST_WRITE_SECONDS, shield=True):
                await self.write()
                await self._store()

    async def write(self) -> None:
        """Write everything new; after a cancellation, the current write is finished in its thread."""
        async with self._turn:
            with suppress(Refused):  # reading took too long; the next round continues from here
                await self._redo()
                while await self._write_batch():
                    pass
                if self._behind and trio.current_time() >= self._retry_at:
                    # Retry what could not be written before.
                    self._retry_at = trio.current_time() + RETRY_SECONDS
                    for place in tuple(self._behind):
                        if await self._write_place(place):
                            del self._behind[place]
                            logger.info("mirror.caught_up %s", self._target(place).folder)
            with suppress(Refused):
                await self._sync_documents()
            if trio.current_time() >= self._store_at:
                await self._store()

    async def _sync_documents(self) -> None:
        folders = self.log.reader.now(mirrors.document_folders)  # usually none
        rest = LOOK_SECONDS if any(one.running for one in folders) else SLOW_LOOK_SECONDS if folders else float("inf")
        self._look_at = trio.current_time() + rest
        again = trio.current_time() >= self._lost_at
        if again:
            self._lost_at = trio.current_time() + SLOW_LOOK_SECONDS
        for one in folders:
            try:
                if one.running and again:
                    await self._look_for_lost(MirrorPlace(folder=one.folder))
                if one.newest:
                    await self._sync_folder(one)
                else:
                    await self._remove_documents(one)
                self._faulty.discard(one.folder)
            except (OSError, ValueError) as error:
                if one.folder not in self._faulty:
                    logger.warning("mirror.documents_failed %s: %s; it will be retried", one.folder, error)
                self._faulty.add(one.folder)

    async def _look_for_lost(self, place: MirrorPlace) -> None:
        lost = await trio.to_thread.run_sync(self.files.lost, self._target(place), abandon_on_cancel=True)
        if lost and place not in self._behind:
            await self._make_anew(place, lost, self._seen + 1)

    async def _sync_folder(self, one: DocumentFolder) -> None:
        files, now = self.document_files, trio.current_time()
        looked = await trio.to_thread.run_sync(files.look, one.folder, now, abandon_on_cancel=True)
        found = looked or {}
        left = await self.log.reader.read(mirrors.left_files, one)
        newest = await self._newest(one.space)
        kept: dict[str, Mirrored | None] = {}
        for file in sorted(found.keys() | left.keys() | newest.keys()):
            version, text_digest = newest.get(file, (0, None))
            there, before = found.get(file), left.get(file)
            digest = None if there is None else there.digest
            after = None if text_digest is None else Mirrored(version, text_digest)
            match mirror_step(version, text_digest, before, digest):
                case "same":
                    if after != before:
                        kept[file] = after
                case "delete" if looked is not None:
                    await self._take(one, file, None, before)
                case "write" | "remove" | "delete":
                    document = await self.log.reader.read(documents.find, one.space, file)
                    if document is not None and document.version == version:
                        text = document.text
                    elif text_digest is None:
                        text = None  # cleared
                    else:
                        continue  # a newer version exists; the next round writes it
                    if await trio.to_thread.run_sync(files.put, one.folder, file, text, digest):
                        kept[file] = after
                case "take" if there is not None and there.settled:
                    await self._take(one, file, there, before)
                case _:
                    pass
        if kept:
            await self.log.writer.commit(mirrors.leave_files, one, kept)

    async def _newest(self, space: str) -> dict[str, tuple[int, bytes | None]]:
        made: dict[str, tuple[int, bytes | None]] = {}
        for file, (version, deleted) in (await self.log.reader.read(mirrors.versions, space)).items():
            known = self._digests.get((space, file))
            if deleted:
                made[file] = (version, None)
            elif known is not None and known[0] == version:
                made[file] = known
            else:
                document = await self.log.reader.read(documents.find, space, file)
                if document is not None and document.text is not None:
                    made[file] = self._digests[space, file] = (
                        document.version,
                        hashlib.sha256(document.text.encode()).digest(),
                    )
        return made

    async def _take(self, one: DocumentFolder, file: str, found: DocumentFile | None, before: Mirrored | None) -> None:
        """Create a version from a person's edit of a file (``found`` None: deletion); report a refused edit."""
        path, left = f"{one.folder}/{DOCUMENTS}/{file}", before or _UNSEEN

        def take(tx: Transaction) -> None:
            after: Mirrored | None
            try:
                if found is None:
                    asked = DocumentChange("delete", since=left.version)
                elif found.text is None:
                    raise Refused("bad_request", f"the file is not UTF-8, or larger than {CONTENT_BYTES:,} bytes")
                else:
                    asked = DocumentChange("write", found.text, left.version)
                taken = change(tx, one.space, file, asked, f"from {path}")
                after = None if found is None else Mirrored(taken.version, found.digest)
            except Refused as refused:
                here = f"awk doc read @{place_of(one.space)} {file}"
                text = (
                    f"[DOC_CONFLICT] the edit of {path} was not accepted: {refused.text}\n"
                    f"The file still has the edit. Compare it with the document ({here}), and save the file again."
                )
                append(tx, Draft(kind="system", space=one.space, sender=SYSTEM, text=text))
                document = documents.find(tx.conn, one.space, file)
                version = left.version if document is None else document.version
                after = Mirrored(version, left.digest, None if found is None else found.digest)
            mirrors.leave_files(tx, one, {file: after})

        await self.log.writer.commit(take)

    async def _remove_documents(self, one: DocumentFolder) -> None:
        gone: dict[str, Mirrored | None] = {}
        for file, left in (await self.log.reader.read(mirrors.left_files, one)).items():
            with suppress(FileNotFoundError):
                await trio.to_thread.run_sync(self.document_files.put, one.folder, file, None, left.digest)
            gone[file] = None
        await self.log.writer.commit(mirrors.leave_files, one, gone)

    async def redo(self, patience_seconds: float = 5.0) -> None:
        """Update the files from the log and remove deleted messages; finish later if this takes too long."""
        with trio.move_on_after(patience_seconds):
            async with self._turn:
                await self._redo()
                with suppress(Refused):
                    while await self._write_batch():
                        pass
                    await self._sync_documents()

    async def _write_batch(self) -> bool:
        batch = await self.log.reader.read(mirrors.lines, self._seen)
        said: dict[MirrorPlace, list[Message]] = {}
        for line in self._wanted(batch.lines):
            said.setdefault(line.place, []).append(line.message)
        for place in await self._append({place: said[place] for place in said.keys() - self._behind.keys()}):
            self._behind[place] = said[place][0].seq - 1
        self._seen = batch.upto
        return batch.more

    def _wanted(self, lines: Iterable[MirrorLine]) -> Iterator[MirrorLine]:
        personal = self.conversations()
        return (line for line in lines if personal or line.place.folder is not None)

    async def _append(self, said: Mapping[MirrorPlace, list[Message]], *, begin: bool = False) -> Iterable[MirrorPlace]:
        """Append messages; log and return failed places. ``begin``: ``said`` are the first ones."""
        if not said:
            return ()
        targets = {place: self._target(place) for place in said}

        def append() -> tuple[dict[MirrorPlace, Exception], dict[MirrorPlace, tuple[str, ...]]]:
            failed: dict[MirrorPlace, Exception] = {}
            lost: dict[MirrorPlace, tuple[str, ...]] = {}
            for place, target in targets.items():
                try:
                    if parts := self.files.append(target, said[place], begin=begin):
                        lost[place] = parts
                except (OSError, ValueError) as error:
                    failed[place] = error
            return failed, lost

        failed, lost = await trio.to_thread.run_sync(append, abandon_on_cancel=True)
        for place in failed.keys() - self._behind.keys():
            logger.warning("mirror.failed %s: %s; it will be retried", targets[place].folder, failed[place])
            self._retry_at = trio.current_time() + RETRY_SECONDS
        again: list[MirrorPlace] = []
        for place, parts in lost.items():
            done = await self._make_anew(place, parts, said[place][0].seq)
            if done is None:  # these are the first messages
                done = not await self._append({place: said[place]}, begin=True)
            again += [] if done else [place]
        return (*failed, *again)

    async def _make_anew(self, place: MirrorPlace, parts: tuple[str, ...], before: int) -> bool | None:
        """Recreate lost files of ``place`` from the log, and return whether they could be written.

        Return None if the log has no message for them before ``before``.
        """
        if not await self.log.reader.read(mirrors.said_earlier, place, parts, before):
            return None
        logger.warning("mirror.lost %s: %s; recreating", self._target(place).folder, ", ".join(parts)[:200])
        behind, self._behind[place] = self._behind.get(place), 0
        done = await self._write_place(place)
        if behind is None:
            del self._behind[place]
        else:
            self._behind[place] = behind
        return done

    async def _write_place(self, place: MirrorPlace) -> bool:
        while True:
            batch: MirrorBatch = await self.log.reader.read(mirrors.lines, self._behind.get(place, 0), place)
            said = [line.message for line in self._wanted(batch.lines)]
            if said and await self._append({place: said}, begin=not self._behind.get(place)):
                return False
            self._behind[place] = batch.upto
            if not batch.more:
                return True

    async def _redo(self) -> None:
        for one in await self.log.reader.read(mirrors.to_redo):
            if one.space in self._unremoved and trio.current_time() < self._retry_at:
                continue
            try:
                for place in one.places:
                    if place.folder is None:
                        parts = await self.log.reader.read(mirrors.days, place.agent or "")
                    else:
                        parts = (CHANNEL, *await self.log.reader.read(mirrors.names, place.folder))
                    await trio.to_thread.run_sync(self.files.remove, self._target(place), parts, abandon_on_cancel=True)
                    self._behind[place] = 0
                    if await self._write_place(place):
                        del self._behind[place]
            except (OSError, ValueError) as error:
                if one.space not in self._unremoved:
                    logger.warning("mirror.not_removed %s: %s; it will be retried", one.space, error)
                self._unremoved.add(one.space)
                self._retry_at = trio.current_time() + RETRY_SECONDS
                continue
            self._unremoved.discard(one.space)
            with suppress(Refused):  # otherwise it is repeated
                await self.log.writer.commit(redone, one.space)

    async def _store(self) -> None:
        self._store_at = trio.current_time() + STORE_SECONDS
        reached = min([self._seen, *self._behind.values()])
        if reached <= self._stored:
            return
        try:
            await trio.to_thread.run_sync(self.files.sync, abandon_on_cancel=True)
            await self.log.writer.commit(set_written, reached)
        except (OSError, Refused) as error:
            logger.warning("mirror.not_stored %s", error)
            return
        self._stored = reached

    def _target(self, place: MirrorPlace) -> MirrorTarget:
        if place.folder is not None:
            return MirrorTarget(place.folder)
        agent = place.agent or ""
        record = self.log.reader.now(agents.row, agent)
        own = None if record is None or record.definition is None else _homed.decode(record.definition).context.dir
        sound = own is not None and dir_fault(own, agent) is None
        return MirrorTarget(own if own is not None and sound else default_dir(agent), agent)
