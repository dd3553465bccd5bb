"""The writer without a thread keeps the same promises as the real one: it is only then that it may stand in for it."""

from pathlib import Path

import pytest
import trio

from kernel.store.database import MEMORY, open_database
from kernel.store.schema import StorageFailed
from kernel.store.transaction import Transaction, emit_log
from tests.contracts import Check
from tests.contracts.check_store import CHECKS
from tests.kernel.store.running_store import Clock, open_store
from tests.sim.chance import run_virtually, without_threads
from tests.sim.inline import InlineWriter


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract_of_the_store(check: Check) -> None:
    """tests/contracts/check_store.py, in virtual time."""

    async def main() -> None:
        async with open_store(MEMORY, InlineWriter) as store:
            await check(store)

    run_virtually(1, main)


async def _write_twice(writer: InlineWriter) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        for text in ("x", "too late"):
            with pytest.raises(StorageFailed):
                await writer.commit(emit_log, "worker.log", data={"text": text})


@pytest.mark.promise("P1")
@pytest.mark.parametrize("durable", [False, True])
def test_a_killed_writer_answers_nobody_and_keeps_what_was_committed(durable: bool) -> None:
    seen: list[int] = []

    async def main() -> None:
        database = open_database(MEMORY)
        writer = InlineWriter(
            database=database,
            clock_ms=Clock(),
            publish=lambda _events: pytest.fail("nobody hears of it"),
            doomed=lambda committed: committed == durable,
        )
        with pytest.raises(ExceptionGroup) as ended:
            await _write_twice(writer)
        assert ended.group_contains(StorageFailed)
        seen.append(len(database.reader().execute("SELECT seq FROM events").fetchall()))
        database.close()

    run_virtually(1, main)
    assert seen == [int(durable)]


def test_a_cancelled_commit_is_made_all_the_same() -> None:
    async def main() -> None:
        async with open_store(MEMORY, InlineWriter) as store:
            with trio.move_on_after(0):
                await store.writer.commit(_slow)
            with trio.CancelScope() as scope:
                store.listeners.append(lambda _events: scope.cancel())
                await store.writer.commit(emit_log, "worker.log", data={"text": "x"})
            await store.writer.commit(emit_log, "worker.log", data={"text": "y"})
            assert [event.data["text"] for event in store.told] == ["x", "y"]

    run_virtually(1, main)


def _slow(_tx: Transaction) -> None:
    raise AssertionError("cancelled before it was handed in")


def test_threads_come_back_when_the_virtual_world_is_over(tmp_path: Path) -> None:
    real = trio.to_thread.run_sync
    with without_threads():
        assert trio.to_thread.run_sync is not real
    assert trio.to_thread.run_sync is real
