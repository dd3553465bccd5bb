"""Schedules that come, on a real store, with clocks set by hand."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kernel.agents.catalog import Catalog
from kernel.agents.registration import refresh, register
from kernel.agents.schedule import DEFAULT_PROMPT, wakes_text
from kernel.agents.trust import GrantSource, ProjectTrust, TrustedFiles, schedule_units
from kernel.rule.draft import Author, MemberSpec
from kernel.services import timers as service
from kernel.services.runs import Runs
from kernel.services.timers import LONGEST_NAP_SECONDS, WAKING, Deadlines, Schedules
from kernel.store import instructions, messages, timers, voting, workflows
from kernel.store.agents import AgentSpec, put_agents, set_agent_state
from kernel.store.database import MEMORY
from kernel.store.transitions.append import append
from kernel.store.transitions.close import EndStatus
from kernel.store.transitions.runs import stop_workflow
from kernel.store.transitions.voting import create
from kernel.store.writer import STORAGE_FULL, StoreLog, Writer
from protocol.agent import AgentDefinition, Schedule
from protocol.errors import Cause
from protocol.names import AgentKey, InstructionId, number_of
from protocol.trust import Grant, digest_of
from protocol.workflow import Ref, WorkflowDefinition
from tests.kernel.store.busy_workspace import STARVATION_MS, asked
from tests.kernel.store.running_store import Store, open_store, started
from tests.shorthand import present, running

DAY_MS = 24 * 3600 * 1000
YEAR_MS = 365 * DAY_MS
MORNING = datetime(2026, 11, 21, 8, 59, tzinfo=UTC)
"""A minute before nine."""


@dataclass
class Scene:
    """A store, the agents' files, and timers on them. ``wall_ms`` is the machine's clock."""

    store: Store
    catalog: Catalog
    wall_ms: int
    schedules: Schedules

    def write(self, name: str, schedule: str) -> None:
        text = f"backend: mock\nmock: [{{text: hi}}]\nschedule: {schedule}\n"
        (self.catalog.root / ".agents" / f"{name}.yaml").write_text(text)

    async def agent(self, schedule: str, name: str = "alice") -> None:
        """An agent with a file, known to the store, its timer armed."""
        self.write(name, schedule)
        await register(self.catalog, self.store.writer, self.store.reader)
        await self.schedules.run_once()

    def new_schedules(
        self, *, trusted: bool = True, kept: GrantSource = tuple, trust_dir: Path | None = None
    ) -> Schedules:
        """What the next kernel would have."""
        return Schedules(
            log=self.store.log,
            files=TrustedFiles(self.catalog, {"TZ": "UTC"}, ProjectTrust(trusted, kept)),
            trust_dir=trust_dir,
            wake=self.store.feed.new_wake(WAKING),
            wall_ms=lambda: self.wall_ms,
        )

    async def pass_ms(self, passed: int) -> float:
        """Both clocks go on, then the timers look. Returns how long they would sleep."""
        self.store.clock.now_ms += passed
        self.wall_ms += passed
        return await self.schedules.run_once()

    def woken(self, space: str = "dm:alice") -> list[str]:
        """The words of every wakeup that has not ended, oldest first."""
        found = self.store.reader.now(instructions.open_in, space)
        return [self._words(number_of(one.instruction, "i") or 0) for one in found]

    def _words(self, number: int) -> str:
        row = present(
            self.store.database.reader().execute("SELECT message FROM instructions WHERE id = ?", (number,)).fetchone()
        )
        return present(self.store.reader.now(messages.report, row[0])).message.text

    async def finish(self, instruction: str) -> None:
        """An attempt that takes no time."""
        leased = await self.store.take(instruction)
        await self.store.close(instruction, leased.epoch, status="done", text="")

    async def workflow(self, *members: MemberSpec, definition: WorkflowDefinition) -> None:
        draft = started(*members, file="review.yaml", definition=msgspec.json.encode(definition))
        await self.store.writer.commit(append, draft)

    def armed(self) -> list[tuple[str, str]]:
        return [(timer.agent, timer.home) for timer in self.store.reader.now(timers.all)]


@pytest.fixture
async def it(tmp_path: Path) -> AsyncGenerator[Scene]:
    (tmp_path / ".agents").mkdir()
    async with open_store(":memory:") as store:
        made = Scene(store, Catalog(tmp_path), int(MORNING.timestamp() * 1000), None)  # type: ignore[arg-type]
        made.schedules = made.new_schedules()
        yield made


async def test_an_interval_comes_after_its_period_and_again_after_the_next(it: Scene) -> None:
    await it.agent("{wakeup: 5s, prompt: Check for pending reviews}")
    assert await it.pass_ms(4999) == 0.001
    assert it.woken() == []
    assert await it.pass_ms(1) == 5.0
    assert it.woken() == ["Check for pending reviews"]
    await it.finish("i1")
    it.write("alice", "{wakeup: 5s}")
    await it.pass_ms(5000)
    await it.pass_ms(0)
    assert it.woken() == [DEFAULT_PROMPT]


@pytest.mark.promise("TF03", "TF19")
async def test_what_was_missed_while_nobody_looked_comes_once(it: Scene) -> None:
    await it.agent("{wakeup: 1m}")
    await it.agent("{wakeup: '* * * * *'}", "bob")
    for passed in (8 * 3600 * 1000, 0, 0):
        await it.pass_ms(passed)
    assert (len(it.woken("dm:alice")), len(it.woken("dm:bob"))) == (1, 1)


@pytest.mark.promise("P21")
async def test_a_new_kernel_lets_what_was_missed_come_once(it: Scene) -> None:
    await it.agent("{wakeup: 1h}")
    it.schedules = it.new_schedules()
    await it.pass_ms(10 * 3600 * 1000)
    await it.pass_ms(0)
    assert len(it.woken()) == 1


@pytest.mark.promise("TF01")
async def test_a_kernel_whose_clock_begins_a_year_earlier_waits_no_longer_than_a_period(it: Scene) -> None:
    await it.agent("{wakeup: 1h}")
    it.store.clock.now_ms -= YEAR_MS
    it.wall_ms -= YEAR_MS
    it.schedules = it.new_schedules()
    await it.schedules.run_once()
    await it.pass_ms(3600 * 1000)
    assert len(it.woken()) == 1


async def test_cron_comes_by_the_wall_clock_whatever_its_agent_does(it: Scene) -> None:
    await it.agent("{wakeup: 0 9 * * *, timezone: UTC}")
    await it.store.said("dm:alice", "work")
    await it.store.take("i1")
    assert await it.pass_ms(59_000) == 1.0
    await it.pass_ms(1000)
    assert it.woken() == ["work", DEFAULT_PROMPT]


@pytest.mark.promise("TF01")
@pytest.mark.parametrize("jump_ms", [YEAR_MS, -YEAR_MS])
async def test_a_wall_clock_that_jumps_a_year_makes_no_storm(it: Scene, jump_ms: int) -> None:
    await it.agent("{wakeup: 0 9 * * *}")
    await it.pass_ms(60_000)
    await it.finish("i1")
    it.wall_ms += jump_ms
    for _ in range(5):
        await it.pass_ms(1000)
    came = it.woken()
    assert len(came) == (1 if jump_ms > 0 else 0)
    assert 0 < present(it.store.reader.now(timers.upcoming).wall_ms) - it.wall_ms <= DAY_MS


@pytest.mark.promise("TF02")
async def test_a_wall_clock_that_corrects_itself_repeats_nothing(it: Scene) -> None:
    """Nine o'clock was kept; it does not come again because the clock went back to 8:58."""
    await it.agent("{wakeup: 0 9 * * *}")
    await it.pass_ms(60_000)
    await it.finish("i1")
    it.wall_ms -= 120_000
    for _ in range(5):
        await it.pass_ms(60_000)
    assert it.woken() == []


@pytest.mark.promise("P21")
async def test_an_interval_takes_no_heed_of_the_wall_clock(it: Scene) -> None:
    await it.agent("{wakeup: 10m}")
    for jump_ms in (YEAR_MS, -2 * YEAR_MS):
        it.wall_ms += jump_ms
        await it.pass_ms(60_000)
    assert it.woken() == []
    await it.pass_ms(480_000)
    assert len(it.woken()) == 1


@pytest.mark.promise("CF18")
async def test_an_edit_counts_before_the_schedule_comes_again(it: Scene) -> None:
    await it.agent("{wakeup: 5s, prompt: old}")
    it.write("alice", "{wakeup: 5s, prompt: new}")
    await it.pass_ms(5000)
    await it.pass_ms(0)
    assert it.woken() == ["new"]
    await it.finish("i1")
    for text in ("{wakeup: 1h}", "null"):
        it.write("alice", text)
        await it.pass_ms(3600 * 1000)
        await it.pass_ms(0)
        assert it.woken() == []
    assert it.armed() == []


@pytest.mark.promise("CF18")
async def test_a_schedule_that_is_written_into_a_file_counts_within_a_minute(it: Scene) -> None:
    it.write("alice", "null")
    await register(it.catalog, it.store.writer, it.store.reader)
    assert await it.schedules.run_once() == LONGEST_NAP_SECONDS
    for schedule, first_seconds in (("{wakeup: 1h}", 60.0), ("{wakeup: 5s}", 5.0), ("{wakeup: 0s}", 5.0)):
        it.write("alice", schedule)
        nap = await it.pass_ms(60_000)
        assert min(nap, await it.schedules.run_once()) == first_seconds
        assert it.armed() == [("alice", "dm:alice")]
    assert len(it.woken()) == 1


@pytest.mark.promise("CF18")
async def test_a_wrong_file_leaves_the_schedule_and_a_deleted_one_ends_it(it: Scene) -> None:
    await it.agent("{wakeup: 5s}")
    it.write("alice", "{wakeup: 0s}")
    assert await it.pass_ms(5000) == 5.0
    assert (len(it.woken()), it.armed()) == (1, [("alice", "dm:alice")])
    await it.finish("i1")
    (it.catalog.root / ".agents/alice.yaml").unlink()
    await it.pass_ms(5000)
    assert await it.schedules.run_once() == LONGEST_NAP_SECONDS
    assert (it.woken(), it.armed()) == ([], [])


async def test_a_paused_agent_is_not_woken_and_costs_nothing(it: Scene) -> None:
    await it.agent("{wakeup: 5s}")
    await it.store.writer.commit(set_agent_state, AgentKey("alice"), "paused")
    assert await it.pass_ms(3600 * 1000) == LONGEST_NAP_SECONDS
    assert it.woken() == []
    await it.store.writer.commit(set_agent_state, AgentKey("alice"), "active")
    await it.pass_ms(0)
    assert len(it.woken()) == 1


async def test_a_schedule_that_fails_each_time_is_told_once(it: Scene) -> None:
    await it.agent("{wakeup: 5s}")

    async def come(number: int, status: EndStatus, cause: Cause | None = None) -> int:
        await it.pass_ms(5000)
        leased = await it.store.take(f"i{number}")
        await it.store.close(f"i{number}", leased.epoch, status=status, cause=cause)
        return sum(one.kind == "system" for one in it.store.reader.now(messages.channel, "dm:alice", 100))

    assert [await come(number, "failed", "untrusted") for number in (1, 2, 3)] == [1, 1, 1]
    assert [await come(number, "failed", "invalid") for number in (4, 5)] == [2, 2]
    assert [await come(6, "done"), await come(7, "failed", "invalid")] == [2, 3]
    (sent,) = (await it.store.said("dm:alice", "what is the matter?")).instruction_ids
    leased = await it.store.take(sent)
    await it.store.close(sent, leased.epoch, status="failed", cause="invalid")
    assert await come(9, "failed", "invalid") == 4


@pytest.mark.promise("LF01")
async def test_two_hundred_idle_agents_are_slept_through(it: Scene) -> None:
    body = msgspec.json.encode(AgentDefinition(name="x", model="mock/m"))
    specs = [AgentSpec(key=AgentKey(f"a{n}"), origin="ephemeral", definition=body) for n in range(200)]
    await it.store.writer.commit(put_agents, specs)
    assert await it.schedules.run_once() == LONGEST_NAP_SECONDS
    await it.agent("{wakeup: 1h}")
    assert await it.schedules.run_once() == LONGEST_NAP_SECONDS


async def test_a_workflows_schedule_takes_the_place_of_the_agents_own_while_it_runs(it: Scene) -> None:
    """contracts 1: a ref may override the schedule; an inline agent wakes where it lives."""
    hourly = Schedule(wakeup="1h", prompt="in review")
    definition = WorkflowDefinition(
        name="review",
        agents={
            "critic": Ref(ref="alice", schedule=hourly),
            "helper": AgentDefinition(name="helper", model="mock/m", schedule=hourly),
            "quiet": AgentDefinition(name="quiet", model="mock/m"),
        },
    )
    members = (
        MemberSpec(name="critic", key=AgentKey("alice"), origin="file"),
        MemberSpec(name="helper", key=AgentKey("helper@review:main"), origin="inline", definition=b"{}"),
        MemberSpec(name="quiet", key=AgentKey("quiet@review:main"), origin="inline", definition=b"{}"),
    )
    await it.agent("{wakeup: 5s}")
    await it.workflow(*members, definition=definition)
    await it.schedules.run_once()
    assert it.armed() == [("alice", "review:main"), ("helper@review:main", "review:main")]
    await it.pass_ms(3600 * 1000)
    assert (it.woken(), it.woken("review:main")) == ([], ["in review", "in review"])
    await it.store.writer.commit(stop_workflow, "review:main", "cancelled", 130)
    await it.schedules.run_once()
    assert it.armed() == [("alice", "dm:alice")]


@pytest.mark.promise("P26")
async def test_a_schedule_keeps_no_run_alive(it: Scene) -> None:
    helper = AgentDefinition(name="helper", model="mock/m", schedule=Schedule(wakeup="1s"))
    spec = MemberSpec(name="helper", key=AgentKey("helper@review:main"), origin="inline", definition=b"{}")
    await it.workflow(spec, definition=WorkflowDefinition(name="review", agents={"helper": helper}))
    await it.schedules.run_once()
    assert it.armed() == [("helper@review:main", "review:main")]
    store = it.store
    runs = Runs(log=store.log, wake=store.feed.new_wake())
    await runs.run_once()
    record = present(store.reader.now(workflows.latest, "review:main"))
    assert (record.state, record.status, record.exit_code) == ("stopped", "done", 0)
    assert await it.pass_ms(1000) == LONGEST_NAP_SECONDS
    assert (it.woken("review:main"), it.armed()) == ([], [])


@pytest.mark.promise("SF03")
async def test_a_full_disk_puts_a_wakeup_off_and_loses_none(
    it: Scene, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await it.agent("{wakeup: 5s}")
    asked = trio.Event()

    async def full(*_args: object, **_values: object) -> None:
        asked.set()
        raise STORAGE_FULL

    with monkeypatch.context() as disk:
        disk.setattr(it.store.writer, "commit", full)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.pass_ms, 5000)
            await asked.wait()
            await wait_all_tasks_blocked()
            mock_clock.jump(1)
    assert it.woken() == []
    await it.pass_ms(0)
    assert it.woken() == [DEFAULT_PROMPT]


@pytest.mark.promise("P21", "LF01")
async def test_it_sleeps_until_something_is_due_and_wakes_when_an_agent_changes(
    it: Scene, mock_clock: MockClock
) -> None:
    start_ms = it.store.clock.now_ms
    looks: list[float] = []

    def now_ms() -> int:
        looks.append(mock_clock.current_time())
        return start_ms + round(mock_clock.current_time() * 1000)

    it.schedules = Schedules(
        log=StoreLog(it.store.reader, it.store.writer, now_ms),
        files=TrustedFiles(it.catalog, {}, ProjectTrust(everything=True)),
        wake=it.store.feed.new_wake(WAKING),
        wall_ms=lambda: now_ms() + 5,
    )
    await it.schedules.run_once()
    async with running(it.schedules.run):
        await wait_all_tasks_blocked()
        looks.clear()
        mock_clock.jump(7)
        await wait_all_tasks_blocked()
        assert looks == []
        it.write("alice", "{wakeup: 2s}")
        with it.store.feed.subscribe(wanted=lambda event: event.type == "instruction.queued") as queued:
            await register(it.catalog, it.store.writer, it.store.reader)
            while not it.armed():
                await wait_all_tasks_blocked(0.01)
            for seconds in (0.5, 1.499):
                mock_clock.jump(seconds)
                await wait_all_tasks_blocked(0.01)
                assert it.woken() == []
            mock_clock.jump(0.001)
            await anext(queued)
        assert it.woken() == [DEFAULT_PROMPT]


class Consenting:
    """What a user keeps, changed by hand."""

    def __init__(self) -> None:
        self.kept: tuple[Grant, ...] = ()

    def __call__(self) -> tuple[Grant, ...]:
        return self.kept

    def to(self, it: Scene, name: str = "alice") -> None:
        """Agree to the schedule of ``name`` as its file has it now."""
        units = schedule_units(it.catalog.agent(name).definition)
        found = (Grant(subject=one.subject, demands=one.demands, digest=one.digest, at="now") for one in units)
        self.kept = (*self.kept, *found)


@pytest.mark.promise("P19")
async def test_a_schedule_that_nobody_agreed_to_does_not_run(it: Scene) -> None:
    consents = Consenting()
    it.schedules = it.new_schedules(trusted=False, kept=consents)
    await it.agent("{wakeup: 5s, prompt: spend}")
    for _ in range(3):
        await it.pass_ms(10_000)
    assert it.woken() == []
    assert it.armed() == []
    [told] = [one for one in it.store.told if one.type == "schedule.untrusted"]
    assert (told.agent, told.data["wakeup"]) == ("alice", "5s")
    assert str(told.data["hint"]).endswith("awk trust alice")
    consents.to(it)
    await it.schedules.run_once()
    await it.pass_ms(5000)
    assert it.woken() == ["spend"]


@pytest.mark.promise("P19")
@pytest.mark.parametrize(
    "edited", ["{wakeup: 1s, prompt: spend}", "{wakeup: 5s, prompt: spend more}", "{wakeup: '* * * * *'}"]
)
async def test_an_edited_schedule_asks_again(it: Scene, edited: str) -> None:
    consents = Consenting()
    it.schedules = it.new_schedules(trusted=False, kept=consents)
    it.write("alice", "{wakeup: 5s, prompt: spend}")
    consents.to(it)
    await it.agent("{wakeup: 5s, prompt: spend}")
    assert it.armed() == [("alice", "dm:alice")]
    it.write("alice", edited)
    await it.pass_ms(5000)
    await it.pass_ms(DAY_MS)
    assert it.woken() == []
    assert it.armed() == []


@pytest.mark.promise("P19")
async def test_a_budget_that_was_taken_away_asks_again(it: Scene) -> None:
    consents = Consenting()
    it.schedules = it.new_schedules(trusted=False, kept=consents)
    it.write("alice", "{wakeup: 5s}\nbudget: {tokens: 1000}")
    consents.to(it)
    assert consents.kept[0].demands[1] == "alice may spend 1000 tokens within 1d, awake or asked"
    await it.agent("{wakeup: 5s}")
    assert it.armed() == []


@pytest.mark.promise("P19")
async def test_a_consent_that_is_taken_back_holds_from_then_on(it: Scene) -> None:
    consents = Consenting()
    it.schedules = it.new_schedules(trusted=False, kept=consents)
    for name in ("alice", "bob"):
        it.write(name, "{wakeup: 5s}")
        consents.to(it, name)
        await it.agent("{wakeup: 5s}", name)
    assert len(it.armed()) == 2
    consents.kept = ()
    await it.pass_ms(5000)
    assert it.woken() == it.woken("dm:bob") == []
    assert it.armed() == []


@pytest.mark.promise("P19")
async def test_a_workflow_brings_what_was_agreed_to_with_its_start(it: Scene) -> None:
    consents = Consenting()
    ref = Ref(ref="alice", schedule=Schedule(wakeup="5s"))
    definition = WorkflowDefinition(name="review", agents={"alice": ref})
    it.schedules = it.new_schedules(trusted=False, kept=consents)
    it.write("alice", "{wakeup: 1h}")
    await register(it.catalog, it.store.writer, it.store.reader)
    member = MemberSpec(name="alice", key=AgentKey("alice"), origin="file")
    await it.workflow(member, definition=definition)
    await it.schedules.run_once()
    assert it.armed() == []
    demands = (wakes_text("alice", Schedule(wakeup="5s")),)
    for subject in ("workflow other.yaml", "agent review.yaml"):
        consents.kept = (Grant(subject=subject, demands=demands, digest=digest_of(subject, demands), at="now"),)
        await it.schedules.run_once()
        assert it.armed() == []
    subject = "workflow review.yaml"
    consents.kept = (Grant(subject=subject, demands=demands, digest=digest_of(subject, demands), at="now"),)
    await it.schedules.run_once()
    assert it.armed() == [("alice", "review:main")]


@pytest.mark.promise("LF01")
async def test_a_consent_is_noticed_when_it_is_written(it: Scene, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    consents = Consenting()
    async with trio.open_nursery() as nursery:
        it.schedules = it.new_schedules(trusted=False, kept=consents, trust_dir=state)
        it.write("alice", "{wakeup: 5s}")
        await register(it.catalog, it.store.writer, it.store.reader)
        await nursery.start(it.schedules.run)
        await wait_all_tasks_blocked()
        assert it.armed() == []
        consents.to(it)
        (state / "new").touch()
        (state / "new").rename(state / "trust.json")
        with trio.fail_after(10):
            while not it.armed():
                await wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()


@pytest.mark.promise("P24")
async def test_a_vote_that_wakes_nobody_is_known_to_the_alarm_and_ended_by_it() -> None:
    """Its only elector is who called for it; the alarm looks again at once, and next at the deadline."""
    async with open_store(MEMORY) as store:
        space = await store.workflow("alice")
        await store.given(space, "work", to=("alice",))
        wake = store.feed.new_wake()
        deadlines = Deadlines(log=store.log, wake=wake, starvation_ms=STARVATION_MS)
        wake.clear()
        await store.writer.commit(create, space, asked(seconds=20), author=Author(InstructionId("i1"), 1))
        assert wake.clear()
        assert await deadlines.run_once() == pytest.approx(20)
        store.clock.now_ms += 20_000
        await deadlines.run_once()
        ended = present(store.reader.now(voting.one, space, "p1"))
        assert (ended.state, ended.why) == ("expired", "deadline")
        assert wake.clear()


async def test_schedules_that_are_due_together_share_a_commit(it: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk would delay the last of them by all others' commits."""
    for name in ("alice", "bob", "carl"):
        await it.agent("{wakeup: 5s}", name)
    asked, all_asked, commit = 0, trio.Event(), type(it.store.writer).commit

    async def waiting(self: Writer, *values: Any, **named: Any) -> object:
        nonlocal asked
        asked += 1
        if asked == 3:
            all_asked.set()
        with trio.fail_after(5):
            await all_asked.wait()
        return await commit(self, *values, **named)

    monkeypatch.setattr(type(it.store.writer), "commit", waiting)
    await it.pass_ms(5000)
    assert [len(it.woken(f"dm:{name}")) for name in ("alice", "bob", "carl")] == [1, 1, 1]


async def test_a_schedule_that_is_refused_holds_up_no_other(
    it: Scene, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alice", "bob"):
        await it.agent("{wakeup: 5s}", name)

    async def refused(key: AgentKey, *rest: Any) -> str:
        if key == "alice":
            raise STORAGE_FULL
        return await refresh(key, *rest)

    monkeypatch.setattr(service, "refresh", refused)
    mock_clock.autojump_threshold = 0.01
    await it.pass_ms(5000)
    assert [len(it.woken(f"dm:{name}")) for name in ("alice", "bob")] == [0, 1]
