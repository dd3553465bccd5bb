"""What is old goes, a little at a time, and what is not stays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from kernel.rule.draft import Author, MemberSpec
from kernel.services.runs import LONGEST_NAP_SECONDS, MEMORY_SPACE_KEPT_MS, Retention, Runs
from kernel.services.working_directory import CliHomes
from kernel.source.diagnostics import fail
from kernel.store import entries, feed, messages, workflows
from kernel.store.idempotency import RequestKey, record_response
from kernel.store.messages import add_feedback, feedback_list
from kernel.store.resources import create
from kernel.store.transitions.append import append
from kernel.store.transitions.clock_correction import HostClock
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.retention import ROWS, sweep_runs
from kernel.store.transitions.runs import stop_workflow
from kernel.store.work_notes import StatusChange, set_status, write_handover
from kernel.store.writer import Writer
from protocol.api.instructions import Handover
from protocol.ipc import Entry
from protocol.names import AgentKey, InstructionId
from tests.kernel.store.running_store import Store, open_store, started
from tests.kernel.store.test_removal import bytes_of
from tests.kernel.store.test_runs import begin, end
from tests.shorthand import beside

DAY_MS = 24 * 3600 * 1000


class Counting:
    """A writer that notes how many rows each commit changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.changed: list[int] = []

    async def commit(self, job: Callable[..., Any], *args: Any) -> Any:
        connection = self._store.database.writer()
        before = connection.total_changes()
        done = await self._store.writer.commit(job, *args)
        self.changed.append(connection.total_changes() - before)
        return done


def retention(store: Store, writer: object = None, days: float = 30) -> Retention:
    made: Writer = writer or store.writer  # type: ignore[assignment]
    return Retention(log=store.log._replace(writer=made), kept_seconds=lambda: days * DAY_MS / 1000)


async def work(store: Store, steps: int) -> str:
    (instruction,) = (await store.said("dm:alice", "work")).instruction_ids
    await store.take(instruction)

    def write(tx: Any) -> None:
        for k in range(steps):
            journal(tx, instruction, 1, Entry(k=k, kind="reply", text="x" * 20_000 if k == 0 else "", stop_reason="on"))
        close(tx, instruction, 1, status="done", text="done")

    await store.writer.commit(write)
    return instruction


def rows(store: Store, table: str) -> int:
    return int(store.database.writer().execute(f"SELECT count(*) FROM {table}").get)


@pytest.mark.promise("P10")
async def test_old_work_is_swept_in_small_commits(store: Store) -> None:
    """30 days; messages and records stay; no commit is long."""
    old = [await work(store, 60) for _ in range(30)]
    store.clock.now_ms += 31 * DAY_MS
    new = await work(store, 3)
    counting = Counting(store)
    await retention(store, counting).sweep()
    assert max(counting.changed) <= ROWS + 100
    assert len(counting.changed) > 8
    assert rows(store, "entries") == 3
    assert store.reader.now(entries.of, old[0]) == ()
    assert len(store.reader.now(entries.of, new)) == 3
    assert rows(store, "blobs") == 1
    assert rows(store, "instructions") == 31
    assert len(store.reader.now(messages.channel, "dm:alice", 100)) == 62
    assert {event.instruction for event in store.reader.now(feed.since, 0)} <= {new, None}


async def test_what_is_swept_once_is_not_looked_at_again(store: Store) -> None:
    await work(store, 3)
    store.clock.now_ms += 31 * DAY_MS
    await retention(store).sweep()
    counting = Counting(store)
    await retention(store, counting).sweep()
    assert counting.changed == [0, 0, 0]


async def test_answers_and_crashes_go_when_nobody_counts_them(store: Store) -> None:
    """contracts 4: answers are replayed for 24 h; crashes count for an hour."""

    def make(tx: Any) -> None:
        for number in range(ROWS + 10):
            tx.conn.execute("INSERT INTO crashes (agent, at_ms) VALUES ('alice', ?)", (tx.now_ms,))
            record_response(tx, RequestKey("admin", str(number), b"h"), b"{}")

    await store.writer.commit(make)
    store.clock.now_ms += DAY_MS // 2
    await retention(store).sweep()
    assert (rows(store, "crashes"), rows(store, "idempotency")) == (0, ROWS + 10)
    store.clock.now_ms += DAY_MS
    await retention(store).sweep()
    assert rows(store, "idempotency") == 0


@pytest.mark.promise("P10")
async def test_feedback_goes_after_the_same_time(store: Store) -> None:
    await store.writer.commit(add_feedback, "the tests need a network")
    store.clock.now_ms += 31 * DAY_MS
    await store.writer.commit(add_feedback, "they do no more")
    await retention(store).sweep()
    assert [row.text for row in store.reader.now(feedback_list).feedback] == ["they do no more"]


@pytest.mark.promise("P21")
@pytest.mark.parametrize("same_boot", [True, False])
async def test_a_clock_that_was_set_ahead_between_two_kernels_makes_nothing_older(
    store: Store, same_boot: bool
) -> None:
    """What is removed does not come back, so only time counts that is known to have passed."""
    await store.writer.commit(recover, machine=HostClock("boot 1", 1_000))
    last_week = await work(store, 3)
    year = 365 * DAY_MS
    store.clock.now_ms += 7 * DAY_MS + year
    machine = HostClock("boot 1", 1_000 + year) if same_boot else HostClock("boot 2", 77)
    await store.writer.commit(recover, machine=machine)
    await retention(store).sweep()
    assert len(store.reader.now(entries.of, last_week)) == 3
    store.clock.now_ms += 22 * DAY_MS
    today = await work(store, 1)
    await retention(store).sweep()
    assert len(store.reader.now(entries.of, last_week)) == 3
    store.clock.now_ms += 2 * DAY_MS
    await retention(store).sweep()
    assert store.reader.now(entries.of, last_week) == ()
    assert len(store.reader.now(entries.of, today)) == 1


class Nights:
    """Sleep that the test ends."""

    def __init__(self) -> None:
        self._fell_asleep, self.asleep = trio.open_memory_channel[float](0)
        self._wake, self._woken = trio.open_memory_channel[None](0)

    async def sleep(self, seconds: float) -> None:
        await self._fell_asleep.send(seconds)
        await self._woken.receive()

    async def next(self) -> float:
        """Wait until it sleeps; what for."""
        return await self.asleep.receive()

    async def wake(self) -> None:
        await self._wake.send(None)


async def test_it_sweeps_soon_and_then_daily(store: Store) -> None:
    nights = Nights()
    keeps = Retention(log=store.log, kept_seconds=lambda: 60.0, sleep=nights.sleep)
    await work(store, 3)
    store.clock.now_ms += DAY_MS
    async with beside(keeps.run):
        assert await nights.next() < 60
        await nights.wake()
        assert await nights.next() < DAY_MS / 1000
        assert rows(store, "entries") == 0
        await work(store, 3)
        store.clock.now_ms += DAY_MS - 1
        await nights.wake()
        await nights.next()
        assert rows(store, "entries") == 3
        store.clock.now_ms += 1
        await nights.wake()
        await nights.next()
        assert rows(store, "entries") == 0


async def test_a_project_file_that_is_broken_sweeps_nothing(store: Store) -> None:
    def broken() -> float:
        raise fail("moniro.yaml", "is broken")

    nights = Nights()
    await work(store, 3)
    store.clock.now_ms += 90 * DAY_MS
    keeps = Retention(log=store.log, kept_seconds=broken, sleep=nights.sleep)
    async with beside(keeps.run):
        await nights.next()
        await nights.wake()
        await nights.next()
        assert rows(store, "entries") == 3


@pytest.mark.promise("P30")
async def test_of_runs_that_ended_long_ago_no_row_is_left(store: Store) -> None:
    tables = (
        "workflows", "members", "agents", "messages", "deliveries", "instructions", "attempts", "spending",
        "resources", "statuses", "handovers",
    )  # fmt: skip
    before = {table: rows(store, table) for table in tables}
    for number in range(20):
        run = await begin(store, "helper", kickoff="@helper go")
        instruction = f"i{number + 1}"
        await store.take(instruction)
        author = Author(InstructionId(instruction), 1)
        await store.writer.commit(create, run.space, "a long text", "text/plain", author=author)
        await store.writer.commit(set_status, StatusChange(task="it"), author)
        await store.writer.commit(write_handover, Handover(done="a", next="b"), author)
        await store.close(instruction, 1, status="done", text="done")
        await end(store, run)
    assert rows(store, "resources") == 20
    store.clock.now_ms += 31 * DAY_MS
    await retention(store, writer := Counting(store)).sweep()
    assert {table: rows(store, table) for table in tables} == before
    assert max(writer.changed) < 3 * ROWS


async def test_a_run_that_somebody_went_on_with_is_kept_with_all_before_it(store: Store) -> None:
    first = await begin(store, "helper", kickoff="@helper one")
    await end(store, first)
    store.clock.now_ms += 31 * DAY_MS
    second = await begin(store, "helper", continues=True)
    await end(store, second)
    await retention(store).sweep()
    assert [one.text for one in store.reader.now(messages.of_run, first.run) if one.kind == "kickoff"] == [
        "@helper one"
    ]
    bound = await begin(store, "helper", bound=True, kickoff="@helper bound")
    await end(store, bound)
    store.clock.now_ms += 31 * DAY_MS
    await retention(store).sweep()
    assert store.reader.now(messages.of_run, first.run) == ()
    assert store.reader.now(messages.of_run, bound.run) != ()


async def test_a_sweep_that_was_interrupted_is_finished_by_the_next(store: Store) -> None:
    run = await begin(store, "helper", kickoff="@helper one")
    await end(store, run)
    store.clock.now_ms += 31 * DAY_MS
    await store.writer.commit(sweep_runs, [run.space], store.clock.now_ms)
    assert rows(store, "messages")
    again = await begin(store, "helper", continues=True)
    assert again.space != run.space
    await retention(store).sweep()
    assert {one.space for one in store.reader.now(messages.of_run, again.run)} == {"review:main"}
    assert store.database.reader().execute("SELECT count(*) FROM messages WHERE space = ?", (run.space,)).get == 0


async def start(store: Store, workspace: str = "memory", *members: MemberSpec, **spec: Any) -> None:
    await store.writer.commit(append, started(*members, mode="start", kickoff="canary", workspace=workspace, **spec))


def words(store: Store) -> str:
    return "".join(said.text for said in store.reader.now(messages.channel, "review:main"))


async def test_what_was_said_in_memory_goes_a_minute_after_the_end(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "kernel.db")) as store:
        cleanup = Runs(log=store.log, wake=store.feed.new_wake())
        await start(store)
        assert await cleanup.run_once() == LONGEST_NAP_SECONDS
        await store.writer.commit(stop_workflow, "review:main", "cancelled", 130)
        assert await cleanup.run_once() == MEMORY_SPACE_KEPT_MS / 1000
        assert "canary" in words(store)
        await start(store)
        store.clock.now_ms += MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == LONGEST_NAP_SECONDS
        await store.writer.commit(stop_workflow, "review:main", "cancelled", 130)
        store.clock.now_ms += MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == LONGEST_NAP_SECONDS
        assert words(store) == ""
        assert b"canary" not in bytes_of(tmp_path)


async def test_what_was_said_in_memory_is_in_no_file_and_ends_with_its_kernel(tmp_path: Path) -> None:
    for _ in range(2):
        async with open_store(str(tmp_path / "kernel.db")) as store:
            await store.writer.commit(recover)
            record = store.reader.now(workflows.latest, "review:main")
            assert ("canary" in words(store), record is None or record.status == "failed") == (False, True)
            await start(store)
            await store.said("review:main", "canary " * 9000)
            assert "canary" in words(store)
            assert b"canary" not in bytes_of(tmp_path)


async def test_the_guard_is_not_asked_about_what_was_said_in_memory(tmp_path: Path) -> None:
    definition = b'{"name":"review","agents":{},"guard":{"model":"mock/g","auto_store":true}}'
    async with open_store(str(tmp_path / "kernel.db")) as store:
        await store.agents("alice")
        member = MemberSpec(name="alice", key=AgentKey("alice"), origin="file", definition=b'{"model":"mock/m"}')
        for workspace in ("kept", "memory"):
            await start(store, workspace, member, definition=definition)
            await store.said("review:main", "canary: we chose postgres")
            await store.writer.commit(stop_workflow, "review:main", "done", 0)
            assert store.database.reader().execute("SELECT count(*) FROM guard_jobs").get == 1


async def test_what_is_kept_is_kept(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "kernel.db")) as store:
        cleanup = Runs(log=store.log, wake=store.feed.new_wake())
        await start(store, "kept")
        await store.writer.commit(stop_workflow, "review:main", "done", 0)
        store.clock.now_ms += 10 * MEMORY_SPACE_KEPT_MS
        assert await cleanup.run_once() == LONGEST_NAP_SECONDS
        assert "canary" in words(store)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for home in ("alice/dm+alice", "alice/review+main", "bob@review+main/review+main"):
        (tmp_path / home / "claude").mkdir(parents=True)
        (tmp_path / home / "claude" / "session.jsonl").write_text("words")
    return tmp_path


def left(root: Path) -> list[str]:
    return sorted(path.parent.relative_to(root).as_posix() for path in root.glob("*/*/claude"))


@pytest.mark.parametrize(
    ("agent", "space", "kept"),
    [
        ("alice", None, ["bob@review+main/review+main"]),
        (None, "review:main", ["alice/dm+alice"]),
        ("alice", "review:main", ["alice/dm+alice", "bob@review+main/review+main"]),
        ("bob@review:main", None, ["alice/dm+alice", "alice/review+main"]),
        ("carol", None, ["alice/dm+alice", "alice/review+main", "bob@review+main/review+main"]),
    ],
)
async def test_they_go_with_their_agent_and_with_their_space(
    root: Path, agent: str | None, space: str | None, kept: list[str]
) -> None:
    await CliHomes(root).forget(agent, space)
    assert left(root) == kept
    assert "going" not in str(sorted(root.glob("*/*")))  # noqa: ASYNC240  (a look at a folder)


@pytest.mark.promise("XF05")
async def test_no_link_leads_out(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "precious").write_text("mine")
    (root / "alice/dm+alice/claude/link").symlink_to(outside)
    (root / "alice" / "linked").symlink_to(outside)
    await CliHomes(root).forget("alice", None)
    assert (outside / "precious").read_text() == "mine"


@pytest.mark.promise("P10")
async def test_old_ones_are_swept_and_those_in_use_are_not(root: Path, tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "store.db")) as store:
        await store.agents("alice")
        old = (await store.said("dm:alice", "work")).instruction_ids[0]
        await store.take(old)
        await store.close(old, 1, status="incomplete", text="")
        kept_days = 30
        retention = Retention(log=store.log, kept_seconds=lambda: kept_days * DAY_MS / 1000, homes=CliHomes(root))
        await retention.sweep()
        assert left(root) == ["alice/dm+alice"]
        store.clock.now_ms += (kept_days + 1) * DAY_MS
        await retention.sweep()
        assert left(root) == []
