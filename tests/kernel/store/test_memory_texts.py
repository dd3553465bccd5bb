"""What the writer does with texts that are held in memory: every statement stores references, and works as before."""

import importlib
import pkgutil

import apsw
import pytest

import kernel.store
from kernel.store.database import MEMORY, open_database
from kernel.store.holdings import HOLDINGS
from kernel.store.memory_texts import COLUMNS, JSON_COLUMNS, concealing
from tests.kernel.store.running_store import open_store

STORED = frozenset((
    "name", "tool", "state", "subject", "call", "choice", "key", "files", "definition", "winner", "salt", "binds",
    "terms", "file", "pattern", "proposal", "note", "schedule", "evidence", "vouched", "settings", "agents", "diff",
    "params",
))  # fmt: skip
"""Text columns that are stored: names, ids, choices, what files of the project contain; params are concealed apart."""


def statements() -> dict[str, str]:
    """Every statement of the store that changes rows, with its name."""
    found: dict[str, str] = {}
    for module in pkgutil.walk_packages(kernel.store.__path__, "kernel.store."):
        for name, value in vars(importlib.import_module(module.name)).items():
            sql = getattr(value, "sql", value)
            if isinstance(sql, str) and sql.lstrip().startswith(("INSERT INTO", "UPDATE")):
                found[sql] = f"{module.name}.{name}"
    return found


def test_each_text_column_is_held_in_memory_or_named_here() -> None:
    texts = {name for one in HOLDINGS for name in one.text}
    assert texts - COLUMNS - JSON_COLUMNS == STORED


def test_statements_that_store_references_are_valid() -> None:
    database = open_database(MEMORY)
    writer = database.writer()
    writer.activate()
    concealed = [new for sql in statements() if "conceal" in (new := concealing(sql))]
    assert len(concealed) > 25
    for sql in concealed:
        with pytest.raises(apsw.BindingsError):  # it is prepared, and lacks its values
            writer.execute(f"EXPLAIN {sql}", ())


@pytest.mark.parametrize(
    "table", ["messages", "events", "entries", "documents", "tasks", "ballots", "votes", "effects"]
)
def test_no_statement_inserts_texts_as_they_are(table: str) -> None:
    inserts = [sql for sql in statements() if f"INSERT INTO {table} " in sql or f"INSERT INTO {table}\n" in sql]
    copies = [sql for sql in inserts if "VALUES" not in sql]  # these copy references
    assert len(inserts) - len(copies) >= 1
    assert all("conceal" in concealing(sql) for sql in inserts if sql not in copies)


async def test_other_spaces_are_stored_as_usual() -> None:
    async with open_store(":memory:") as store:
        store.database.writer().activate()
        await store.agents("alice")
        await store.said("dm:alice", "kept words")
        writer = store.database.writer()
        writer.set_row_trace(None)
        assert writer.execute("SELECT text FROM messages").fetchall() == [("kept words",)]
