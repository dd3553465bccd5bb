"""Every table has a row that says what it holds; what is generated from the rows leaves no word behind."""

import re
from pathlib import Path
from typing import cast

import apsw
import pytest

from kernel.services.runs import Retention
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.holdings import DELETE, HOLDINGS, Holding
from kernel.store.transaction import Transaction
from kernel.store.transitions.clear import clear, delete_agent
from kernel.store.transitions.retention import clear_runs
from kernel.store.transitions.steering import rename
from protocol.names import AgentKey
from tests.kernel.store.running_store import Store
from tests.kernel.store.test_removal import DAY_MS, bytes_of
from tests.kernel.store.test_runs import begin, end

WORD = "canary-5c1e"
TABLES = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
COLUMNS = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)'
CODES = """
entries: blob kind
effects: call_key
attempts: exit node outcome scopes token_hash model
quotas: told
approvals: blob call_key decided_by digest
resources: blob id type
feedback: call_key
audit: kind
decisions: author decided_by detail kind vote
soul_versions: author
guard_jobs: purpose
votes: voter
ballots: ended_by rule tie_breaker type why
tasks: creator ended_by for_name holder on_failure
landings: branch expected repository result tip
held_rules: author scopes
creations: root scopes verb made
rules: author scopes
document_versions: action author
document_owners: owner
document_mirrors: digest folder told
grants: revoked_by scope
worktrees: base branch commits folder follows git_dir name path repository tip
timers: home
members: backend name needs
subspaces: base name
approval_rules: created_by
agents: backend file hold_key hold_reason home_space key last_exit model name needs node origin provider replica_of
instructions: cause error_class model prefix wait_key waits_for
workflows: approval began_on exit_from file limited_by mirror mode name status tag verdict vouched workspace
messages: kind
events: type
blobs: hash part
idempotency: body_hash key principal
tokens: digest scope
nodes: digest name
exchanges: request response
boots: machine version
breakers: failures key reason
webhooks: digest
webhook_retries: digest
followers: name why
counters: labels name
decision_numbers: kind
model_spending: backend model
project_identity: id
"""
"""Other columns of text: ids, names, digests, and words of ours."""


def schema(store: Store) -> dict[str, str]:
    return {str(name): str(sql) for name, sql in store.database.writer().execute(TABLES)}


def test_every_holding_is_a_table_once_and_children_come_first() -> None:
    names = [one.table for one in HOLDINGS]
    assert len(names) == len(set(names))
    parents = {"ballot": "ballots", "task": "tasks", "document": "documents"}
    assert all(names.index(one.table) < names.index(parents[one.place]) for one in HOLDINGS if one.place in parents)


async def test_every_table_and_every_column_of_text_is_classified(store: Store) -> None:
    assert schema(store).keys() == {one.table for one in HOLDINGS}
    codes: dict[str, set[str]] = {}
    for line in CODES.strip().splitlines():
        table, _, columns = line.partition(":")
        codes.setdefault(table, set()).update(columns.split())
    for one in HOLDINGS:
        found = [(str(name), kind) for name, kind, *_ in store.database.writer().execute(COLUMNS, (one.table,))]
        said = {*one.text, *one.agents, *one.names}
        texts = {name for name, kind in found if kind in ("TEXT", "BLOB")} - ({"space", "state"} - said)
        assert said <= texts, one.table
        assert texts - said == codes.get(one.table, set()), one.table
        assert one.restored
        assert not (one.park or one.forget) or one.restored != "believed", one.table


def plant(conn: apsw.Connection, sql: str, one: Holding, space: str, agent: str, instruction: int) -> None:
    """Insert a row of the space and of the agent, with WORD in each column that holds words."""
    values: dict[str, object] = {}
    for column, kind, needed, default, key in conn.execute(COLUMNS, (one.table,)).fetchall():
        name = str(column)
        choice = re.search(rf"CHECK \({name} IN \([^)]*'([^']+)'\)", sql)
        if name in one.text:
            values[name] = f'{{"text":"{WORD}","why":"{WORD}"}}'
            if kind == "BLOB":
                values[name] = str(values[name]).encode()
        elif name in (*one.agents, *one.names):
            values[name] = agent
        elif name in ("space", "base", "home", "home_space"):
            values[name] = space
        elif name == "instruction":
            values[name] = instruction
        elif choice is not None:
            values[name] = choice[1]
        elif name == "blob":
            values[name] = b"planted"
        elif (needed or key) and default is None:
            values[name] = 7000 if kind in ("INTEGER", "REAL") else b"planted" if kind == "BLOB" else "planted"
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    conn.execute(f"INSERT OR IGNORE INTO {one.table} ({names}) VALUES ({marks})", tuple(values.values()))


OWN = frozenset(
    {"agents", "workflows", "instructions", "tokens", "nodes", "document_mirrors", "idempotency", "approval_rules"}
)
"""Tables whose rows the kernel makes in these tests, or whose words the user alone says."""


def plant_all(tx: Transaction, space: str, agent: str, instruction: int, *, inline: bool = True) -> None:
    tables = {str(name): str(sql) for name, sql in tx.conn.execute(TABLES)}
    for one in HOLDINGS:
        if one.text and one.table not in OWN:
            plant(tx.conn, tables[one.table], one, space, agent, instruction)
    if inline:
        tx.conn.execute("UPDATE agents SET definition = ? WHERE key = ?", (WORD.encode(), agent))


def words(store: Store, one: Holding) -> int:
    held = " OR ".join(f"instr({column}, '{WORD}')" for column in one.text)
    return int(store.database.writer().execute(f"SELECT count(*) FROM {one.table} WHERE {held}").get)


def kept_words(store: Store) -> set[str]:
    return {one.table for one in HOLDINGS if one.text and words(store, one)}


async def worked(store: Store) -> tuple[str, str, int]:
    """The space of a run that has ended, its agent and its instruction."""
    run = await begin(store, "helper", kickoff=f"@helper {WORD}")
    [(number, agent)] = cast(
        "list[tuple[int, str]]", store.database.writer().execute("SELECT id, agent FROM instructions").fetchall()
    )
    await store.take(f"i{number}")
    await store.close(f"i{number}", 1, status="done", text=WORD)
    await end(store, run)
    return run.space, agent, number


STAYS = {
    "agents": "definitions of the workflow's file", "audit": "which entries were given", "timers": "of the file",
    "landings": "what the user asked to check", "document_owners": "patterns of the file", "worktrees": "kept trees",
    "soul_versions": "who the agent is",
}  # fmt: skip
"""Words that only the end of the run or of the agent removes."""


async def test_a_cleared_space_keeps_no_word_of_what_was_said_there(store: Store) -> None:
    space, agent, number = await worked(store)
    await store.writer.commit(plant_all, space, agent, number)
    planted = kept_words(store)
    assert planted >= {one.table for one in HOLDINGS if one.clear == DELETE and one.text}
    await store.writer.commit(clear, space)
    assert kept_words(store) <= STAYS.keys()


@pytest.mark.promise("P30")
async def test_a_removed_run_leaves_no_word_in_any_byte(store: Store, tmp_path: Path) -> None:
    space, agent, number = await worked(store)
    await store.writer.commit(plant_all, space, agent, number)
    store.clock.now_ms += 31 * DAY_MS
    sweeper = Retention(log=store.log, kept_seconds=lambda: 30 * DAY_MS / 1000)
    await sweeper.sweep()
    assert kept_words(store) == set()
    assert WORD.encode() not in bytes_of(tmp_path)


async def test_a_run_whose_files_are_not_made_anew_yet_is_removed_later(store: Store) -> None:
    space, *_ = await worked(store)
    await store.writer.commit(lambda tx: tx.conn.execute("UPDATE workflows SET mirror = '.workspace/review'"))
    store.clock.now_ms += 31 * DAY_MS
    sweeper = Retention(log=store.log, kept_seconds=lambda: 30 * DAY_MS / 1000)
    await sweeper.sweep()
    count = "SELECT count(*) FROM workflows WHERE space = ?"
    assert store.database.writer().execute(count, (space,)).get == 1
    await store.writer.commit(lambda tx: tx.conn.execute("DELETE FROM mirrors"))
    before = store.clock.now_ms - 30 * DAY_MS
    await store.writer.commit(clear_runs, ["other"], before)
    redone = Retention(
        log=store.log,
        kept_seconds=lambda: 30 * DAY_MS / 1000,
        redo=lambda: store.writer.commit(lambda tx: tx.conn.execute("DELETE FROM mirrors")),
    )
    await redone.sweep()
    assert store.database.writer().execute(count, (space,)).get == 0


async def tmp(store: Store) -> int:
    """An agent made at run time, and an instruction that it has done."""
    await store.writer.commit(put_agents, [AgentSpec(key=AgentKey("tmp"), origin="ephemeral", definition=b"{}")])
    (instruction,) = (await store.said("dm:tmp", WORD)).instruction_ids
    await store.take(instruction)
    await store.close(instruction, 1, status="done", text=WORD)
    return int(instruction[1:])


async def test_a_deleted_agent_leaves_no_word_in_any_byte(store: Store, tmp_path: Path) -> None:
    number = await tmp(store)
    await store.writer.commit(plant_all, "dm:tmp", "tmp", number)
    await store.writer.commit(delete_agent, AgentKey("tmp"))
    assert kept_words(store) == set()
    assert WORD.encode() not in bytes_of(tmp_path)


async def test_a_renamed_agent_takes_all_that_it_holds_along(store: Store, tmp_path: Path) -> None:
    number = await tmp(store)
    await store.writer.commit(plant_all, "dm:tmp", "tmp", number)
    planted = kept_words(store) - {"agents"}
    await store.writer.commit(rename, AgentKey("tmp"), AgentSpec(key=AgentKey("bob"), origin="file", definition=b"{}"))
    assert kept_words(store) == planted
    connection = store.database.writer()
    for one in HOLDINGS:
        for column in () if one.table == "events" else (*one.agents, *one.names):
            left = connection.execute(f"SELECT count(*) FROM {one.table} WHERE {column} = 'tmp'").get
            assert left == 0, (one.table, column)
        if one.place in ("space", "home", "work"):
            place = "space" if one.place == "work" else one.place
            assert connection.execute(f"SELECT count(*) FROM {one.table} WHERE {place} = 'dm:tmp'").get == 0, one.table
    await store.writer.commit(delete_agent, AgentKey("bob"))
    assert WORD.encode() not in bytes_of(tmp_path)
