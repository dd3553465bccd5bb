"""The plain model of the store: dictionaries, and what each commit should do to them. No SQL, no events.

It decides nothing that a policy decides (restart, deaths, aging have tests of their own) but asks those; it knows the
order of work, who may hold what, and that what has ended stays ended.
"""

from dataclasses import dataclass, field
from typing import Final

from kernel.policy.retry import Backoff, BootFailures, CrashRecord, after_crash, with_failure
from kernel.policy.scheduling import STARVATION_MS, lane_after

LIVE: Final = frozenset({"leased", "running"})
LANED: Final = frozenset({"queued", "yielded"})
ENDED: Final = frozenset({"done", "incomplete", "failed", "dead", "cancelled"})
JITTER: Final = 0.5
JOINED_MESSAGES: Final = 20
"""What comes then makes work of its own."""


@dataclass
class Work:
    number: int
    agent: str
    space: str
    lane: int
    enqueued_ms: int
    state: str = "queued"
    waits_for: str | None = None
    not_before_ms: int = 0
    epoch: int = 0
    entries: int = 0
    final: bool = False
    """Its last entry is a reply with which the work ends."""
    preempted: int = 0
    promoted: bool = False
    by_mention: bool = False
    messages: int = 1
    """Of which it was made."""
    deaths: BootFailures = field(default_factory=lambda: BootFailures(0, -1))


@dataclass
class Agent:
    """One agent, and what the restart policy remembers of it."""

    state: str = "active"
    resume_at_ms: int = 0
    streak: int = 0
    crashed_ms: int = 0
    stepped: bool = False
    crashes: tuple[int, ...] = ()


@dataclass
class Model:
    now_ms: int
    agents: dict[str, Agent]
    works: dict[int, Work] = field(default_factory=dict)
    paused: bool = False
    """The workflow is."""

    def assign(self, agent: str, space: str, lane: int, *, mention: bool = False) -> int:
        """Work is made of a message, or joins work that mentions made and nobody has begun."""
        waits = "paused" if self.paused and not space.startswith("dm:") else None
        if mention and waits is None:
            for work in sorted(self.works.values(), key=lambda one: -one.number):
                same = (work.agent, work.space, work.lane, work.state) == (agent, space, lane, "queued")
                if same and work.by_mention and work.epoch == 0:
                    if work.messages == JOINED_MESSAGES:
                        break
                    work.messages += 1
                    return work.number
        number = len(self.works) + 1
        work = Work(number, agent, space, lane, self.now_ms, by_mention=mention)
        work.state, work.waits_for = ("waiting", waits) if waits else ("queued", None)
        self.works[number] = work
        return number

    # -- order (P11) -------------------------------------------------------------------------------------

    def queue(self, agent: str) -> list[Work]:
        """What of an agent's work may be leased by its own time, in order."""
        due = [one for one in self.works.values() if one.agent == agent and one.state in LANED]
        return sorted((one for one in due if one.not_before_ms <= self.now_ms), key=lambda one: (one.lane, one.number))

    def free(self, agent: str) -> bool:
        """Whether an agent may be given work now."""
        known = self.agents[agent]
        return known.state == "active" and known.resume_at_ms <= self.now_ms and self.holds(agent) is None

    def holds(self, agent: str) -> Work | None:
        return next((one for one in self.works.values() if one.agent == agent and one.state in LIVE), None)

    def ready(self) -> list[int]:
        """The head of each free agent's queue, most urgent first."""
        heads = [self.queue(agent)[0] for agent in self.agents if self.free(agent) and self.queue(agent)]
        return [one.number for one in sorted(heads, key=lambda one: (one.lane, one.number))]

    def presses(self, work: Work) -> str | None:
        """Why an attempt should make room after an entry."""
        paused = self.paused and not work.space.startswith("dm:")
        if paused or self.agents[work.agent].state != "active":
            return "paused"
        urgent = any(other.lane < work.lane for other in self.queue(work.agent))
        return "urgent" if urgent else None

    # -- what happens to one -----------------------------------------------------------------------------

    def lease(self, work: Work) -> None:
        work.state, work.epoch, work.not_before_ms = "leased", work.epoch + 1, 0

    def entry(self, work: Work, *, final: bool) -> None:
        work.state, work.entries, work.final = "running", work.entries + 1, final

    def back(self, work: Work, state: str, not_before_ms: int = 0, waits_for: str | None = None) -> None:
        """An attempt ended and the work did not. Work of a paused workflow waits for that."""
        if state in LANED and self.paused and not work.space.startswith("dm:"):
            state, waits_for = "waiting", "paused"
        work.state, work.not_before_ms, work.waits_for = state, not_before_ms, waits_for

    def preempt(self, work: Work) -> None:
        """It made room; too often, and it moves up."""
        self.back(work, "yielded")
        work.preempted += 1
        work.promoted = False
        better = lane_after(work.lane, work.preempted)
        if better != work.lane:
            work.lane, work.promoted = better, True

    def crash(self, work: Work, not_before_ms: int) -> None:
        self.back(work, "queued", not_before_ms)
        agent = self.agents[work.agent]
        recent = tuple(at for at in agent.crashes if at > self.now_ms - 3_600_000)
        verdict = after_crash(CrashRecord(agent.streak, agent.crashed_ms, agent.stepped, recent), self.now_ms, JITTER)
        agent.crashes = (*recent, self.now_ms)
        agent.streak, agent.crashed_ms, agent.stepped = verdict.streak, self.now_ms, False
        if isinstance(verdict, Backoff):
            agent.resume_at_ms = max(agent.resume_at_ms, self.now_ms + int(verdict.seconds * 1000))
        elif agent.state != "stopped":
            agent.state = "error"

    def end(self, work: Work, state: str) -> None:
        work.state, work.not_before_ms, work.waits_for = state, 0, None
        if state in ("done", "incomplete"):
            self.agents[work.agent].stepped = True

    def retry(self, work: Work) -> None:
        """As if never tried; what is durable stays."""
        work.preempted, work.promoted, work.enqueued_ms, work.deaths = 0, False, self.now_ms, BootFailures(0, -1)
        self.back(work, "queued")

    # -- what happens to many ----------------------------------------------------------------------------

    def restart(self) -> None:
        """The kernel died; its successor takes over."""
        for work in [one for one in self.works.values() if one.state in LIVE]:
            work.deaths = with_failure(work.deaths, work.entries)
            if work.final:
                self.end(work, "done")
            elif work.deaths.poisonous:
                self.end(work, "dead")
            else:
                self.back(work, "queued")

    def pause(self, *, paused: bool) -> None:
        """The workflow's work waits, or goes on."""
        self.paused = paused
        for work in [one for one in self.works.values() if not one.space.startswith("dm:")]:
            if paused and work.state in LANED:
                work.state, work.waits_for = "waiting", "paused"
            elif not paused and work.waits_for == "paused":
                work.state, work.waits_for = "queued", None

    def tick(self) -> None:
        """What time alone changes."""
        for work in self.works.values():
            if work.state in LANED and work.lane > 0 and self.now_ms - work.enqueued_ms >= STARVATION_MS:
                work.lane, work.promoted = 0, True
            if work.state == "waiting" and work.waits_for != "paused" and 0 < work.not_before_ms <= self.now_ms:
                self.back(work, "queued")

    def stop(self) -> None:
        """The workflow ends, and all of its work that has not."""
        for work in [one for one in self.works.values() if not one.space.startswith("dm:")]:
            if work.state not in ENDED:
                self.end(work, "cancelled")
        self.paused = False
