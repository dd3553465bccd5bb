"""What the writer does with texts that are held in memory: every statement stores references, and works as before."""

import importlib
import pkgutil
from pathlib import Path

import apsw
import pytest

import kernel.store
from kernel.store import needs
from kernel.store.database import MEMORY, open_database
from kernel.store.holdings import HOLDINGS
from kernel.store.idempotency import TOLD, RequestKey, find_response, record_response
from kernel.store.memory_texts import COLUMNS, JSON_COLUMNS, STORED, concealing
from kernel.store.messages import ChannelFilter, page
from kernel.store.rows import WHOLE
from kernel.store.transaction import INSERT_EVENT
from kernel.store.transitions.append import append
from kernel.store.transitions.clear import clear
from kernel.store.transitions.retention import end_lost_runs
from kernel.store.transitions.runs import start_run, stop_workflow
from protocol.errors import Refused
from tests.kernel.store.running_store import Store, open_store, started, steps_of


def statements() -> dict[str, str]:
    """Every statement of the store that changes rows, with its name."""
    found: dict[str, str] = {}
    for module in pkgutil.walk_packages(kernel.store.__path__, "kernel.store."):
        for name, value in vars(importlib.import_module(module.name)).items():
            sql = getattr(value, "sql", value)
            if isinstance(sql, str) and sql.lstrip().startswith(("INSERT INTO", "UPDATE")):
                found[sql] = f"{module.name}.{name}"
    return found


def test_only_columns_that_exist_are_named_as_stored() -> None:
    texts = {name for one in HOLDINGS for name in one.text}
    assert texts >= STORED | JSON_COLUMNS
    assert {"text", "body", "content", "title", "result_text", "reason"} <= COLUMNS


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


async def start(store: Store, workspace: str, *, continues: bool = False) -> str:
    draft = started("k", workspace=workspace)
    return (await store.writer.commit(start_run, draft, continues=continues)).space


def stored(store: Store, sql: str) -> list[str]:
    """The first column as the database contains it, as text."""
    writer = store.database.writer()
    writer.set_row_trace(None)
    found = [bytes(row[0]).decode() if isinstance(row[0], bytes) else str(row[0]) for row in writer.execute(sql)]
    writer.set_row_trace(writer.reveal)
    return found


async def test_texts_and_answers_of_a_later_kept_run_are_stored(store: Store) -> None:
    space = await start(store, "memory")
    await store.said(space, "passing words")
    await store.writer.commit(stop_workflow, space, "completed", 0)
    with pytest.raises(Refused, match="cannot be continued"):
        await start(store, "kept", continues=True)
    kept = await start(store, "kept")
    await store.said(kept, "kept words")
    await store.writer.commit(record_response, RequestKey("p", "k", b""), b'{"space":"review:main","text":"kept"}')
    texts = stored(store, "SELECT text FROM messages")
    assert ("kept words" in texts, "passing words" in texts) == (True, False)
    assert stored(store, "SELECT response FROM idempotency") == ['{"space":"review:main","text":"kept"}']
    await store.writer.commit(stop_workflow, kept, "completed", 0)
    with pytest.raises(Refused, match="cannot be continued"):
        await start(store, "memory", continues=True)


@pytest.mark.parametrize("of", ['"space":"review:main~talk"', '"space":"review:main"', '"run":"r1"'])
async def test_an_answer_is_held_as_a_whole_until_its_space_is_cleared(of: str, store: Store) -> None:
    space = await start(store, "memory")
    key, answer = RequestKey("p", "k", b""), f'{{{of},"rule":{{"then":["canary"]}}}}'.encode()
    await store.writer.commit(record_response, key, answer)
    assert "canary" not in stored(store, "SELECT response FROM idempotency")[0]
    now_ms = store.clock()
    recorded = store.reader.now(find_response, key, now_ms)
    assert recorded is not None
    assert recorded.response == answer
    await store.writer.commit(clear, space)
    told = store.reader.now(find_response, key, now_ms)
    assert told is not None
    assert told.status == TOLD


async def test_a_concealed_text_costs_the_same_after_many_runs(store: Store) -> None:
    await start(store, "memory")
    writer = store.database.writer()
    event = ("message", 1, "review:main#1", "k", None, None, b'{"text":"x"}')
    before = steps_of(writer, lambda conn: conn.execute(INSERT_EVENT, event))
    for n in range(200):
        writer.execute(
            "INSERT INTO workflows (name, tag, space, mode, file, definition, params, vouched, state, started_ms,"
            " hops_limit, instructions_limit) VALUES ('q', 'main', ?, 'start', 'f', x'', x'', x'', 'stopped', 1, 1, 1)",
            (f"q:main#{n + 9}",),
        )
    assert steps_of(writer, lambda conn: conn.execute(INSERT_EVENT, event)) <= before + 10


async def test_statements_that_look_into_texts_see_them(store: Store) -> None:
    space = await start(store, "memory")
    work = [(await store.said(space, f"@k {'x' * 15_000}")).instruction_ids for _ in range(10)]
    assert len({one for ids in work for one in ids}) == 2
    (taken, *_) = work[0]
    lease = await store.take(taken)
    await store.close(taken, lease.epoch, status="failed", text="y" * 2000)
    assert [len(one.text) for one in store.reader.now(needs.dead, WHOLE)] == [500]
    await store.said(space, "ask @k_or_nobody")
    assert "ask @k_or_nobody" in [
        one.text for one in store.reader.now(page, ChannelFilter(space, agent="k"), 9).messages
    ]


def words_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir() if b"canary" in one.read_bytes()]


async def test_words_of_an_older_kernel_are_deleted_from_the_disk_at_the_start(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "log.db")) as store:
        space = started("k").space
        await store.writer.commit(append, started("k"))
        await store.said(space, "canary")
        store.database.writer().execute("UPDATE workflows SET workspace = 'memory'")
        await store.writer.commit(end_lost_runs)
        assert [one.space for one in store.told if one.type == "space.cleared"] == [space]
        assert words_in(tmp_path) == []
