"""Cost of a durable send, and of scheduling decisions and restarts with a long queue and log."""

import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import apsw
import trio

from kernel.policy.scheduling import WorkerLimits, choose
from kernel.rule.draft import Draft
from kernel.store import instructions
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.database import Database, Reader, open_database
from kernel.store.transitions.append import append
from kernel.store.transitions.due import next_due_ms
from kernel.store.writer import Writer
from protocol.discovery import DATABASE
from protocol.names import AgentKey
from scripts.benchmarks.figure import Figure, p50
from scripts.benchmarks.load import LoadConnection, timed
from scripts.benchmarks.running_kernel import empty_project

CLIENTS = 32
SENDS = 3200
ROUNDS = 3
SEND_ROUNDS = 9
QUEUES = (10, 1_000, 100_000)
WAITING_AGENTS = 10  # constant: only the length of their queues differs
ROWS = 1_000_000
QUEUED = 10_000
AGENTS = 20
START_MS = 1_790_000_000_000
Statement = tuple[str, object]


def measure() -> Iterator[Figure]:
    """Yield the figures. Only the restart runs a kernel; the other benchmarks use the store."""
    yield from _sends()
    yield from _decisions()
    yield _restart()


def _sends() -> Iterator[Figure]:
    """Yield the rate of sends by the writer, as a share of the rate of the same SQL statements on bare apsw."""
    ours: list[float] = []
    bare: list[float] = []
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        statements = _recorded(str(Path(folder) / "recorded.db"))
    for _ in range(SEND_ROUNDS):
        with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
            ours.append(SENDS / trio.run(_through_the_writer, str(Path(folder) / "ours.db")))
            bare.append(SENDS / _replayed(str(Path(folder) / "bare.db"), statements))
    yield Figure("durable send, 32 clients, share of bare apsw", p50(ours) / p50(bare), 0.7, "x", least=True)


def _draft(number: int) -> Draft:
    return Draft(
        kind="said", space=f"dm:a{number % AGENTS}", sender="user", text="x" * 200, to=(f"a{number % AGENTS}",)
    )


def _specs() -> list[AgentSpec]:
    return [
        AgentSpec(key=AgentKey(f"a{number}"), origin="file", definition=b'{"model":"mock/m"}')
        for number in range(AGENTS)
    ]


async def _send_all(writer: Writer) -> None:
    numbers = iter(range(SENDS))

    async def client() -> None:
        for number in numbers:
            await writer.commit(append, _draft(number))

    async with trio.open_nursery() as nursery:
        for _ in range(CLIENTS):
            nursery.start_soon(client)


@asynccontextmanager
async def writing(database: Database) -> AsyncGenerator[Writer]:
    """Yield the running writer of ``database``, after the agents were stored."""
    writer = Writer(database=database, clock_ms=lambda: START_MS, publish=lambda _events: None)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        await writer.commit(put_agents, _specs())
        yield writer
        writer.close()


async def _through_the_writer(path: str) -> float:
    database = open_database(path)
    async with writing(database) as writer:
        begin = time.perf_counter()
        await _send_all(writer)
        taken = time.perf_counter() - begin
    database.close()
    return taken


def _recorded(path: str) -> list[list[Statement]]:
    """Return the SQL statements of each send with their values, in order, without transaction control."""
    database = open_database(path)
    conn = database.writer()
    sends: list[list[Statement]] = []

    def note(_cursor: object, sql: str, values: object) -> bool:
        sends[-1].append((sql, values))
        return True

    async def record() -> None:
        async with writing(database) as writer:
            conn.exec_trace = note
            for number in range(SENDS):
                sends.append([])
                await writer.commit(append, _draft(number))
            conn.exec_trace = None

    trio.run(record)
    database.close()
    outside = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "PRAGMA")
    return [[one for one in send if not one[0].lstrip().startswith(outside)] for send in sends]


def _replayed(path: str, sends: list[list[Statement]]) -> float:
    """Return the seconds to execute the statements on bare apsw, with one COMMIT for every CLIENTS sends."""
    database = open_database(path)
    _put_agents(database)
    conn = database.writer()
    begin = time.perf_counter()
    for first in range(0, len(sends), CLIENTS):
        conn.execute("BEGIN IMMEDIATE")
        for send in sends[first : first + CLIENTS]:
            for sql, values in send:
                conn.execute(sql, values).fetchall()  # type: ignore[arg-type]
        conn.execute("COMMIT")
    taken = time.perf_counter() - begin
    database.close()
    return taken


def _put_agents(database: Database) -> None:
    async def put() -> None:
        async with writing(database):
            pass

    trio.run(put)


QUEUE = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO instructions (agent, name, space, lane, state, message, hops, enqueued_ms)
SELECT 'a' || (i % ?), 'a' || (i % ?), 'dm:a' || (i % ?), 1, 'queued', i, 0, ? FROM n
"""


def _decisions() -> Iterator[Figure]:
    """Yield the time of the dispatcher's and the timers' queries before a decision, for each queue length."""
    costs: list[float] = []
    for length in QUEUES:
        database = open_database(":memory:")
        _put_agents(database)
        database.writer().execute(QUEUE, (length, *[WAITING_AGENTS] * 3, START_MS)).fetchall()
        reader = Reader(database=database)

        def decide(reader: Reader = reader) -> None:
            ready = reader.now(instructions.ready, START_MS, 32)
            assert choose(ready, {}, WorkerLimits(32), frozenset())
            reader.now(instructions.next_due_ms, START_MS)
            reader.now(next_due_ms, 300_000)

        costs.append(p50(timed(decide, 300)))
        database.close()
    for length, cost in zip(QUEUES[1:], costs[1:], strict=True):
        yield Figure(f"scheduling decision, {length:,} queued, times that of 10", cost / costs[0], 1.5, "x")


LOG = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO messages (kind, space, sender, addressed, text, hops, at_ms)
SELECT 'said', 'dm:a' || (i % ?), 'user', '', 'what was said ' || i, 0, ? + i FROM n
"""
EVENTS = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO events (type, at_ms, space, message) SELECT 'message', ? + i, 'dm:a' || (i % ?), i FROM n
"""


def _restart() -> Figure:
    """Measure ``awk start`` until /ready, with a million messages and events and ten thousand queued instructions."""
    with empty_project() as project:
        for number in range(AGENTS):
            project.write(f".agents/a{number}.yaml", "backend: mock\nmock:\n  - sleep: 600\n")
        assert project.awk("start", "--trust").code == 0
        assert project.awk("stop").code == 0
        conn = apsw.Connection(str(project.state / DATABASE))
        with conn:
            conn.execute(LOG, (ROWS, AGENTS, START_MS)).fetchall()
            conn.execute(EVENTS, (ROWS, START_MS, AGENTS)).fetchall()
            conn.execute(QUEUE, (QUEUED, AGENTS, AGENTS, AGENTS, START_MS)).fetchall()
        conn.close()
        taken: list[float] = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            started = project.awk("start", "--trust")
            assert started.code == 0, started.err
            _until_ready(project.record())
            taken.append(time.perf_counter() - begin)
            assert project.awk("stop", "--now").code == 0
        return Figure("restart with 1,000,000 messages and 10,000 queued", p50(taken), 2, "s")


def _until_ready(record: dict[str, object]) -> None:
    connection = LoadConnection(int(str(record["port"])), {"authorization": f"Bearer {record['token']}"})
    while True:
        with suppress(RuntimeError):  # 503 while the kernel starts
            connection.call("GET", "/ready")
            return
        time.sleep(0.01)
