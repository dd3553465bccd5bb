"""A copy of the database, made while it is written to."""

from pathlib import Path

import apsw
import pytest
import trio

from tests.kernel.store.running_store import Store, open_store

BEFORE = 50
HALVES = """
SELECT (SELECT count(*) FROM messages WHERE sender = 'user') - (SELECT count(*) FROM instructions),
  (SELECT count(*) FROM instructions) - (SELECT count(*) FROM deliveries),
  (SELECT count(*) FROM instructions WHERE state = 'done') - (SELECT count(*) FROM messages WHERE kind = 'reply')
"""
SAID = "SELECT text FROM messages WHERE sender = 'user' ORDER BY seq"


async def one_job(store: Store, number: int) -> None:
    leased = await store.given("dm:alice", f"m{number}")
    instruction = leased.instruction
    await store.close(instruction, leased.epoch, status="done", text="ok")


def copy(source: str, target: str) -> None:
    """As ``sqlite3 store.db '.backup target'`` does it: over a connection of its own, page by page."""
    reading, writing = apsw.Connection(source), apsw.Connection(target)
    with writing.backup("main", reading, "main") as backup:
        while not backup.done:
            backup.step(10)
    reading.close()
    writing.close()


@pytest.mark.promise("SF20")
async def test_a_backup_under_load_is_one_moment_and_can_be_gone_on_with(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "store.db"
    target.parent.mkdir()
    written, enough = 0, trio.Event()
    async with open_store(str(tmp_path / "store.db")) as store:
        await store.agents("alice")

        async def load(scope: trio.CancelScope) -> None:
            nonlocal written
            while not scope.cancel_called:
                await one_job(store, written)
                written += 1
                if written == BEFORE:
                    enough.set()

        async with trio.open_nursery() as nursery:
            stop = trio.CancelScope()
            nursery.start_soon(load, stop)
            await enough.wait()
            accepted = written
            await trio.to_thread.run_sync(copy, store.database.path, str(target))
            stop.cancel()
    async with open_store(str(target)) as restored:
        conn = restored.database.reader()
        assert conn.execute("PRAGMA integrity_check").get == "ok"
        assert conn.execute(HALVES).fetchall() == [(0, 0, 0)]
        said = [row[0] for row in conn.execute(SAID)]
        assert said == [f"m{number}" for number in range(len(said))]
        assert accepted <= len(said) <= written + 1
        await restored.said("dm:alice", "and on")
