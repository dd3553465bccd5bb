"""The writer: groups, answers, failures."""

import gc
import queue
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import apsw
import pytest
import trio
import trio.testing

from kernel.rule.draft import Draft
from kernel.store import feed, messages, writer
from kernel.store.database import Reader, open_database
from kernel.store.feed import Feed
from kernel.store.schema import StorageFailed
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.message import Event
from tests.kernel.store.faulty_disk import FaultyDisk
from tests.kernel.store.running_store import Store
from tests.shorthand import present, refusal

HELLO = Draft(kind="said", space="dm:alice", sender="user", text="hello")


def nothing(_tx: Transaction) -> None:
    """A job that does nothing."""


class Gate:
    """A job that keeps the writer's thread busy until told, so that others must share the next transaction."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._open = threading.Event()

    def __call__(self, _tx: Transaction) -> None:
        self._entered.set()
        self._open.wait(10)

    async def entered(self) -> None:
        await trio.to_thread.run_sync(self._entered.wait, 10)

    def release(self) -> None:
        self._open.set()


async def together(store: Store, jobs: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Run ``jobs`` in one group."""
    gate = Gate()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.writer.commit, gate)
        await gate.entered()
        async with trio.open_nursery() as inner:
            for job in jobs:
                inner.start_soon(job)
            await trio.testing.wait_all_tasks_blocked()
            gate.release()


async def test_what_nobody_waits_for_shares_the_next_commit_and_needs_none(store: Store) -> None:
    order: list[str] = []
    store.listeners.append(lambda events: order.append(" ".join(event.type for event in events)))

    def tell(tx: Transaction, kind: str) -> None:
        tx.emit(kind, data={"level": "info", "text": ""})

    async def tell_soon() -> None:
        await store.writer.commit_soon(tell, "worker.log")

    async with trio.open_nursery() as nursery:
        store.writer.soon_seconds = 60.0
        nursery.start_soon(tell_soon)
        await trio.testing.wait_all_tasks_blocked()
        await store.writer.commit(tell, "kernel.stopping")
    assert order == ["worker.log kernel.stopping"]
    store.writer.soon_seconds = 0.01
    await tell_soon()
    assert order[1:] == ["worker.log"]


async def test_what_nobody_waits_for_is_not_left_behind_when_the_writer_falls_asleep(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SOON_SECONDS", 0.002)
    monkeypatch.setattr(writer, "PLACE_SECONDS", 600.0)
    with trio.fail_after(60):
        for step in range(200):
            await store.writer.commit(nothing)
            for _ in range(step):
                await trio.lowlevel.checkpoint()
            await store.writer.commit_soon(nothing)


async def test_jobs_that_wait_together_share_one_commit(store: Store) -> None:
    await store.agents("alice")
    frames: list[int] = []

    def committed(_conn: apsw.Connection, _name: str, pages: int) -> int:
        frames.append(pages)
        return apsw.SQLITE_OK

    store.database.writer().set_wal_hook(committed)

    async def say() -> None:
        await store.said("dm:alice", "hello")

    await together(store, [say] * 20)
    assert len(frames) == 1
    assert store.reader.now(messages.newest_seq) == 20


async def test_a_job_that_fails_in_a_group_harms_no_other(store: Store) -> None:
    await store.agents("alice")

    def broken(tx: Transaction) -> None:
        append(tx, HELLO)
        raise ZeroDivisionError

    async def bad() -> None:
        with pytest.raises(ZeroDivisionError):
            await store.writer.commit(broken)

    async def refused() -> None:
        with pytest.raises(Refused):
            await store.said("dm:nobody", "hi")

    async def good() -> None:
        await store.said("dm:alice", "good")

    await together(store, [bad, good, refused, good, bad])
    assert [one.text for one in store.reader.now(messages.channel, "dm:alice")] == ["good", "good"]
    kept = store.reader.now(feed.since, 0)
    assert [one.seq for one in kept] == [one.seq for one in store.told]


@pytest.mark.parametrize("changes", [True, False], ids=["changed a row", "changed nothing"])
async def test_jobs_run_again_only_where_one_of_their_group_failed_that_had(store: Store, changes: bool) -> None:
    await store.agents("alice")
    runs: list[str] = []

    def counted(tx: Transaction, name: str) -> int:
        runs.append(name)
        seq = append(tx, HELLO).seq if name == "good" or changes else 0
        if name == "bad":
            raise ZeroDivisionError
        return seq

    async def bad() -> None:
        with pytest.raises(ZeroDivisionError):
            await store.writer.commit(counted, "bad")

    async def good() -> None:
        assert await store.writer.commit(counted, "good") == 1

    await bad()
    assert runs == ["bad"]
    await together(store, [bad, good])
    again = (["bad", "bad", "good"], ["bad", "bad", "good", "good"])
    assert sorted(runs[1:]) in again if changes else sorted(runs[1:]) == ["bad", "good"]
    assert [one.seq for one in store.reader.now(messages.channel, "dm:alice")] == [1]


async def test_events_are_published_after_the_commit_and_before_the_answer(store: Store) -> None:
    await store.agents("alice")
    order: list[str] = []

    def see(told: Sequence[Event]) -> None:
        stored = store.reader.now(feed.event_range).newest
        order.append(f"published, stored {stored >= (told[-1].seq or 0)}")

    store.listeners.append(see)
    await store.said("dm:alice", "hello")
    order.append("answered")
    assert order == ["published, stored True", "answered"]


@pytest.mark.promise("SF03")
async def test_a_full_disk_refuses_and_recovers(store: Store) -> None:
    await store.agents("alice")
    await store.said("dm:alice", "before")
    conn = store.database.writer()
    pages = conn.execute("PRAGMA page_count").get
    conn.execute(f"PRAGMA max_page_count = {pages + 2}").fetchall()

    async def too_much() -> None:
        assert await refusal(store.said("dm:alice", "x" * 200_000)) == "storage_full"

    async def small() -> None:
        await store.said("dm:alice", "small")

    await together(store, [small, too_much, small])
    assert [one.text for one in store.reader.now(messages.channel, "dm:alice")] == ["before", "small", "small"]
    conn.execute("PRAGMA max_page_count = 1000000").fetchall()
    await store.said("dm:alice", "x" * 200_000)
    assert [one.seq for one in store.reader.now(feed.since, 0)] == [one.seq for one in store.told]


@pytest.mark.promise("SF03")
async def test_whether_it_can_write_is_known_and_found_out_again_without_a_write(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [False]
    monkeypatch.setattr(store.database, "has_room", lambda: room[0])
    writer = Writer(database=store.database, clock_ms=store.clock, publish=lambda _events: None)

    def too_large(tx: Transaction) -> None:
        tx.conn.execute("PRAGMA max_page_count = 1").fetchall()
        tx.write("INSERT INTO boots (pid, version, at_ms, requeued) VALUES (1, ?, 0, 0)", ("x" * 1_000_000,))

    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        assert await writer.trouble() is None
        with pytest.raises(Refused):
            await writer.commit(too_large)
        assert present(await writer.trouble()).code == "storage_full"
        room[0] = True
        assert await writer.trouble() is None
        writer.close()


@pytest.mark.promise("SF03")
async def test_a_disk_that_says_it_has_room_and_takes_nothing_is_found_out(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.remembers = False

    def one_row(tx: Transaction) -> None:
        tx.write("INSERT INTO boots (pid, version, at_ms, requeued) VALUES (1, ?, 0, 0)", ("",))

    def refuse() -> None:
        raise apsw.FullError("its quota is spent")

    database = open_database(str(tmp_path / "store.db"), disk.name)
    writer = Writer(database=database, clock_ms=lambda: 1, publish=lambda _events: None)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        disk.on_write = refuse
        with pytest.raises(Refused, match="disk is full"):
            await writer.commit(one_row)
        assert present(await writer.trouble()).code == "storage_full"
        disk.on_write = lambda: None
        assert await writer.trouble() is None
        writer.close()
    database.close()


@pytest.mark.promise("HF21")
async def test_who_gives_up_waiting_does_not_undo_the_commit(store: Store) -> None:
    await store.agents("alice")
    gate = Gate()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.writer.commit, gate)
        await gate.entered()
        async with trio.open_nursery() as impatient:
            impatient.start_soon(store.said, "dm:alice", "still said")
            await trio.testing.wait_all_tasks_blocked()
            impatient.cancel_scope.cancel()
        gate.release()
    await store.writer.commit(lambda _tx: None)
    assert [one.text for one in store.reader.now(messages.channel, "dm:alice")] == ["still said"]


async def test_a_cancellation_waits_for_a_shielded_commit(store: Store) -> None:
    gate, told = Gate(), list[str]()

    async def commit() -> None:
        told.append(await store.writer.commit_shielded(lambda _tx: "done"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.writer.commit, gate)
        await gate.entered()
        nursery.start_soon(commit)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        gate.release()
    assert told == ["done"]


async def test_a_full_queue_refuses_after_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A bounded queue in front; when it is full callers wait, then get 503."""
    monkeypatch.setattr("kernel.store.writer.ADMISSION_SECONDS", 0.01)
    database = open_database(str(tmp_path_factory.mktemp("full") / "store.db"))
    writer = Writer(database=database, clock_ms=store.clock, publish=lambda _events: None, capacity=1)
    gate = Gate()
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        nursery.start_soon(writer.commit, gate)
        await gate.entered()
        assert await refusal(writer.commit(lambda _tx: None)) == "busy"
        monkeypatch.setattr("kernel.store.writer.ADMISSION_SECONDS", 60.0)
        gate.release()
        await writer.commit(lambda _tx: None)
        writer.close()
    database.close()


@pytest.mark.promise("SF11")
async def test_a_lock_held_by_another_process_is_busy_not_fatal(store: Store) -> None:
    await store.agents("alice")
    store.database.writer().set_busy_timeout(1)
    other = apsw.Connection(store.database.path)
    other.execute("BEGIN IMMEDIATE")
    assert await refusal(store.said("dm:alice", "hello")) == "busy"
    other.execute("ROLLBACK")
    other.close()
    await store.said("dm:alice", "hello")


@pytest.mark.promise("SF04")
async def test_a_disk_that_fails_stops_the_writer_and_answers_everybody(store: Store) -> None:
    database = open_database(":memory:")
    writer = Writer(database=database, clock_ms=store.clock, publish=lambda _events: None)

    def broken(_tx: Transaction) -> None:
        raise apsw.IOError("disk I/O error")

    async def expect_failure(job: Callable[[Transaction], None]) -> None:
        with pytest.raises(StorageFailed):
            await writer.commit(job)

    with pytest.RaisesGroup(StorageFailed):
        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            with trio.CancelScope(shield=True), trio.fail_after(5):
                async with trio.open_nursery() as callers:
                    for _ in range(3):
                        callers.start_soon(expect_failure, broken)
                        callers.start_soon(expect_failure, nothing)
                await expect_failure(nothing)
    database.close()


@pytest.mark.promise("SF03")
async def test_a_disk_that_fails_after_it_was_full_answers_everybody_once(store: Store) -> None:
    database = open_database(":memory:")
    writer = Writer(database=database, clock_ms=store.clock, publish=lambda _events: None)
    gate = Gate()
    answers: list[str] = []

    def full(_tx: Transaction) -> None:
        raise apsw.FullError("database or disk is full")

    def broken(_tx: Transaction) -> None:
        raise apsw.IOError("disk I/O error")

    async def ask(job: Callable[[Transaction], None]) -> None:
        try:
            await writer.commit(job)
        except (Refused, StorageFailed) as error:
            answers.append(type(error).__name__)

    with pytest.RaisesGroup(StorageFailed):
        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            with trio.CancelScope(shield=True), trio.fail_after(5):
                async with trio.open_nursery() as callers:
                    callers.start_soon(writer.commit, gate)
                    await gate.entered()
                    for job in (full, broken, full):
                        callers.start_soon(ask, job)
                        await trio.testing.wait_all_tasks_blocked()
                    gate.release()
    assert sorted(answers) == ["Refused", "StorageFailed", "StorageFailed"]
    database.close()


@pytest.mark.promise("P1")
async def test_closing_answers_what_was_handed_in_and_refuses_the_rest(tmp_path: object) -> None:
    database = open_database(f"{tmp_path}/store.db")
    writer = Writer(database=database, clock_ms=lambda: 1, publish=Feed().publish)
    done: list[int] = []
    gate = Gate()

    def note(tx: Transaction, number: int) -> None:
        tx.emit("kernel.started", data={"number": number})

    async def one(number: int) -> None:
        await writer.commit(note, number)
        done.append(number)

    with trio.fail_after(5):
        async with trio.open_nursery() as callers:
            async with trio.open_nursery() as nursery:
                await nursery.start(writer.run)
                callers.start_soon(writer.commit, gate)
                await gate.entered()
                for number in range(5):
                    callers.start_soon(one, number)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
                await trio.lowlevel.cancel_shielded_checkpoint()
                gate.release()
            assert await refusal(writer.commit(note, 9)) == "stopping"
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert len(Reader(database=database).now(feed.since, 0)) == 5
    assert database.writer().execute("PRAGMA wal_checkpoint").fetchone() == (0, 0, 0)
    database.close()


def test_what_nobody_waits_for_is_committed_soon_however_much_of_it_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time runs from the first of it: here another comes every 10 ms."""
    now = 0.0

    class Jobs:
        def get(self, timeout: float) -> object:
            nonlocal now
            if timeout < 0.01:
                raise queue.Empty
            now += 0.01
            return SimpleNamespace(soon=True)

    monkeypatch.setattr(writer, "monotonic", lambda: now)
    one = cast("Writer", SimpleNamespace(_jobs=Jobs(), soon_seconds=0.05))
    group, closing = Writer._next_group(one)  # pyright: ignore[reportPrivateUsage]
    assert 4 <= len(group) <= 6 and not closing


class Payload:
    """Something large."""


@pytest.mark.promise("IF15", "HF18")
async def test_what_a_refused_job_was_given_is_gone_with_its_answer(store: Store) -> None:
    def refuse(_tx: Transaction, payload: Payload) -> None:
        raise Refused("conflict", f"no {type(payload).__name__}")

    async def attempt() -> weakref.ref[Payload]:
        payload = Payload()
        with pytest.raises(Refused):
            await store.writer.commit(refuse, payload)
        return weakref.ref(payload)

    await store.writer.commit(lambda _tx: None)
    gc.collect()
    gc.disable()
    try:
        left = await attempt()
        await store.writer.commit(lambda _tx: None)  # the writer's thread has let go of the group before
        assert left() is None
    finally:
        gc.enable()
