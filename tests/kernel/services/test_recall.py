"""Recall: what an agent said, was told and did is found again; on a real log and a real index."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
import trio

from kernel.policy.recall import DAY_MS
from kernel.services import recall as service
from kernel.services.recall import WAKING, Recall
from kernel.store import recall_index, turn_index
from kernel.store.transaction import Transaction, rfc3339
from kernel.store.transitions.clear import clear, delete_agent
from kernel.store.turn_index import IndexedTurn, TurnFilter, TurnPlace
from protocol.agent_memory import Entry, Tier
from protocol.api.history import HistoryFound, HistoryPage
from protocol.errors import Refused
from protocol.memory_files import Memory, StoredEntry
from protocol.names import AgentKey
from tests.kernel.store.running_store import Store, open_store, steps_of
from tests.kernel.store.test_threads import left
from tests.kernel.store.test_transcripts import call, reply, result
from tests.shorthand import running


@dataclass
class Archive:
    """A log, and recalls of one life after the other on one index."""

    store: Store
    path: Path
    recall: Recall = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A recall that knows only what is on the disk, as that of the next kernel."""
        self.recall = Recall(path=str(self.path), log=self.store.log, wake=self.store.feed.new_wake(WAKING))

    async def search(self, agent: str, query: str, limit: int = 20) -> HistoryFound:
        return await self.recall.search(agent, query, limit=limit)

    async def texts(self, agent: str, query: str) -> list[str]:
        return [hit.turn.text for hit in (await self.search(agent, query)).found]

    async def read(self, agent: str, limit: int = 100, before: int | None = None) -> HistoryPage:
        return await self.recall.read(TurnFilter(agent), limit, before)

    async def say(self, agent: str, *texts: str) -> None:
        for text in texts:
            self.store.clock.now_ms += 1000
            await self.store.said(f"dm:{agent}", text, to=(agent,))

    def damage(self, what: str) -> None:
        if what != "deleted":
            for suffix in ("-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        DAMAGE[what](self.path)

    def bytes(self) -> bytes:
        return b"".join(one.read_bytes() for one in self.path.parent.glob(f"{self.path.name}*"))


@asynccontextmanager
async def archive_at(folder: Path) -> AsyncGenerator[Archive]:
    async with open_store(str(folder / "store.db")) as store:
        await store.agents("alice", "bob")
        yield Archive(store, folder / service.FILE)


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncGenerator[Archive]:
    async with archive_at(tmp_path) as opened:
        yield opened


@pytest.mark.promise("P47")
async def test_what_was_said_is_found_with_the_turns_beside_it(archive: Archive) -> None:
    await archive.say("alice", "good morning", "where do we deploy?", "to the cluster in Lyon", "thanks a lot")
    (hit,) = (await archive.search("alice", "deployments")).found
    assert hit.before is not None and hit.after is not None
    assert (hit.before.text, hit.turn.text, hit.after.text) == (
        "good morning",
        "where do we deploy?",
        "to the cluster in Lyon",
    )
    assert (hit.turn.id, hit.turn.sender, hit.turn.to, hit.turn.space) == ("m2", "user", ("alice",), "dm:alice")


@pytest.mark.promise("P47")
@pytest.mark.parametrize(
    ("query", "found"),
    [("deployment", 1), ("迁移", 2), ("库", 2), ("CAFE", 3), ("naïve", 3), ("m17", 4), ("nothing here", 0)],
)
async def test_words_are_found_in_any_form_and_in_two_languages(archive: Archive, query: str, found: int) -> None:
    await archive.say("alice", "we deployed it", "明天迁移数据库", "the café is naive", "see M17")
    assert [hit.turn.id for hit in (await archive.search("alice", query)).found] == ([f"m{found}"] if found else [])


@pytest.mark.promise("P47")
async def test_nothing_of_another_agent_is_found(archive: Archive) -> None:
    await archive.say("alice", "the canary of alice sings", "bread and butter")
    alone = await archive.search("alice", "canary butter")
    await archive.say("bob", *[f"canary {n} butter" for n in range(30)])
    assert await archive.search("alice", "canary butter") == alone
    assert {hit.turn.space for hit in (await archive.search("bob", "canary", limit=50)).found} == {"dm:bob"}


@pytest.mark.promise("P47")
async def test_a_call_is_never_without_its_result(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = call("same", "bash", command="ls zebra"), call("same", "bash", command="pwd")
    made = (reply(0, one, two, text="look"), result(1, one, "here"), result(2, two, "/root"), reply(3, text="done"))
    await left(archive.store, "go", *made, status="done", cause=None)
    archive.restart()
    (hit,) = (await archive.search("alice", "zebra")).found
    assert [(c.tool, c.input, c.output) for c in hit.turn.calls] == [
        ("bash", '{"command":"ls zebra"}', "here"),
        ("bash", '{"command":"pwd"}', "/root"),
    ]
    assert (await archive.search("alice", "root")).found[0].turn.id == hit.turn.id == "i1.1"
    for limit in (1, 2, 3):
        before: int | None = None
        seen: list[str] = []
        while True:
            page = await archive.read("alice", limit, before)
            seen = [turn.id for turn in page.turns] + seen
            assert all(c.output is not None for turn in page.turns for c in turn.calls)
            if (before := page.next) is None:
                break
        assert seen == ["m1", "i1.1", "i1.4"] and len(seen) == page.total


@pytest.mark.promise("P48")
async def test_what_is_cleared_is_in_no_byte_of_the_index_and_what_was_said_since_stays(archive: Archive) -> None:
    await archive.say("alice", "the xylophone is hidden", "plain words")
    assert await archive.texts("alice", "xylophone") == ["the xylophone is hidden"]
    assert b"xylophon" in archive.bytes()
    await archive.store.writer.commit(end_all, "dm:alice")
    await archive.store.writer.commit(clear, "dm:alice")
    await archive.say("alice", "after the flood")
    archive.restart()
    await archive.recall.redo()
    assert b"xylophon" not in archive.bytes()
    assert await archive.texts("alice", "xylophone flood") == ["after the flood"]


@pytest.mark.promise("P48")
async def test_purged_messages_are_in_no_byte_of_the_index(archive: Archive) -> None:
    await archive.say("alice", "the xylophone is hidden", "the xylophone again")
    await archive.search("alice", "xylophone")
    assert await archive.recall.purge("alice", messages=[1, 2]) == 2
    assert b"xylophon" not in archive.bytes()
    assert await archive.texts("alice", "xylophone") == []


async def test_a_purge_looks_at_the_turns_it_removes_and_no_others(tmp_path: Path) -> None:
    def steps(conn: apsw.Connection, turns: int) -> int:
        places = [TurnPlace("message", number, 0, "dm:alice", number) for number in range(turns)]
        upto = recall_index.progress(conn)
        turn_index.put_turns(conn, [IndexedTurn(AgentKey("alice"), place, "words") for place in places], upto)
        return steps_of(conn, lambda conn: turn_index.turns_of(conn, None, "message", 7))

    conn, _ = recall_index.open_index(str(tmp_path / "recall.db"), "log")
    with closing(conn):
        assert 0 < steps(conn, 10) == steps(conn, 1000)


async def test_an_agent_that_is_deleted_is_forgotten(archive: Archive) -> None:
    await archive.say("bob", "the xylophone is hidden")
    await archive.search("bob", "xylophone")
    memory = Memory((StoredEntry(Entry("place", "a xylophonist's cellar"), "core.yaml"),), ())
    assert (await archive.recall.find("bob", memory, "cellar", 10)).total == 1
    await archive.store.writer.commit(end_all, "dm:bob")
    await archive.store.writer.commit(delete_agent, AgentKey("bob"))
    await archive.recall.redo()
    assert b"xylophon" not in archive.bytes()


def end_all(tx: Transaction, space: str) -> None:
    tx.conn.execute("UPDATE instructions SET state = 'cancelled', ended_ms = 1 WHERE space = ?", (space,))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "half-written": lambda path: path.write_bytes(path.read_bytes()[:4096] + bytes(range(256)) * 64),
    "no database": lambda path: path.write_text("nothing of the kind"),
    "empty": lambda path: path.write_bytes(b""),
    "of an older version": lambda path: _set_version(path, 0),
}


def _set_version(path: Path, version: int) -> None:
    conn = apsw.Connection(str(path))
    conn.pragma("user_version", version)
    conn.close()


@pytest.mark.promise("P47")
@pytest.mark.parametrize("what", DAMAGE)
async def test_an_index_that_cannot_be_used_is_made_anew(
    archive: Archive, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await archive.say("alice", "remember the milk")
    assert await archive.texts("alice", "milk") == ["remember the milk"]
    if what != "deleted":  # that happens under a kernel that runs
        archive.restart()
    archive.damage(what)
    assert await archive.texts("alice", "milk") == ["remember the milk"]
    assert "recall.remade" in caplog.text or "recall.made" in caplog.text


async def test_a_full_disk_leaves_the_index_behind_and_loses_nothing(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await archive.say("alice", "remember the milk")
    await archive.search("alice", "milk")

    def full(*_: object) -> int:
        raise apsw.FullError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(turn_index, "put_turns", full)
        await archive.say("alice", "and more milk")
        found = await archive.search("alice", "milk")
        assert [hit.turn.text for hit in found.found] == ["remember the milk"]
        assert found.behind
    assert caplog.text.count("recall.behind") == 1
    found = await archive.search("alice", "milk")
    assert len(found.found) == 2 and not found.behind


@pytest.mark.promise("P47")
async def test_reindexing_finds_the_same(archive: Archive) -> None:
    made = (reply(0, one := call("a", "bash", command="ls"), text="look"), result(1, one, "zebra"))
    await left(archive.store, "go", *made)
    await archive.say("alice", "remember the zebra")
    await archive.say("bob", "no zebra")
    before = await archive.search("alice", "zebra"), await archive.search("bob", "zebra")
    one_agent = await archive.recall.reindex("alice")
    assert (one_agent.turns, one_agent.agents) == (3, 1)
    assert (await archive.recall.reindex(None)).turns == 4
    after = await archive.search("alice", "zebra"), await archive.search("bob", "zebra")
    assert [[hit.turn for hit in found.found] for found in after] == [
        [hit.turn for hit in found.found] for found in before
    ]


async def test_it_follows_the_log_without_being_asked(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the first question after long work does not wait for all of it."""
    monkeypatch.setattr(service, "GATHER_SECONDS", 0.0)
    indexed = trio.Event()
    put = turn_index.put_turns

    def told(*args: Any) -> int:
        added = put(*args)
        if added:
            trio.from_thread.run_sync(indexed.set)
        return added

    monkeypatch.setattr(turn_index, "put_turns", told)
    async with running(archive.recall.run):
        await archive.say("alice", "remember the milk")
        with trio.fail_after(10):
            await indexed.wait()
    assert b"milk" in archive.bytes()


async def test_a_time_bounds_what_is_found_and_read(archive: Archive) -> None:
    await archive.say("alice", "milk one", "milk two", "milk three")
    now = archive.store.clock.now_ms
    found = await archive.recall.search("alice", "milk", limit=9, since_ms=now - 1000, until_ms=now)
    assert [hit.turn.text for hit in found.found] == ["milk two"]
    page = await archive.recall.read(TurnFilter("alice", now - 1000, now), 9)
    assert ([turn.text for turn in page.turns], page.total, page.next) == (["milk two"], 1, None)


async def test_a_list_of_hits_goes_on_where_it_ended(archive: Archive) -> None:
    await archive.say("alice", *[f"milk {n}" for n in range(7)])
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = await archive.recall.search("alice", "milk", limit=3, offset=offset)
        assert page.total == 7
        seen += [hit.turn.text for hit in page.found]
        offset = page.next
    assert sorted(seen) == sorted(f"milk {n}" for n in range(7))


async def test_common_words_are_named_and_still_find_the_newest(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_index, "BUDGET", 10)
    await archive.say("alice", *[f"milk {n}" for n in range(30)], "rare bread", "milk and honey")
    found = await archive.search("alice", "milk bread")
    assert found.common == ("milk",)
    texts = [hit.turn.text for hit in found.found]
    assert "rare bread" in texts and "milk and honey" in texts and "milk 3" not in texts
    newest = [int(hit.turn.id[1:]) for hit in (await archive.search("alice", "milk")).found]
    assert len(newest) == 10 and min(newest) > 20


async def test_a_query_without_a_word_is_refused(archive: Archive) -> None:
    with pytest.raises(Refused, match="no searchable word"):
        await archive.search("alice", "?!")


@pytest.mark.promise("P48")
async def test_what_is_kept_is_ranked_by_words_age_and_tier(archive: Archive) -> None:
    """Archive only on demand; what nearly says the same is told once; a change counts at the next question."""
    now = archive.store.clock.now_ms

    def memory(*said: tuple[str, str, Tier, int]) -> Memory:
        entries = (Entry(key, value, tier, at=rfc3339(now - days * DAY_MS)) for key, value, tier, days in said)
        return Memory(tuple(StoredEntry(entry, "core.yaml") for entry in entries), ())

    kept = memory(
        ("home", "the office is in Paris", "working", 60),
        ("office", "we live in Lyon", "working", 0),
        ("office", "we live in Lyon.", "working", 1),
        ("tests", "pytest", "core", 0),
        ("old office", "in Rome", "archive", 0),
    )
    older = msgspec.structs.replace(kept.kept[2].entry, key="Office")
    kept = Memory((*kept.kept[:2], StoredEntry(older, "core.yaml"), *kept.kept[3:]), ())

    async def keys(memory: Memory, query: str, *tiers: Tier) -> list[str]:
        found = await archive.recall.find("alice", memory, query, 10, tiers or service.TIERS)
        return [memory.kept[one.place].entry.key for one in found.ranked]

    assert await keys(kept, "where is the office") == ["office", "home"]
    assert "old office" in await keys(kept, "office", "core", "working", "archive")
    put_away = memory(("home", "the office is in Paris", "archive", 60))
    assert (await keys(put_away, "office"), await keys(put_away, "office", "archive")) == ([], ["home"])
    assert (await archive.recall.find("bob", memory(), "office", 10)).ranked == ()
    moved = Memory((kept.kept[0], kept.kept[3]), ())
    assert sorted(await keys(moved, "office pytest")) == ["home", "tests"]
    found = await archive.recall.find("alice", moved, "office pytest", 10, counts=lambda entry: entry.key != "home")
    assert [moved.kept[one.place].entry.key for one in found.ranked] == ["tests"]
