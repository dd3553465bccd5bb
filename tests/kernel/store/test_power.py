"""Nothing accepted is lost on a disk that is honest about syncs and about nothing else."""

import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest
import trio

from kernel.rule.draft import Draft
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.database import Database, open_database
from kernel.store.feed import Feed
from kernel.store.schema import BASE, StorageFailed, migrations
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import lease
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.ipc import Entry
from protocol.names import AgentKey
from tests.kernel.store.faulty_disk import Cut, FaultyDisk
from tests.kernel.store.running_store import Clock, token_hash
from tests.kernel.store.test_conversion import old_database
from tests.shorthand import present

pytestmark = pytest.mark.promise("P1")

CLIENTS = 4


@asynccontextmanager
async def writing(database: Database) -> AsyncGenerator[Writer]:
    """A writer with agents to send to."""
    writer = Writer(database=database, clock_ms=Clock(), publish=Feed().publish)
    names = [AgentKey(f"a{number}") for number in range(CLIENTS)]
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        await writer.commit(put_agents, [AgentSpec(key=name, origin="file", definition=b"{}") for name in names])
        yield writer
        writer.close()


async def work(writer: Writer, name: str, rounds: int, told: list[str]) -> None:
    """Messages to one agent, each leased, worked on and closed; what was answered is noted down."""
    for number in range(rounds):
        text = f"{name} {number} " + "x" * 3000
        draft = Draft(kind="said", space=f"dm:{name}", sender="user", text=text, to=(name,))
        (instruction,) = (await writer.commit(append, draft)).instruction_ids
        told.append(text)
        leased = present(await writer.commit(lease, instruction, token_hash(instruction)))
        await writer.commit(journal, instruction, leased.epoch, Entry(k=0, kind="reply", text="y" * 2000))
        await writer.commit(close, instruction, leased.epoch, status="done", text="finished")


async def written(disk: FaultyDisk, path: Path, rounds: int, told: list[str], *, honest: bool = True) -> None:
    """Several clients at once on ``disk``; the log is copied back often, so that cuts hit that too."""
    database = open_database(str(path), disk.name)
    database.writer().execute("PRAGMA wal_autocheckpoint = 40").fetchall()
    if not honest:
        database.writer().execute("PRAGMA synchronous = OFF").fetchall()
    async with writing(database) as writer, trio.open_nursery() as clients:
        for number in range(CLIENTS):
            clients.start_soon(work, writer, f"a{number}", rounds, told)
    database.close()


ONCE = """
SELECT m.text FROM messages AS m
JOIN events AS e ON e.message = m.seq JOIN deliveries AS d ON d.message = m.seq
JOIN instructions AS i ON i.id = d.instruction AND i.message = m.seq WHERE m.sender = 'user' ORDER BY m.seq
"""
HALVES = """
SELECT (SELECT count(*) FROM messages WHERE sender = 'user') - (SELECT count(*) FROM instructions),
  (SELECT count(*) FROM instructions) - (SELECT count(*) FROM deliveries),
  (SELECT coalesce(sum(entries), 0) FROM instructions) - (SELECT count(*) FROM entries),
  (SELECT count(*) FROM instructions WHERE state = 'done') - (SELECT count(*) FROM messages WHERE kind = 'reply')
"""


def broken(folder: Path, told: list[str]) -> list[str]:
    """What a restart after the cut finds wrong."""
    try:
        database = open_database(str(folder / "store.db"))
    except Exception as error:  # noqa: BLE001 - whatever it is, the restart failed
        return [f"cannot be opened: {error}"]
    try:
        reader = database.reader()
        whole = [str(row[0]) for row in reader.execute("PRAGMA integrity_check") if row[0] != "ok"]
        there = [row[0] for row in reader.execute(ONCE)]
        lost = [f"lost: {text[:20]}" for text in told if there.count(text) != 1]
        torn = [f"torn: {row}" for row in reader.execute(HALVES) if any(row)]
        return whole + lost + torn
    except apsw.Error as error:
        return [str(error)]
    finally:
        database.close()


def after(cuts: list[Cut], folder: Path, told: list[str], seed: int) -> Iterator[str]:
    """Each cut twice: nothing of what was not synced has survived, and some of it, in any order."""
    chance = random.Random(seed)
    for number, cut in enumerate(cuts):
        for kind, luck in (("nothing", None), ("some", chance)):
            place = folder / f"{number}-{kind}"
            place.mkdir()
            cut.write_to(place, luck)
            for fault in broken(place, told[: cut.told]):
                yield f"cut {number} ({kind} survived, seed {seed}): {fault}"


@pytest.mark.promise("P1", "SF02")
@pytest.mark.long("tests/crash/test_crash_points.py")
async def test_a_power_cut_at_any_sync_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """Drop all, or keep a random part of what was not synced; accepted present, torn 0."""
    told: list[str] = []
    disk = FaultyDisk(lambda: len(told))
    await written(disk, tmp_path / "store.db", 8, told)
    assert len(told) == 8 * CLIENTS
    assert len(disk.cuts) >= 50
    assert list(after(disk.cuts, tmp_path, told, seed=7)) == []


async def test_the_judge_sees_a_store_that_does_not_sync(tmp_path: Path) -> None:
    told: list[str] = []
    disk = FaultyDisk(lambda: len(told))
    await written(disk, tmp_path / "store.db", 3, told, honest=False)
    disk.synced(str(tmp_path / "another"))
    assert any("lost" in fault or "cannot" in fault for fault in after(disk.cuts[-1:], tmp_path, told, seed=7))


@pytest.mark.promise("SF04")
async def test_a_failing_sync_ends_the_writer_and_is_not_tried_again(tmp_path: Path) -> None:
    told: list[str] = []
    disk = FaultyDisk(lambda: len(told))
    database = open_database(str(tmp_path / "store.db"), disk.name)

    async def client(writer: Writer, name: str) -> None:
        with pytest.raises(StorageFailed):
            await work(writer, name, 1000, told)

    syncs = 0
    with pytest.RaisesGroup(StorageFailed, flatten_subgroups=True):
        async with writing(database) as writer:
            disk.failing_sync = disk.syncs + 20
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as clients:
                    for number in range(CLIENTS):
                        clients.start_soon(client, writer, f"a{number}")
            syncs = disk.syncs
    assert (len(told) > 0, syncs) == (True, disk.failing_sync)
    for luck in (None, random.Random(1)):
        place = tmp_path / str(luck is None)
        place.mkdir()
        disk.cuts[-1].write_to(place, luck)
        assert broken(place, told[: disk.cuts[-1].told]) == []
    database.keep_log()
    database.close()
    assert disk.syncs == syncs


@pytest.mark.promise("SF03")
async def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """507, nothing of it kept, reads fine; the same writer goes on."""
    told: list[str] = []
    disk = FaultyDisk()
    disk.remembers = False
    database = open_database(str(tmp_path / "store.db"), disk.name)
    async with writing(database) as writer:
        await work(writer, "a0", 3, told)
        disk.room = 20_000
        refused: list[str] = []
        for number in range(30):
            draft = Draft(kind="said", space="dm:a1", sender="user", text=f"full {number} " + "z" * 2000, to=("a1",))
            try:
                await writer.commit(append, draft)
                told.append(draft.text)
            except Refused as error:
                refused.append(error.code)
        assert set(refused) == {"storage_full"}
        assert len(database.reader().execute(ONCE).fetchall()) == len(told)
        disk.room = None
        await work(writer, "a2", 3, told)
    database.close()
    assert broken(tmp_path, told) == []


@pytest.mark.promise("SF10", "P25")
@pytest.mark.parametrize("found", [0, pytest.param(30, marks=pytest.mark.long("[32]")), BASE])
def test_a_kernel_killed_in_a_migration_leaves_the_old_schema_or_the_new(
    found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    newest = max(migrations())
    if found == BASE:
        newest += 1
        open_database(str(path)).close()
        script = tmp_path / "next"
        script.write_text(f"CREATE TABLE later (a TEXT) STRICT; PRAGMA user_version = {newest};")
        monkeypatch.setattr("kernel.store.schema.migrations", lambda: {**migrations(), newest: script})
    elif found:
        older = apsw.Connection(old_database(path, found))
        older.execute("DELETE FROM messages; DELETE FROM instructions; DELETE FROM deliveries; DELETE FROM entries")
        older.close()
    disk = FaultyDisk()
    killed: list[dict[str, bytes]] = []
    disk.on_write = lambda: killed.append(
        {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file() and "-shm" not in file.name}
    )
    open_database(str(path), disk.name).close()
    versions: set[int] = set()
    for place, files in enumerate(killed):
        folder = tmp_path / f"killed-{place}"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        versions.add(_version(folder / "store.db"))
        if place % 5 == 0:
            assert broken(folder, []) == []
    assert versions <= {found, *range(BASE, newest + 1)}
    assert list(after(disk.cuts, tmp_path, [], seed=3)) == []


def _version(path: Path) -> int:
    conn = apsw.Connection(str(path))
    assert conn.execute("PRAGMA integrity_check").get == "ok"
    version = conn.execute("PRAGMA user_version").get
    conn.close()
    assert isinstance(version, int)
    return version
