"""An upgrade in the log: no boot, no death, nothing put back but what was just being ended; and its database tried."""

from pathlib import Path
from typing import cast

import apsw
import pytest

from kernel.store.checkup import try_to_open
from kernel.store.database import Connection, open_database
from kernel.store.schema import CannotOpen, migrations
from kernel.store.transitions.recovery import next_term, recover, settle, upgrade_failed, upgraded
from protocol.names import InstructionId
from tests.kernel.store.running_store import Store
from tests.kernel.store.test_recovery import status, working

NEWEST = max(migrations())


def boots(conn: Connection) -> list[tuple[object, ...]]:
    return cast(
        "list[tuple[object, ...]]", conn.execute("SELECT pid, version, at_ms, stopped_ms FROM boots").fetchall()
    )


@pytest.mark.promise("P92")
async def test_work_that_goes_on_is_left_as_it_is(store: Store) -> None:
    await working(store, "alice", "bob")
    going_on, ended = InstructionId("i1"), InstructionId("i2")
    assert await store.writer.commit(settle, [going_on], 2) == (ended,)
    assert (status(store, going_on), status(store, ended)) == ("leased", "queued")
    assert await store.writer.commit(settle, [going_on], 2) == ()
    store.clock.now_ms += 1
    leased = await store.take(ended)
    assert (leased.epoch, leased.attempts) == (2, 1)


@pytest.mark.promise("P92")
async def test_the_row_of_a_kernel_says_what_runs_in_it_and_nothing_else_changes(store: Store) -> None:
    await store.writer.commit(recover, pid=7, version="1.0")
    (before,) = store.reader.now(boots)
    await store.writer.commit(upgraded, pid=7, version="2.0", before="1.0", attempts=3, waited_seconds=0.5)
    assert store.reader.now(boots) == [(7, "2.0", *before[2:])]
    await store.writer.commit(upgrade_failed, pid=8, version="2.0", to="3.0", reason="not up to it")
    assert store.reader.now(boots) == [(8, "2.0", *before[2:])]
    told = {one.type: one.data for one in store.told if one.type.startswith("kernel.upgrade")}
    assert told["kernel.upgraded"] == {
        "from": "1.0", "to": "2.0", "pid": 7, "attempts": 3, "waited_seconds": 0.5
    }  # fmt: skip
    assert told["kernel.upgrade_failed"] == {"from": "2.0", "to": "3.0", "pid": 8, "reason": "not up to it"}
    assert (await store.writer.commit(recover, pid=9, version="2.0")).died


@pytest.mark.promise("P92")
async def test_each_program_has_a_term_of_its_own(store: Store) -> None:
    terms = [(await store.writer.commit(recover, pid=7, version="1.0")).term]
    for _ in range(3):
        terms.append(store.reader.now(next_term))
        await store.writer.commit(settle, (), terms[-1])
    assert (await store.writer.commit(recover, pid=8, version="1.0")).term > max(terms)
    assert terms == sorted(set(terms))


def at_version(path: Path, version: int) -> None:
    """A database of ours that says it has another schema."""
    open_database(str(path)).close()
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


@pytest.mark.promise("P93")
def test_a_database_is_tried_without_changing_it(tmp_path: Path) -> None:
    path = tmp_path / "kernel.db"
    database = open_database(str(path))
    database.writer().execute("CREATE TABLE kept_open (a)")
    try_to_open(str(path), str(tmp_path / "trial.db"))
    assert database.schema() == NEWEST
    database.close()
    assert [one.name for one in tmp_path.iterdir()] == ["kernel.db"]


@pytest.mark.promise("P93")
def test_a_database_that_is_newer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernel.db"
    at_version(path, NEWEST + 1)
    for open_it in (lambda: try_to_open(str(path), "unused"), lambda: open_database(str(path), migrates=False)):
        with pytest.raises(CannotOpen, match=f"has schema {NEWEST + 1}, newer than this program's {NEWEST}"):
            open_it()


@pytest.mark.promise("P93")
def test_a_migration_that_fails_does_so_on_the_copy(tmp_path: Path) -> None:
    path, copy = tmp_path / "kernel.db", tmp_path / "trial.db"
    at_version(path, 0)
    with pytest.raises(CannotOpen, match=r"failed on a copy of the database: .*already exists"):
        try_to_open(str(path), str(copy))
    assert not copy.exists()
    database = open_database(str(path), migrates=False)
    assert database.schema() == 0
    with pytest.raises(CannotOpen):
        database.migrate()
    database.close()


@pytest.mark.promise("P91")
async def test_a_program_that_takes_over_has_a_higher_term_and_the_next_kernel_a_higher_one(store: Store) -> None:
    first = (await store.writer.commit(recover)).term
    taken = store.reader.now(next_term)
    assert taken > first
    await store.writer.commit(settle, [], taken)
    assert len(store.reader.now(boots)) == 1
    assert (await store.writer.commit(recover)).term > taken
