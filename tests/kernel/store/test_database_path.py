"""A database whose file is removed, replaced or moved while it is open."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
import trio

from kernel.store import writer as writing
from kernel.store.database import MEMORY, Database, open_database
from kernel.store.schema import StorageFailed
from kernel.store.transaction import Transaction
from kernel.store.writer import Writer
from tests.shorthand import present

INSERT = "INSERT INTO boots (pid, version, at_ms, requeued) VALUES (7, '', 0, 0)"
COUNT = "SELECT count(*) FROM boots"


def begin(tx: Transaction) -> None:
    """Something that is to be kept."""
    tx.conn.execute(INSERT)


def remove(path: Path) -> None:
    """As ``rm agent-worker.db*``."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


def replace(path: Path) -> None:
    """As ``mv other.db agent-worker.db``."""
    other = path.parent / "other.db"
    open_database(str(other)).close()
    other.replace(path)


def remove_the_log(path: Path) -> None:
    """As ``rm agent-worker.db-wal``."""
    Path(f"{path}-wal").unlink()


def rename_the_folder(path: Path) -> None:
    """As ``mv state elsewhere``."""
    path.parent.rename(path.parent.parent / "elsewhere")


def opened(folder: Path) -> tuple[Database, Path]:
    (folder / "state").mkdir()
    path = folder / "state" / "agent-worker.db"
    return open_database(str(path)), path


HARMS = [remove, replace, remove_the_log, rename_the_folder]


@pytest.mark.promise("SF21", "P1")
@pytest.mark.parametrize("harm", HARMS)
async def test_nothing_is_accepted_that_would_not_be_found_again(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    database, path = opened(tmp_path)
    writer = Writer(database=database, clock_ms=lambda: 0, publish=lambda _events: None)
    with pytest.RaisesGroup(pytest.RaisesExc(StorageFailed, match=r"while it was open.*(fd/|elsewhere|$)")):
        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            await writer.commit(begin)
            harm(path)
            with trio.CancelScope(shield=True), trio.fail_after(10), pytest.raises(StorageFailed):
                await writer.commit(begin)
    database.keep_log()
    database.close()


@pytest.mark.promise("P23")
@pytest.mark.parametrize("harm", HARMS)
async def test_it_is_noticed_also_where_nobody_writes(
    tmp_path: Path, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a kernel that was begun beside it is soon alone."""
    monkeypatch.setattr(writing, "PLACE_SECONDS", 0.05)
    database, path = opened(tmp_path)
    writer = Writer(database=database, clock_ms=lambda: 0, publish=lambda _events: None)
    with trio.fail_after(20), pytest.RaisesGroup(StorageFailed):
        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            harm(path)
    database.keep_log()
    database.close()


@pytest.mark.promise("P1")
@pytest.mark.parametrize("harm", [remove, replace, remove_the_log])
def test_what_no_name_leads_to_is_copied_before_the_process_ends(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    database, path = opened(tmp_path)
    database.writer().execute(INSERT)
    assert database.save() is None
    (path.parent / "agent-worker.db.saved-1").write_text("somebody's")
    harm(path)
    copy = database.save()
    database.keep_log()
    database.close()
    assert copy is not None
    assert copy == f"{path}.saved-2"
    found = apsw.Connection(copy)
    assert found.execute(COUNT).get == 1
    assert found.execute("PRAGMA integrity_check").get == "ok"
    found.close()
    assert (path.parent / "agent-worker.db.saved-1").read_text() == "somebody's"


@pytest.mark.promise("P1")
def test_what_was_saved_is_told_of_until_it_is_in_use_or_gone(tmp_path: Path) -> None:
    database, path = opened(tmp_path)
    assert database.saved_notice() is None
    database.writer().execute(INSERT)
    remove(path)
    copy = present(database.save())
    database.keep_log()
    database.close()
    (path.parent / f"{path.name}.saved-notes").write_text("somebody's")
    again = open_database(str(path))
    assert again.writer().execute(COUNT).get == 0
    told = again.saved_notice() or ""
    assert told.startswith(f"{copy} contains all data before")
    assert f"run awk stop, move {path} away, move the copy to {path} and run awk start" in told
    again.close()
    path.rename(path.with_name("away.db"))
    Path(copy).rename(path)
    restored = open_database(str(path))
    assert (restored.writer().execute(COUNT).get, restored.saved_notice()) == (1, None)
    restored.close()


def test_of_several_that_were_saved_the_last_is_named_and_the_others_are_counted(tmp_path: Path) -> None:
    database, path = opened(tmp_path)
    for number, at in (("1", 300), ("2", 100), ("3", 200)):
        saved = path.with_name(f"{path.name}.saved-{number}")
        saved.touch()
        os.utime(saved, (at, at))
    assert (database.saved_notice() or "").startswith(f"{path}.saved-1 (and 2 older ones beside it) contains all")
    database.close()


def test_what_was_moved_with_its_folder_is_left_and_said_where_it_is(tmp_path: Path) -> None:
    database, path = opened(tmp_path)
    database.writer().execute(INSERT)
    rename_the_folder(path)
    moved = tmp_path / "elsewhere" / path.name
    assert database.misplaced() == f"{path} was deleted while it was open: it is {moved} now"
    assert database.save() is None
    database.keep_log()
    database.close()
    again = open_database(str(moved))
    assert again.writer().execute(COUNT).get == 1
    again.close()


def test_what_happens_to_copies_and_to_the_content_is_nothing_to_it(tmp_path: Path) -> None:
    database, path = opened(tmp_path)
    shutil.copy(path, tmp_path / "backup.db")
    os.utime(path)
    database.writer().execute(INSERT)
    database.writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    database.writer().execute("VACUUM")
    assert database.misplaced() is None
    database.close()
    memory = open_database(MEMORY)
    assert (memory.misplaced(), memory.save()) == (None, None)
    memory.close()
