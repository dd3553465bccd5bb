"""A whole store to test with: real SQLite, a clock that is set by hand, and what everybody needs to begin."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Any

import apsw
import trio

from kernel.rule.draft import Draft, MemberSpec, RunSpec
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.database import Database, Reader
from kernel.store.feed import Feed
from kernel.store.transitions.append import Appended, append
from kernel.store.transitions.close import Closed, close
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import Leased, lease
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.writer import StoreLog, Writer
from protocol.api.runs import RunOptions
from protocol.ipc import Entry
from protocol.message import Event
from protocol.names import AgentKey, inline_key, workflow_space
from tests.kernel.store.migrated import open_migrated
from tests.shorthand import present

PATIENCE_SECONDS = 60.0
START_MS = 1_790_000_000_000


def steps_of(conn: apsw.Connection, ask: Callable[[apsw.Connection], object]) -> int:
    """How many steps SQLite's machine makes for what ``ask`` asks."""
    steps = count()
    conn.set_progress_handler(lambda: next(steps) < 0, 1)
    ask(conn)
    conn.set_progress_handler(None)
    return next(steps)


@dataclass
class Clock:
    """Milliseconds that pass only when told to."""

    now_ms: int = START_MS

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Store:
    """A running store."""

    database: Database
    writer: Writer
    reader: Reader
    feed: Feed
    clock: Clock
    told: list[Event] = field(default_factory=list)
    listeners: list[Callable[[Sequence[Event]], None]] = field(default_factory=list)
    """Called with what is published, when it is."""

    @property
    def log(self) -> StoreLog:
        return StoreLog(self.reader, self.writer, self.clock)

    async def agents(self, *names: str) -> None:
        await self.writer.commit(
            put_agents,
            [AgentSpec(key=AgentKey(name), origin="file", definition=b'{"model":"mock/m"}') for name in names],
        )

    async def agent(self, name: str, definition: bytes, **fields: Any) -> None:
        """One agent, as its file has it, unless ``fields`` say otherwise."""
        known: dict[str, Any] = {"origin": "file", **fields}
        spec = AgentSpec(key=AgentKey(name), definition=definition, **known)
        await self.writer.commit(put_agents, [spec])

    async def said(self, space: str, text: str, *, to: tuple[str, ...] = (), sender: str = "user") -> Appended:
        return await self.writer.commit(append, Draft(kind="said", space=space, sender=sender, text=text, to=to))

    async def take(self, instruction: str) -> Leased:
        return present(await self.writer.commit(lease, instruction, token_hash(instruction, self.clock.now_ms)))

    async def journal(self, instruction: str, epoch: int, entry: Entry, **how: Any) -> str | None:
        return await self.writer.commit(journal, instruction, epoch, entry, **how)

    async def requeue(self, instruction: str, epoch: int, parking: Requeue) -> None:
        await self.writer.commit(requeue, instruction, epoch, parking)

    async def close(self, instruction: str, epoch: int, **how: Any) -> Closed:
        return await self.writer.commit(close, instruction, epoch, **how)

    async def given(self, space: str, text: str, *, to: tuple[str, ...] = (), sender: str = "user") -> Leased:
        """Say it, and lease the first instruction that comes of it."""
        return await self.take((await self.said(space, text, to=to, sender=sender)).instruction_ids[0])

    async def workflow(
        self, *members: str | MemberSpec, kickoff: str | None = None, limits: bytes = b"{}", attended: bool = False
    ) -> str:
        """``review:main`` with these members, inline where only a name is given."""
        definition = b'{"name":"review","agents":{},"limits":' + limits + b"}"
        options = RunOptions(attended=attended)
        draft = started(*members, kickoff=kickoff, definition=definition, options=options)
        await self.writer.commit(append, draft)
        return draft.space


def started(*members: str | MemberSpec, name: str = "review", tag: str = "main", **fields: Any) -> Draft:
    """The message by which a run begins with these members, inline where only a name is given."""
    space = workflow_space(name, tag)
    definition = f'{{"name":"{name}","agents":{{}}}}'.encode()
    known: dict[str, Any] = {"mode": "run", "file": f".workflows/{name}.yaml", "definition": definition}
    everybody = tuple(member(one, space) if isinstance(one, str) else one for one in members)
    payload = RunSpec(name=name, tag=tag, members=everybody, **{**known, **fields})
    return Draft(kind="status", space=space, sender="system", text="started", payload=payload)


def member(name: str, space: str) -> MemberSpec:
    return MemberSpec(name=name, key=inline_key(name, space), origin="inline", definition=b'{"model":"mock/m"}')


def token_hash(instruction: str, salt: int = 0) -> bytes:
    return sha256(f"{instruction} {salt}".encode()).digest()


@asynccontextmanager
async def open_store(path: str, make_writer: Callable[..., Writer] = Writer) -> AsyncGenerator[Store]:
    """A store on ``path`` that runs until the block ends."""
    database = open_migrated(path)
    feed = Feed()
    told: list[Event] = []
    listeners: list[Callable[[Sequence[Event]], None]] = [told.extend, feed.publish]

    def publish(events: Sequence[Event]) -> None:
        for listener in listeners:
            listener(events)

    clock = Clock()
    writer = make_writer(database=database, clock_ms=clock, publish=publish)
    reader = Reader(database=database)
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                await nursery.start(writer.run)
                yield Store(database, writer, reader, feed, clock, told, listeners)
                writer.close()
    finally:
        database.close()
