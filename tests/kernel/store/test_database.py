"""Opening a database: migrations, and files that cannot be used."""

import re
import shutil
from pathlib import Path
from typing import get_args

import apsw
import pytest

from kernel.policy.standing import AgentState
from kernel.rule.draft import Origin
from kernel.store.database import migrations, open_database
from kernel.store.errors import CannotOpen
from kernel.store.reader import Reader
from protocol.errors import Refused
from protocol.instruction import STATUSES, DeliveryState
from protocol.message import FACT_KINDS, MESSAGE_KINDS


def test_each_migration_sets_its_own_number() -> None:
    """Promise P25: the schema and its version change in one transaction."""
    for number, script in migrations().items():
        assert script.rstrip().endswith(f"PRAGMA user_version = {number};")
    assert list(migrations()) == list(range(1, len(migrations()) + 1))


def test_lists_in_the_schema_are_those_of_the_protocol() -> None:
    """style.md 32."""
    script = "\n".join(migrations().values())
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


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Fault SF09: names the file and the remedy."""
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


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Fault SF07."""
    path = tmp_path / "store.db"
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(CannotOpen, match=re.escape(str(path))):
        open_database(str(path))
    assert path.read_bytes() == b"something else entirely" * 100


def test_opening_twice_changes_nothing(tmp_path: Path) -> None:
    """Promise P20: a restart is not a migration."""
    path = str(tmp_path / "store.db")
    open_database(path).close()
    database = open_database(path)
    assert database.writer().execute("PRAGMA user_version").get == len(migrations())
    assert database.writer().execute("PRAGMA journal_mode").get == "wal"
    assert database.writer().execute("PRAGMA synchronous").get == 2
    assert [row[0] for row in database.writer().execute("PRAGMA integrity_check")] == ["ok"]
    database.close()


def test_a_statement_is_planned_once_and_not_for_each_value() -> None:
    """architecture.md: planned anew for what is bound to it, one statement took as long as all others of a commit."""
    database = open_database(":memory:")
    for connection in (database.writer(), database.reader()):
        assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1
    database.close()


def test_databases_in_memory_are_strangers() -> None:
    """Each has an address of its own."""
    first, second = open_database(":memory:"), open_database(":memory:")
    first.writer().execute("INSERT INTO boots (pid, version, at_ms, requeued) VALUES (1, '', 0, 0)")
    count = "SELECT count(*) FROM boots"
    assert (first.reader().execute(count).get, second.reader().execute(count).get) == (1, 0)
    first.close()
    second.close()


def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Fault SF07: a page overwritten; named with the remedy, not a byte changed, the next try the same."""
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


async def test_a_log_that_was_deleted_keeps_nobody_from_starting(tmp_path: Path) -> None:
    """Fault SF08: killed, and its -wal removed: what had been copied back is there and the file is whole."""
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


async def test_a_question_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault SF18: a reader that stays would keep the log from being copied back, and it would grow without end."""
    monkeypatch.setattr("kernel.store.reader.LONGEST_SECONDS", 0.05)
    database = open_database(str(tmp_path / "store.db"))
    reader = Reader(database=database)
    endless = "WITH RECURSIVE n (i) AS (SELECT max(id) FROM boots UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(Refused) as caught:
        await reader.read(lambda conn: conn.execute(endless).get)
    assert caught.value.code == "busy"
    assert await reader.read(lambda conn: conn.execute("SELECT 1").get) == 1
    database.writer().execute("INSERT INTO boots (pid, version, at_ms, requeued) VALUES (1, '', 0, 0)")
    assert database.writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    database.close()
