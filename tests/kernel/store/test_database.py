"""Opening a database: migrations, and files that cannot be used."""

import re
import shutil
import threading
from pathlib import Path
from typing import get_args

import apsw
import pytest
import trio

from kernel.policy.agent_status import AgentState
from kernel.rule.draft import Origin
from kernel.store import database
from kernel.store.database import READERS, Reader, open_database
from kernel.store.schema import BASE, CannotOpen, migrations
from protocol.instruction import STATUSES, DeliveryState
from protocol.message import FACT_KINDS, MESSAGE_KINDS
from tests.shorthand import refusal


@pytest.mark.promise("P25")
def test_each_migration_sets_its_own_number() -> None:
    for number, script in migrations().items():
        assert script.read_text().rstrip().endswith(f"PRAGMA user_version = {number};")
    assert list(migrations()) == list(range(BASE, BASE + len(migrations())))


def test_lists_in_the_schema_are_those_of_the_protocol() -> None:
    script = "\n".join(one.read_text() for one in migrations().values())
    found = {
        (name, tuple(re.findall(r"'(\w+)'", values)))
        for name, values in re.findall(r"CHECK \((\w+) IN \(([^)]*)\)\)", script)
        if "'" in values
    }
    assert ("kind", MESSAGE_KINDS) in found
    assert ("state", STATUSES) in found
    assert ("state", get_args(DeliveryState)) in found
    assert ("state", get_args(AgentState)) in found
    assert ("origin", get_args(Origin)) in found
    indexes = dict(re.findall(r"CREATE INDEX (\w+) ON messages [^;]*kind NOT IN \(([^)]*)\)", script))
    assert [set(re.findall(r"'(\w+)'", one)) for one in indexes.values()] == [FACT_KINDS, FACT_KINDS]


@pytest.mark.promise("SF09")
def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    open_database(path).close()
    other = apsw.Connection(path)
    other.execute("PRAGMA user_version = 999").fetchall()
    other.close()
    with pytest.raises(CannotOpen, match="upgrade agent-worker") as caught:
        open_database(path)
    assert path in str(caught.value)
    other = apsw.Connection(path)
    assert other.execute("PRAGMA user_version").get == 999
    other.close()


@pytest.mark.promise("SF07")
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(CannotOpen, match=re.escape(str(path))):
        open_database(str(path))
    assert path.read_bytes() == b"something else entirely" * 100


@pytest.mark.promise("P25")
def test_a_file_with_tables_of_others_gets_the_schema_beside_them(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    other = apsw.Connection(path)
    other.execute("CREATE TABLE theirs (word TEXT); INSERT INTO theirs VALUES ('kept')").fetchall()
    other.close()
    found = open_database(path)
    assert found.schema() == max(migrations())
    assert found.writer().execute("SELECT word FROM theirs").get == "kept"
    found.close()


@pytest.mark.promise("P20")
def test_opening_twice_changes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    open_database(path).close()
    database = open_database(path)
    assert database.writer().execute("PRAGMA user_version").get == max(migrations())
    assert database.writer().execute("PRAGMA journal_mode").get == "wal"
    assert database.writer().execute("PRAGMA synchronous").get == 2
    assert [row[0] for row in database.writer().execute("PRAGMA integrity_check")] == ["ok"]
    database.close()


def test_a_statement_is_planned_once_and_not_for_each_value() -> None:
    database = open_database(":memory:")
    for connection in (database.writer(), database.reader()):
        assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
    database.close()


def test_databases_in_memory_are_strangers() -> None:
    first, second = open_database(":memory:"), open_database(":memory:")
    first.writer().execute("INSERT INTO boots (pid, version, at_ms, requeued) VALUES (1, '', 0, 0)")
    count = "SELECT count(*) FROM boots"
    assert (first.reader().execute(count).get, second.reader().execute(count).get) == (1, 0)
    first.close()
    second.close()


@pytest.mark.promise("SF07")
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(str(path)).close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(CannotOpen, match=r"damaged.*backup") as caught:
            open_database(str(path))
        assert str(path) in str(caught.value)
        assert path.read_bytes() == content


@pytest.mark.promise("SF08")
async def test_a_log_that_was_deleted_keeps_nobody_from_starting(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before = open_database(str(path))
    before.writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before.writer().execute("INSERT INTO boots (pid, version, at_ms, requeued) VALUES (1, '', 0, 0)")
    killed = tmp_path / "killed.db"
    shutil.copy(path, killed)
    before.close()
    after = open_database(str(killed))
    assert [row[0] for row in after.writer().execute("PRAGMA integrity_check")] == ["ok"]
    assert after.writer().execute("SELECT count(*) FROM boots").get == 0
    after.close()


@pytest.mark.promise("SF18")
async def test_a_question_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.store.database.LONGEST_SECONDS", 0.05)
    database = open_database(str(tmp_path / "store.db"))
    reader = Reader(database=database)
    endless = "WITH RECURSIVE n (i) AS (SELECT max(id) FROM boots UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n"
    assert await refusal(reader.read(lambda conn: conn.execute(endless).get)) == "busy"
    assert await reader.read(lambda conn: conn.execute("SELECT 1").get) == 1
    database.writer().execute("INSERT INTO boots (pid, version, at_ms, requeued) VALUES (1, '', 0, 0)")
    assert database.writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    database.close()


@pytest.mark.promise("SF11")
async def test_a_database_that_somebody_has_locked_is_waited_for_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "TOLD_SECONDS", 0.0)
    path = str(tmp_path / "store.db")
    open_database(path).close()
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")
    async with trio.open_nursery() as nursery:
        opened = trio.Event()

        async def open_it() -> None:
            found = await trio.to_thread.run_sync(open_database, path)
            found.close()
            opened.set()

        nursery.start_soon(open_it)
        with trio.fail_after(10):
            while "database.busy" not in caplog.text:
                await trio.lowlevel.checkpoint()
        assert not opened.is_set()
        other.execute("ROLLBACK")
        with trio.fail_after(10):
            await opened.wait()
    monkeypatch.setattr(database, "OPEN_SECONDS", 0.1)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CannotOpen, match=r"another program has locked .*store\.db.*end it") as caught:
        open_database(path)
    other.close()
    assert "backup" not in str(caught.value)
    assert "move" not in str(caught.value)


class Lacking(apsw.VFS):
    """A file system that answers ``result`` where ``what`` is asked of a file."""

    def __init__(self, what: str, result: int) -> None:
        self.name = f"lacking-{what}-{result}"
        self.what, self.result = what, result
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  (SQLite's names)
        lacking = self

        class File(apsw.VFSFile):
            def _fail(self) -> None:
                raise apsw.exception_for(lacking.result)

            def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  (SQLite's names)
                if lacking.what == "xWrite":
                    self._fail()
                super().xWrite(data, offset)

            def xLock(self, level: int) -> None:  # noqa: N802  (SQLite's names)
                if lacking.what == "xLock":
                    self._fail()
                super().xLock(level)

        return File("", name, flags)


def test_a_kernel_continues_in_order_only_where_the_disk_takes_a_commit(tmp_path: Path) -> None:
    disk = Lacking("nothing yet", apsw.SQLITE_FULL)
    found = open_database(str(tmp_path / "store.db"), disk.name)
    assert found.continues_in_order()
    disk.what = "xWrite"
    assert not found.continues_in_order()
    disk.what = "nothing any more"
    assert found.continues_in_order()
    found.close()


@pytest.mark.parametrize(
    ("what", "result", "told"),
    [
        ("xWrite", apsw.SQLITE_FULL, r"^the disk of .*store\.db is full: free some space"),
        ("xLock", apsw.SQLITE_IOERR_LOCK, r"^the file system of .*store\.db has no shared memory, or no locks"),
        ("xLock", apsw.SQLITE_IOERR_SHMMAP, r"^the file system of .*AGENT_WORKER_HOME"),
        ("xWrite", apsw.SQLITE_READONLY, r"^cannot write to the database .*permissions"),
        ("xWrite", apsw.SQLITE_IOERR_WRITE, r"^cannot use the database .*disk"),
    ],
)
def test_what_a_disk_lacks_is_told_and_nobody_is_sent_for_a_backup(
    tmp_path: Path, what: str, result: int, told: str
) -> None:
    lacking = Lacking(what, result)
    with pytest.raises(CannotOpen, match=told) as caught:
        open_database(str(tmp_path / "store.db"), lacking.name)
    assert "backup" not in str(caught.value)
    assert "start anew" not in str(caught.value)


async def test_no_more_reads_than_stated_run_at_a_time(tmp_path: Path) -> None:
    reader, meeting = Reader(database=open_database(str(tmp_path / "store.db"))), threading.Barrier(READERS + 1)

    def meets(_: apsw.Connection) -> None:
        with pytest.raises(threading.BrokenBarrierError):
            meeting.wait(0.2)

    async with trio.open_nursery() as nursery:
        for _ in range(READERS + 1):
            nursery.start_soon(reader.read, meets)
