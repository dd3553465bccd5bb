"""Nobody starves: one agent's queue under floods that a model plays, and the aging policy against them."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.scheduling import PREEMPTIONS, STARVATION_MS, Candidate, WorkerLimits, choose, lane_after, may_yield
from protocol.instruction import LANES
from protocol.names import AgentKey, instruction_id

IMMEDIATE, NORMAL, BACKGROUND = range(len(LANES))
STEP_MS = 10_000


@dataclass
class Job:
    """One instruction of the model."""

    number: int
    lane: int
    steps_left: int
    since_ms: int
    preempted: int = 0
    promoted: bool = False
    starts: list[int] = field(default_factory=list)
    ended_ms: int | None = None


@dataclass
class Agent:
    """An agent that works step by step. ``arrivals`` are (time, lane, steps), by time."""

    arrivals: list[tuple[int, int, int]]
    now_ms: int = 0
    jobs: list[Job] = field(default_factory=list)
    began: list[Job] = field(default_factory=list)

    def run(self, until_ms: int) -> None:
        """Work until ``until_ms``, or until nothing is left."""
        while self.now_ms < until_ms:
            job = self._next()
            if job is None:
                if not self.arrivals:
                    return
                self.now_ms = max(self.now_ms, self.arrivals[0][0])
                continue
            self._attempt(job)

    def _arrive(self) -> None:
        while self.arrivals and self.arrivals[0][0] <= self.now_ms:
            at, lane, steps = self.arrivals.pop(0)
            self.jobs.append(Job(len(self.jobs) + 1, lane, steps, at))

    def _open(self) -> list[Job]:
        self._arrive()
        waiting = [job for job in self.jobs if job.ended_ms is None]
        for job in waiting:
            # tests/kernel/store/test_probes.py tests the statement that does it (kernel.store.transitions.due).
            if job.lane > IMMEDIATE and self.now_ms - job.since_ms >= STARVATION_MS:
                job.lane, job.promoted = IMMEDIATE, True
        return waiting

    def _next(self) -> Job | None:
        ready = [Candidate(instruction_id(job.number), AgentKey("a"), job.lane, job.number) for job in self._open()]
        chosen = choose(ready, {}, WorkerLimits(1), frozenset())
        return self.jobs[chosen[0].number - 1] if chosen else None

    def _attempt(self, job: Job) -> None:
        job.starts.append(self.now_ms)
        self.began.append(job)
        steps = 0
        while job.steps_left:
            self.now_ms += STEP_MS
            job.steps_left -= 1
            steps += 1
            urgent = any(one.lane < job.lane for one in self._open() if one is not job)
            if job.steps_left and urgent and may_yield(job.promoted, steps):
                job.preempted += 1
                raised = lane_after(job.lane, job.preempted)
                job.promoted = raised != job.lane
                job.lane = raised
                return
        job.ended_ms = self.now_ms


def test_the_third_preemption_makes_background_work_normal_and_nothing_else() -> None:
    assert [lane_after(BACKGROUND, n) for n in range(PREEMPTIONS + 2)] == [2, 2, 2, 1, 1]
    assert lane_after(NORMAL, 100) == NORMAL and lane_after(IMMEDIATE, 100) == IMMEDIATE


@pytest.mark.parametrize(("promoted", "steps", "may"), [(False, 0, True), (True, 0, False), (True, 1, True)])
def test_one_that_was_promoted_makes_a_step_first(promoted: bool, steps: int, may: bool) -> None:
    assert may_yield(promoted, steps) is may


@pytest.mark.promise("TF04")
def test_background_work_begins_and_ends_under_an_endless_flood() -> None:
    flood = [(at, IMMEDIATE, 1) for at in range(0, 1_200_000, 2_000)]
    agent = Agent(sorted([*flood, (1_000, BACKGROUND, 12)]))  # the second to come
    agent.run(1_200_000)
    background = agent.jobs[1]
    assert background.since_ms == 1_000 and background.promoted
    assert background.starts[0] <= 1_000 + STARVATION_MS + STEP_MS
    assert background.ended_ms is not None and background.steps_left == 0


@pytest.mark.promise("TF05")
def test_messages_that_come_while_it_is_busy_are_answered_in_their_order() -> None:
    agent = Agent([(0, NORMAL, 5), (1, IMMEDIATE, 1), (2, IMMEDIATE, 1), (3, NORMAL, 1)])
    agent.run(10**9)
    assert [job.number for job in agent.began] == [1, 2, 3, 1, 4]


@pytest.mark.promise("TF07")
def test_a_hundred_preemptions_do_not_keep_work_from_its_end() -> None:
    agent = Agent([(0, NORMAL, 101), *((STEP_MS * 2 * n + 1, IMMEDIATE, 1) for n in range(100))])
    agent.run(10**9)
    long = agent.jobs[0]
    assert long.ended_ms is not None and long.preempted >= 10
    assert len(long.starts) <= 101


arrivals = st.lists(st.tuples(st.integers(0, 1_200_000), st.integers(0, 2), st.integers(1, 20)), max_size=40)


@pytest.mark.promise("P11")
@settings(max_examples=3 * settings.get_profile("untimed").max_examples, deadline=None)
@given(arrivals)
def test_no_schedule_starves_anybody_or_breaks_the_order_of_a_lane(made: list[tuple[int, int, int]]) -> None:
    agent = Agent(sorted(made))
    agent.run(10**12)
    assert all(job.ended_ms is not None for job in agent.jobs)
    for job in agent.jobs:
        assert len(job.starts) <= 1 + job.preempted
    immediate = [job for job in agent.jobs if job.lane == IMMEDIATE and not job.promoted]
    assert [job.starts[0] for job in immediate] == sorted(job.starts[0] for job in immediate)
    for job in immediate:
        before = [one for one in agent.jobs if one.lane == IMMEDIATE and one is not job]
        if not any(one.ended_ms is None or one.ended_ms > job.since_ms for one in before):
            assert job.starts[0] - job.since_ms <= STEP_MS
