"""What is cleared leaves no byte, and what is old is removed a little at a time."""

import random
import re
from pathlib import Path

import apsw
import pytest

from kernel.rule.draft import Draft
from kernel.store import entries, feed, instructions, messages
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.entries import FrozenPrompt
from kernel.store.holdings import HOLDINGS
from kernel.store.transaction import Transaction, emit_log
from kernel.store.transitions import retention
from kernel.store.transitions.append import append
from kernel.store.transitions.clear import ERASE_ANSWERS, ERASE_BLOBS, EVENTS, clear, delete_agent
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import PromptSnapshot, journal
from kernel.store.transitions.lease import lease
from kernel.store.transitions.retention import sweep_events, sweep_instructions
from protocol.ipc import Entry, Turn
from protocol.names import AgentKey
from tests.kernel.store.running_store import Store, token_hash
from tests.shorthand import refusal

CANARY = "canary-7f3a9b"
DAY_MS = 24 * 3600 * 1000


def frozen(text: str) -> PromptSnapshot:
    return PromptSnapshot(
        FrozenPrompt(backend="mock", system=f"be {text}", messages=(Turn(role="user", text=text),), message=text)
    )


async def work(store: Store, space: str, text: str, *, size: int = 1, to: tuple[str, ...] = ()) -> str:
    """One message, answered in two entries with a result, with ``text`` in every place that keeps words."""
    said = await store.said(space, f"{text} asked", to=to)
    (instruction,) = said.instruction_ids
    leased = await store.take(instruction)
    body = f"{text} " * size
    await store.journal(
        instruction, 1, Entry(k=0, kind="reply", text=body, stop_reason="tool_use"), frozen=frozen(body)
    )
    await store.journal(instruction, 1, Entry(k=1, kind="tool", text=body, name="t", call_id="c"))
    await store.writer.commit(
        emit_log, "worker.log", space=space, agent=leased.name, instruction=instruction, data={"text": body}
    )
    await store.close(
        instruction, 1, status="incomplete", cause="max_steps", text=f"{text} said", stderr_tail=f"{text} cried"
    )
    return instruction


def bytes_of(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(directory.iterdir()))


@pytest.mark.parametrize("size", [1, 300, 5000])
async def test_what_is_cleared_is_in_no_byte_of_the_state(store: Store, tmp_path: Path, size: int) -> None:
    """contracts 9: bodies, journal, prompts, events and their log are removed; what others said stays."""
    await store.agents("alice", "bob")
    for _ in range(12):
        await work(store, "dm:alice", CANARY, size=size)
        await work(store, "dm:bob", "innocent", size=size)
    assert CANARY.encode() in bytes_of(tmp_path)
    done = await store.writer.commit(clear, "dm:alice")
    assert (done.messages > 12, done.instructions) == (True, 12)
    assert CANARY.encode() not in bytes_of(tmp_path)
    kept = store.reader.now(messages.channel, "dm:bob")
    assert all(said.text and not said.cleared for said in kept)
    assert all(said.cleared and not said.text for said in store.reader.now(messages.channel, "dm:alice"))
    assert store.reader.now(entries.prompt_of, "i2") is not None
    assert store.reader.now(entries.prompt_of, "i1") is None


TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
KEPT = {
    "agents": "definitions, which are files of the user's or go with their run",
    "approval_rules": "what a person decided for all calls to come",
    "boots": "the kernel's own", "kept": "the kernel's own", "mirrors": "the kernel's own", "breakers": "providers",
    "crashes": "times", "spending": "numbers", "quotas": "numbers", "deliveries": "ids and states", "members": "names",
    "timers": "schedules of agents' files",
    "worktrees": "trees are removed before, or kept with what is in them",
    "document_owners": "names, and patterns of the workflow's file or of a vote that is cleared",
    "document_mirrors": "digests of files", "decision_numbers": "numbers",
    "grants": "names and numbers", "subspaces": "names and times", "tokens": "digests, and what their maker calls them",
    "followers": "digests and numbers", "counters": "kinds and numbers", "model_spending": "models and numbers",
    "nodes": "machines of the user's, and digests", "project_identity": "an id made by chance",
    "webhooks": "digests and numbers", "webhook_retries": "digests and numbers",
    "soul_versions": "who an agent is, in every space, as a person or its workflow let it be",
}  # fmt: skip
"""Tables that clear leaves alone, and why no words of a run are in them."""


async def test_every_table_is_cleared_or_has_a_reason_not_to_be(store: Store) -> None:
    """contracts 9: a table that comes with something new cannot be forgotten."""
    tables = {str(name) for (name,) in store.database.writer().execute(TABLES)}
    statements = (*(one.clearing() for one in HOLDINGS if one.clear), EVENTS, ERASE_ANSWERS, ERASE_BLOBS)
    touched = {name for one in statements for name in re.findall(r"^(?:UPDATE|DELETE FROM) (\w+)", one, re.MULTILINE)}
    assert tables - touched == KEPT.keys()


async def test_a_space_with_open_work_is_not_cleared(store: Store) -> None:
    await store.agents("alice")
    await store.said("dm:alice", CANARY)
    assert await refusal(store.writer.commit(clear, "dm:alice")) == "conflict"
    assert store.reader.now(messages.channel, "dm:alice")[0].text == CANARY


async def test_a_deleted_agent_takes_its_words_along(store: Store, tmp_path: Path) -> None:
    """contracts 9: agent delete removes the bytes, its definition's too."""
    definition = f'{{"model":"mock/m","prompt":{{"system":"{CANARY}"}}}}'.encode()
    spec = AgentSpec(key=AgentKey("eve"), origin="ephemeral", definition=definition)
    await store.writer.commit(put_agents, [spec])
    await work(store, "dm:eve", CANARY)
    await store.writer.commit(delete_agent, AgentKey("eve"))
    assert CANARY.encode() not in bytes_of(tmp_path)


async def test_a_log_that_is_being_read_is_truncated_afterwards(store: Store, tmp_path: Path) -> None:
    await store.agents("alice")
    await work(store, "dm:alice", CANARY)
    store.database.writer().set_busy_timeout(10)
    reader = apsw.Connection(store.database.path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM messages").fetchall()
    await store.writer.commit(clear, "dm:alice")
    reader.execute("ROLLBACK")
    reader.close()
    await store.agents("bob")
    assert CANARY.encode() not in bytes_of(tmp_path)


async def test_old_work_loses_its_journal_and_keeps_its_record(store: Store) -> None:
    await store.agents("alice")
    early = await work(store, "dm:alice", "early", size=5000)
    store.clock.now_ms += 31 * DAY_MS
    late = await work(store, "dm:alice", "late")
    before_ms = store.clock.now_ms - 30 * DAY_MS
    assert store.reader.now(retention.instructions, before_ms) == (1,)
    assert await store.writer.commit(sweep_instructions, (1, 2), before_ms) == 2
    assert store.reader.now(entries.of, early) == ()
    assert len(store.reader.now(entries.of, late)) == 2
    seqs = store.reader.now(retention.events, before_ms, 0)
    await store.writer.commit(sweep_events, seqs)
    kept = store.reader.now(feed.event_range)
    assert kept.oldest == seqs[-1] + 1
    assert store.reader.now(feed.since, 0)[0].seq == kept.oldest
    assert [result.status for result in store.reader.now(instructions.results, [early, late])] == ["incomplete"] * 2
    assert store.reader.now(messages.channel, "dm:alice")[0].text == "early asked"
    unused = store.reader.now(retention.blobs, store.clock.now_ms - 1)
    assert unused
    assert not set(unused) & {row[0] for row in store.database.writer().execute("SELECT prefix FROM instructions")}


async def test_events_of_open_work_are_kept_and_the_gap_before_them_is_still_told(store: Store) -> None:
    await store.agents("alice", "bob")
    await store.said("dm:bob", "waits for ever")
    await work(store, "dm:alice", "early")
    store.clock.now_ms += 31 * DAY_MS
    seqs = store.reader.now(retention.events, store.clock.now_ms - DAY_MS, 0)
    await store.writer.commit(sweep_events, seqs)
    left = store.reader.now(feed.since, 0)
    assert [(event.type, event.instruction) for event in left] == [("instruction.queued", "i1")]
    assert store.reader.now(feed.event_range).oldest == seqs[-1] + 1


@pytest.mark.parametrize(("table", "key"), [("events", "seq"), ("messages", "seq"), ("instructions", "id")])
async def test_the_number_of_a_deleted_row_is_not_used_again(store: Store, table: str, key: str) -> None:
    await store.agents("alice")
    await store.said("dm:alice", "first")
    conn = store.database.writer()
    deleted = conn.execute(f"SELECT max({key}) FROM {table}").get
    conn.execute("PRAGMA foreign_keys = OFF")
    conn.execute(f"DELETE FROM {table} WHERE {key} = ?", (deleted,))
    await store.said("dm:alice", "second")
    assert conn.execute(f"SELECT min({key}) FROM {table} WHERE {key} >= ?", (deleted,)).get > deleted


async def test_a_body_is_kept_once(store: Store) -> None:
    def put_twice(tx: object) -> list[bytes]:
        return [entries.put(tx, b"x" * 100_000, None) for _ in range(2)]  # type: ignore[arg-type]

    first, second = await store.writer.commit(put_twice)
    assert first == second
    assert store.reader.now(entries.get, first) == b"x" * 100_000
    assert store.database.writer().execute("SELECT count(*) FROM blobs").get == 1


async def test_copies_in_pages_that_were_split_are_removed_too(store: Store, tmp_path: Path) -> None:
    await store.agents("alice", "bob")
    dice = random.Random(10)

    def fill(tx: Transaction) -> None:
        for _ in range(20):
            name = dice.choice(["alice", "bob"])
            _whole(tx, f"dm:{name}", CANARY if name == "alice" else "innocent", dice.choice(SIZES))

    await store.writer.commit(fill)
    await store.writer.commit(clear, "dm:alice")
    assert CANARY.encode() not in bytes_of(tmp_path)


SIZES = [1, 1, 2, 5, 20, 60, 100, 150, 300]


def _whole(tx: Transaction, space: str, text: str, size: int) -> None:
    said = append(tx, Draft(kind="said", space=space, sender="user", text=text * size))
    (instruction,) = said.instruction_ids
    lease(tx, instruction, token_hash(instruction))
    body = text * size
    entry = Entry(k=0, kind="reply", text=body, stop_reason="on")
    journal(tx, instruction, 1, entry, frozen=frozen(body))
    close(tx, instruction, 1, status="done", text=body[:3000])
