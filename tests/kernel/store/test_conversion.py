"""Databases of earlier schemas: schema_30.sql is one of the last landed version, with rows in every table."""

import os
from pathlib import Path
from typing import cast

import apsw
import pytest

from kernel.store import schema
from kernel.store.checkup import try_to_open
from kernel.store.database import open_database
from kernel.store.schema import CONVERTED, CannotOpen, migrations
from kernel.store.snapshot import ID_GAP, SnapshotRefused, TreePlaces, check_snapshot, fit_snapshot, take_snapshot

SCHEMA_30, SCHEMA_32, SCHEMA_33, SCHEMA_34, TABLES_32 = (
    Path(__file__).with_name(f"{name}.sql").read_text("utf-8")
    for name in ("schema_30", "schema_32", "schema_33", "schema_34", "tables_32")
)
TRUST = """
ALTER TABLE instructions ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;
UPDATE instructions SET trust = 3 WHERE epoch > 0;
CREATE INDEX instructions_doubted ON instructions (space, trust) WHERE trust > 1;
CREATE INDEX instructions_doubtful ON instructions (agent, trust) WHERE trust > 1;
PRAGMA user_version = 31;
"""
SCRIPTS = {30: SCHEMA_30, 31: SCHEMA_30 + TRUST, 32: SCHEMA_32, 33: SCHEMA_33, 34: SCHEMA_34}
SHAPE = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name"
VERSION = "PRAGMA user_version"
NEXT = max(migrations()) + 1

Rows = dict[str, list[dict[str, object]]]


def old_database(path: Path, schema: int = 30) -> str:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA journal_mode = WAL; {SCRIPTS[schema]}").fetchall()
    connection.close()
    return str(path)


def everything(path: str) -> Rows:
    """All rows of all tables, by column, in the order of the table, with decisions in the tables of schema 32."""
    connection = apsw.Connection(path)
    tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "decisions" in tables:
        connection.execute(TABLES_32).fetchall()
        views = {"document_suggestions", "soul_proposals", "tray", "sequences"}
        tables = tables - {"decisions", "decision_numbers"} | views
    found: Rows = {}
    for table in tables:
        cursor = connection.execute(f'SELECT * FROM "{table}"')
        names = [name for name, *_ in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        found[table] = [dict(zip(names, row, strict=True)) for row in cursor]
    connection.close()
    found["sqlite_sequence"] += found.pop("sequences", [])
    assert found.pop("exchanges", []) == []
    assert found.pop("creations", []) == [] == [row for row in found["workflows"] if row.pop("open", 0)]
    found["sqlite_sequence"].sort(key=lambda row: str(row["name"]))
    return found


def version_of(path: str) -> object:
    connection = apsw.Connection(path)
    try:
        return connection.execute(VERSION).get
    finally:
        connection.close()


@pytest.mark.promise("P25")
@pytest.mark.parametrize("schema", CONVERTED)
def test_a_converted_database_has_every_row_and_the_schema_of_a_new_one(schema: int, tmp_path: Path) -> None:
    path = old_database(tmp_path / "kernel.db", schema)
    other = apsw.Connection(path)
    other.execute("CREATE TABLE theirs (word TEXT); INSERT INTO theirs VALUES ('kept')").fetchall()
    other.close()
    before = everything(path)
    assert min(map(len, before.values())) > 0
    open_database(path).close()
    after = everything(path)
    if schema == 30:
        for row in before["instructions"]:
            row["trust"] = 2 if row["epoch"] else 0
    before["agents"] = [{**row, "replica_of": None} for row in before["agents"]]  # of a later migration
    for table, column, value in (("attempts", "model", None), ("breakers", "lasting", 0)):  # migration 36
        before[table] = [{**row, column: value} for row in before[table]]
    assert after == before
    assert sorted(os.listdir(tmp_path)) == ["kernel.db", f"kernel.db.schema-{schema}"]
    assert version_of(f"{path}.schema-{schema}") == schema
    assert len(everything(f"{path}.schema-{schema}")["messages"]) == len(before["messages"])
    converted, new = open_database(path), open_database(":memory:")
    converted.writer().execute("DROP TABLE theirs")
    assert converted.writer().execute(SHAPE).fetchall() == new.writer().execute(SHAPE).fetchall()
    assert converted.schema() == max(migrations())
    converted.close()
    new.close()
    assert check_snapshot(path).schema == max(migrations())


@pytest.mark.promise("P25")
def test_a_conversion_that_would_lose_a_row_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old_database(tmp_path / "kernel.db")
    before = everything(path)
    copy = schema._COPY  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(schema, "_COPY", copy.replace('before"', 'before" LIMIT 1'))
    for _ in range(2):
        with pytest.raises(CannotOpen, match="was not converted: boots has 1 of 2 rows"):
            open_database(path)
    monkeypatch.undo()
    assert (version_of(path), everything(path)) == (30, before)
    assert sorted(os.listdir(tmp_path)) == ["kernel.db", "kernel.db.schema-30"]
    open_database(path).close()
    assert version_of(path) == max(migrations())


@pytest.mark.promise("P93")
def test_an_upgrade_tries_the_conversion_on_a_copy(tmp_path: Path) -> None:
    path = old_database(tmp_path / "kernel.db")
    try_to_open(path, str(tmp_path / "trial.db"))
    assert version_of(path) == 30
    assert os.listdir(tmp_path) == ["kernel.db"]


def test_a_backup_of_an_old_schema_is_taken_and_converted_when_it_is_restored(tmp_path: Path) -> None:
    path, copy = old_database(tmp_path / "kernel.db"), str(tmp_path / "copy.db")
    other = apsw.Connection(path)
    other.execute("DELETE FROM worktrees; UPDATE workflows SET definition = x'7b7d'; UPDATE ballots SET binds = NULL")
    other.close()
    before = everything(path)
    assert take_snapshot(path, copy).schema == 30
    fit_snapshot(copy, TreePlaces("/then", "/now", "/repository"), now_ms=0, trusted=True)
    assert check_snapshot(copy).schema == max(migrations())
    after = everything(copy)
    assert min(cast("int", row["seq"]) for row in after["sqlite_sequence"]) >= ID_GAP, "no id is used twice"
    fewer = {table for table in before if len(after[table]) < len(before[table])}
    assert fewer == {"document_mirrors", "tokens"}, "what every restored database goes without"
    other = apsw.Connection(path)
    other.execute("CREATE VIEW v AS SELECT 1")
    other.close()
    with pytest.raises(SnapshotRefused, match="not agent-worker"):
        check_snapshot(path)


@pytest.mark.promise("SF09")
def test_a_database_older_than_any_that_can_be_converted_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = old_database(tmp_path / "kernel.db")
    other = apsw.Connection(path)
    other.execute("PRAGMA user_version = 12")
    other.close()
    before = everything(path)
    with pytest.raises(CannotOpen, match=r"its schema is 12, .* start it once with a version of schema 30"):
        open_database(path)
    with pytest.raises(SnapshotRefused, match=r"its schema is 12, .* start it once with a version of schema 30"):
        check_snapshot(path)
    assert (version_of(path), everything(path)) == (12, before)
    assert os.listdir(tmp_path) == ["kernel.db"]


@pytest.mark.promise("P25")
def test_a_later_migration_follows_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = max(migrations()) + 1
    script = tmp_path / f"{newest:04}_next.sql"
    script.write_text(f"ALTER TABLE tasks ADD COLUMN next TEXT;\nPRAGMA user_version = {newest};\n")
    paths = [old_database(tmp_path / "old.db"), str(tmp_path / "base.db"), str(tmp_path / "new.db")]
    open_database(paths[1]).close()
    monkeypatch.setattr("kernel.store.schema.migrations", lambda: {**migrations(), newest: script})
    monkeypatch.setattr("kernel.store.snapshot.migrations", lambda: {**migrations(), newest: script})
    for path in paths:
        open_database(path).close()
        assert check_snapshot(path).schema == newest
    assert everything(paths[0])["tasks"][0]["next"] is None
