"""A store whose log is copied to a folder, step by step: by the tap and the copier of the product, in one process."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from kernel.inspect.copier import Copier
from kernel.store.history import log_name
from kernel.store.log_tap import LogTap, newest_event
from protocol.discovery import DATABASE
from protocol.standby import CopierReport, Frames, LogRestart, UpTo
from tests.kernel.inspect.files import MOCK, write
from tests.kernel.store.running_store import Store, open_store

AT = 1_790_000_000.0
SAID = "SELECT text FROM messages ORDER BY seq"


class Place:
    """A project and its state, both new."""

    def __init__(self, base: Path) -> None:
        self.root, self.state = base / "project", base / "state"
        write(self.root, {".agents/alice.yaml": MOCK})
        self.state.mkdir(mode=0o700)

    def said(self) -> list[str]:
        return texts_in(self.state / DATABASE)


def texts_in(path: Path) -> list[str]:
    connection = apsw.Connection(str(path))
    try:
        return [str(text) for (text,) in connection.execute(SAID)]
    finally:
        connection.close()


@dataclass
class Copied:
    """A running store, and the copier of its log."""

    place: Place
    store: Store
    folder: Path
    tap: LogTap
    now: float = AT
    told: list[CopierReport] = field(default_factory=list)
    sent: int = 0
    begun: int = 0
    number: int = 0
    copier: Copier = field(init=False)

    def __post_init__(self) -> None:
        self.new_copier()

    def new_copier(self) -> None:
        """As where the process that copies was started anew."""
        self.told.clear()
        self.sent = self.begun = 0
        self.tap.stop()
        log = self.store.reader.now(log_name)
        self.copier = Copier(
            self.place.root, self.place.state, str(self.folder), log, tell=self.told.append, clock=lambda: self.now
        )

    async def new_tap(self) -> None:
        """As where another process that copies is started."""
        self.store.writer.tap = None
        await self.store.writer.commit(self.tap.remove)
        self.tap.close()
        self.tap = LogTap(self.store.database.path)
        await self.store.writer.commit(self.tap.install)
        self.store.writer.tap = self.tap

    @property
    def heard(self) -> CopierReport:
        return self.told[-1]

    async def say(self, *texts: str) -> None:
        for text in texts:
            await self.store.said("dm:alice", text)

    def send(self, *, last: bool = False) -> None:
        heard = self.heard
        event, at_ms = self.store.reader.now(newest_event)
        if self.tap.broken or (heard.lost and heard.begun == self.begun):
            self.tap.begin()
            self.begun += 1
            self.copier.hear(LogRestart(sent=self.sent + 1))
        more = True
        while more:
            found, more = self.tap.take()
            for one in found:
                self.sent += 1
                self.copier.hear(Frames(sent=self.sent, wal=one.header, start=one.start, body=one.body))
        copies = heard.copies if heard.begun == self.begun else 0
        self.copier.hear(UpTo(event=event, at_ms=at_ms, sent=self.sent, term=1, copies=copies, last=last))

    def step(self) -> None:
        self.send()
        self.copier.turn()

    def bring(self, *, last: bool = False) -> None:
        """Send, and have it brought, until all of it is there."""
        for _ in range(1000):
            self.send(last=last)
            self.copier.turn()
            heard = self.heard
            if heard.whole and heard.begun == self.begun and heard.done >= self.sent:
                return
        raise AssertionError(f"it does not come to an end: {self.heard}")


@asynccontextmanager
async def copied_store(base: Path) -> AsyncGenerator[Copied]:
    """A store below ``base`` with one agent, and a folder that is still empty."""
    place, folder = Place(base), base / "far"
    folder.mkdir(mode=0o700)
    async with open_store(str(place.state / DATABASE)) as store:
        await store.agents("alice")
        tap = LogTap(store.database.path)
        await store.writer.commit(tap.install)
        store.writer.tap = tap
        copied = Copied(place, store, folder, tap)
        yield copied
        store.writer.tap = None
        await store.writer.commit(copied.tap.remove)
        copied.tap.close()
