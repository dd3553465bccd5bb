"""Large teams: tool calls with a long log, concurrent task claims, document writes, and message latency."""

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import trio

from kernel.rule.draft import Draft
from kernel.store import messages, task_views
from kernel.store.rows import RowPage
from kernel.store.transitions import tasks
from kernel.store.transitions.append import append
from kernel.store.transitions.tasks import claim
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.names import inline_key
from protocol.tasks import PLANNED_AT_ONCE, TaskSpec
from scripts.benchmarks import long_log
from scripts.benchmarks.figure import Figure, p50, p99
from scripts.benchmarks.load import together
from scripts.benchmarks.running_kernel import Team, working_team
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace
from tests.kernel.store.migrated import open_migrated
from tests.kernel.store.running_store import START_MS

LOGS = (1_000, 1_000_000)
DONE_SHARE = 10
"""Number of messages for each finished task."""
WAITING = 50
READS = 1000
CLAIMERS = 20
TASKS = 1000
SPEAKERS = 50
RATE = 200
SECONDS = 5.0
ROUNDS = 3
WRITES = 300


def measure() -> Iterator[Figure]:
    """Yield all figures. The long log and the first claims use only the store, the other benchmarks a kernel."""
    yield from _long_logs()
    at_once = p99(trio.run(_store_claims))
    yield Figure(f"{CLAIMERS} claim {TASKS:,} tasks at once, in the store, p99", at_once, 20, "ms")
    with working_team(CLAIMERS) as team:
        yield from _claims(team)
    with working_team(SPEAKERS) as team:
        rounds = [p99(_seen(team)) for _ in range(ROUNDS)]
    yield Figure(f"{SPEAKERS} agents, {RATE} messages/s, seen: p99, p50 of {ROUNDS}", p50(rounds), 250, "ms")
    with working_team(1) as team:
        yield _document_write(team)


def _long_logs() -> Iterator[Figure]:
    """Yield, for each tool, the ratio of the p99 CPU time with the long log to that with the short log."""
    taken = [_reads(count) for count in LOGS]
    for name, short in taken[0].items():
        times = p99(taken[1][name]) / p99(short)
        yield Figure(f"{name}, {LOGS[1]:,} messages, p99, times that of {LOGS[0]:,}", times, 1.5, "x")


def _reads(count: int) -> dict[str, list[float]]:
    """Return, by tool, the CPU milliseconds of each of its READS queries on a log of ``count`` messages."""
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        database = open_migrated(str(Path(folder) / "log.db"))
        workspace = BusyWorkspace(database)
        workspace.begin()
        long_log.fill(database.writer(), SPACE, count)
        long_log.finish_tasks(database.writer(), SPACE, count // DONE_SHARE)
        for number in range(WAITING):
            workspace.commit(append, Draft(kind="said", space=SPACE, sender="user", text=f"do {number}", to=("bob",)))
        workspace.commit(tasks.plan, SPACE, [TaskSpec(title=f"part {number}") for number in range(WAITING)])
        conn, bob = database.reader(), inline_key("bob", SPACE)

        def inbox() -> None:
            assert len(messages.inbox(conn, bob, SPACE, messages.DELIVERIES_LIMIT + 1)) >= WAITING
            messages.count(conn, bob, SPACE)

        questions: dict[str, Callable[[], object]] = {
            "my_inbox": inbox,
            "team_task_list": lambda: task_views.listed(conn, SPACE, RowPage(WAITING)),
            "team_task_list of what is ready": lambda: task_views.listed(conn, SPACE, RowPage(WAITING), state="ready"),
        }
        taken = {name: _cpu_ms(question) for name, question in questions.items()}
        database.close()
        return taken


def _cpu_ms(question: Callable[[], object]) -> list[float]:
    taken: list[float] = []
    for _ in range(READS):
        begin = time.thread_time_ns()
        question()
        taken.append((time.thread_time_ns() - begin) / 1e6)
    return taken


def _orders() -> list[list[str]]:
    """Return a random order of the task ids for each claimer. Two claimers share each order, so that they compete."""
    orders: list[list[str]] = []
    for place in range(CLAIMERS):
        order = [f"t{number + 1}" for number in range(TASKS)]
        random.Random(place // 2).shuffle(order)
        orders.append(order)
    return orders


async def _store_claims() -> list[float]:
    """Return the milliseconds of each claim, granted or refused, while all claimers call the writer of a store."""
    taken: list[float] = []
    known: set[str] = set()
    winners: list[str] = []
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        database = open_migrated(str(Path(folder) / "claims.db"))
        workspace = BusyWorkspace(database)
        workspace.begin()
        for _ in range(TASKS // PLANNED_AT_ONCE):
            workspace.commit(tasks.plan, SPACE, [TaskSpec(title="part") for _ in range(PLANNED_AT_ONCE)])
        authors = [workspace.author(name) for name in MEMBERS]
        writer = Writer(database=database, clock_ms=lambda: START_MS, publish=lambda _events: None)

        async def claim_all(place: int, order: list[str]) -> None:
            for task in order:
                if task not in known:
                    begin = time.perf_counter()
                    try:
                        author = authors[place % len(authors)]
                        changed = await writer.commit(claim, SPACE, task, author=author)
                        if changed.message_id:
                            winners.append(task)
                    except Refused:
                        pass
                    taken.append((time.perf_counter() - begin) * 1000)
                    known.add(task)

        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            async with trio.open_nursery() as claimers:
                for place, order in enumerate(_orders()):
                    claimers.start_soon(claim_all, place, order)
            writer.close()
        database.close()
    assert sorted(winners) == sorted(f"t{number + 1}" for number in range(TASKS)), "each task once"
    return taken


def _claims(team: Team) -> Iterator[Figure]:
    """Yield the latency of claims by MCP, while each member tries all tasks that no finished claim has named."""
    plan = team.tool(team.names[0], "team_task_plan")
    for first in range(0, TASKS, PLANNED_AT_ONCE):
        made = plan({"tasks": [{"title": f"part {number}"} for number in range(first, first + PLANNED_AT_ONCE)]})
        assert not made.get("isError"), made
    taken: list[float] = []
    refused: list[float] = []
    known: set[str] = set()
    winners: list[str] = []
    orders = _orders()

    def member(place: int) -> Callable[[], None]:
        claim = team.tool(team.names[place], "team_task_claim")

        def work() -> None:
            for task in orders[place]:
                if task not in known:
                    begin = time.perf_counter()
                    answer = claim({"task": task})
                    (refused if answer.get("isError") else taken).append((time.perf_counter() - begin) * 1000)
                    known.add(task)
                    if not answer.get("isError"):
                        winners.append(task)

        return work

    begin = time.perf_counter()
    together([member(place) for place in range(CLAIMERS)])
    seconds = time.perf_counter() - begin
    assert sorted(winners) == sorted(f"t{number + 1}" for number in range(TASKS)), "each task once"
    both = f"{len(taken)} claims, {len(refused)} refused, {len(taken) / seconds:.0f}/s"
    yield Figure(f"{CLAIMERS} agents: {both}, p50", p50(taken + refused), 20, "ms")
    yield Figure(f"{CLAIMERS} agents claim {TASKS:,} tasks at once, p99", p99(taken + refused), 20, "ms")


def _seen(team: Team) -> list[float]:
    """Return the milliseconds from the send of each message until a reader of the event stream receives it."""
    sent: dict[str, float] = {}
    seen: dict[str, float] = {}
    total = int(RATE * SECONDS)
    listening = threading.Event()

    def watch() -> None:
        with team.measured.events("type=message") as messages:
            listening.set()
            for message in messages:
                now, text = time.perf_counter(), message["text"]
                if text in sent:
                    seen[text] = now
                if len(seen) == total:
                    return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    listening.wait(SECONDS)
    begin = time.perf_counter() + 0.2

    def member(place: int) -> Callable[[], None]:
        send = team.tool(team.names[place], "channel_send")

        def work() -> None:
            for number in range(place, total, SPEAKERS):
                time.sleep(max(0.0, begin + number / RATE - time.perf_counter()))
                text = f"message {number} " + "x" * 200
                sent[text] = time.perf_counter()
                answer = send({"message": text})
                assert not answer.get("isError"), answer

        return work

    together([member(place) for place in range(SPEAKERS)])
    watching.join(timeout=30)
    assert len(seen) == total, f"{total - len(seen)} of {total} messages were not seen"
    return [(seen[text] - sent[text]) * 1000 for text in sent]


def _document_write(team: Team) -> Figure:
    """Return the ratio of a document write (one of forty lines changed) to a message of 200 characters."""
    (name,) = team.names
    write, say = team.tool(name, "team_doc_write"), team.tool(name, "channel_send")
    lines = [f"line {number} of what is being built" for number in range(40)]
    spent: dict[str, list[float]] = {"write": [], "say": []}
    for number in range(WRITES):
        lines[number % len(lines)] = f"line {number} as it was changed in round {number}"
        for kind, call, arguments in (
            ("write", write, {"content": "\n".join(lines)}),
            ("say", say, {"message": f"{number} " + "x" * 200}),
        ):
            begin = time.perf_counter()
            answer = call(dict(arguments))
            spent[kind].append((time.perf_counter() - begin) * 1000)
            assert not answer.get("isError"), answer
    return Figure("document write, times a channel_send", p50(spent["write"]) / p50(spent["say"]), 1.3, "x")
