"""The store as a state machine: any sequence of commits, held against the plain model after each.

Synchronous: jobs run on SQLite directly, in a transaction each, as the writer runs them.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Concatenate, Final, ParamSpec, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernel.policy.scheduling import STARVATION_MS
from kernel.rule.draft import Author, Draft, MemberSpec
from kernel.store import instructions
from kernel.store.agents import AgentSpec, ps, put_agents, summary
from kernel.store.database import MEMORY, Database
from kernel.store.idempotency import RequestKey
from kernel.store.messages import acknowledge
from kernel.store.transaction import Transaction
from kernel.store.transitions import steering
from kernel.store.transitions.append import Appended, append
from kernel.store.transitions.close import cancel, close
from kernel.store.transitions.due import apply_due
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import lease
from kernel.store.transitions.recovery import recover
from kernel.store.transitions.requeue import Requeue, requeue
from kernel.store.transitions.runs import stop_workflow
from protocol.errors import Refused
from protocol.ipc import Entry
from protocol.names import AgentKey, instruction_id
from tests.kernel.store.migrated import open_migrated
from tests.kernel.store.plain_model import ENDED, JITTER, LANED, LIVE, Agent, Model, Work
from tests.kernel.store.running_store import START_MS, started

P = ParamSpec("P")
T = TypeVar("T")

NAMES: Final = ("alice", "bob")
SPACE: Final = "review:main"
agents = st.sampled_from(NAMES)
picks = st.integers(0, 1_000_000)

ROWS: Final = """
SELECT id, agent, space, lane, state, waits_for, not_before_ms, epoch, entries, preempted, promoted
FROM instructions ORDER BY id
"""
AGENTS: Final = "SELECT key, state, resume_at_ms FROM agents ORDER BY key"
LIVE_ATTEMPTS: Final = "SELECT instruction, epoch FROM attempts WHERE ended_ms IS NULL ORDER BY instruction"
OF_KEY: Final = "SELECT count(*) FROM messages WHERE text = ?"
OPEN_DELIVERIES: Final = """
SELECT count(*) FROM deliveries AS d CROSS JOIN instructions AS i ON i.id = d.instruction
WHERE d.state IN ('queued', 'leased', 'injected')
  AND i.state IN ('done', 'incomplete', 'failed', 'dead', 'cancelled')
"""
LOST: Final = """
SELECT count(*) FROM deliveries AS d LEFT JOIN instructions AS i ON i.id = d.instruction
WHERE i.id IS NULL OR (d.state = 'dead' AND i.state NOT IN ('failed', 'dead', 'cancelled'))
"""


class StoreMachine(RuleBasedStateMachine):
    """In memory."""

    def __init__(self) -> None:
        super().__init__()
        self.database = self.open()
        self.model = Model(START_MS, {name: Agent() for name in NAMES})
        self.sent: dict[str, tuple[Draft, Appended]] = {}
        self.salt = 0

    def open(self) -> Database:
        return open_migrated(MEMORY)

    def teardown(self) -> None:
        self.database.close()

    def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        conn = self.database.writer()
        conn.execute("BEGIN IMMEDIATE")
        try:
            answer = job(Transaction(conn, self.model.now_ms), *args, **kwargs)
        except BaseException:
            conn.execute("ROLLBACK")
            raise
        conn.execute("COMMIT")
        return answer

    def works(self, *states: str) -> list[Work]:
        return [one for one in self.model.works.values() if one.state in states]

    def pick(self, number: int, *states: str) -> Work | None:
        found = self.works(*states)
        return found[number % len(found)] if found else None

    def now_and_then(self, period: int = 4) -> bool:
        """What people and kernels do seldom is possible at some of the steps only, so that work gets on between."""
        return (self.salt + len(self.model.works)) % period == period - 1

    # -- messages ----------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.commit(put_agents, [AgentSpec(key=AgentKey(name), origin="file") for name in NAMES])
        self.commit(append, team())
        self.commit(recover)
        for number in range(4):
            self.send(NAMES[number % 2], "personal" if number < 2 else "direct")

    @rule(agent=agents, way=st.sampled_from(("personal", "direct", "mention")))
    def send(self, agent: str, way: str) -> None:
        """A user's message with an idempotency key: to one agent alone, to a member of the team, or by a mention."""
        key = f"k{len(self.sent)}"
        space, text = (f"dm:{agent}" if way == "personal" else SPACE), f"{key}: do it"
        if way == "mention":
            draft = Draft(kind="said", space=space, sender="user", text=f"{text} @{agent}")
        else:
            draft = Draft(kind="said", space=space, sender="user", text=text, to=(agent,))
        appended = self.commit(append, draft, request=_request(key))
        number = self.model.assign(agent, space, 1 if way == "direct" else 0, mention=way == "mention")
        assert appended.instruction_ids == (instruction_id(number),)
        self.sent[key] = (draft, appended)

    @precondition(lambda self: self.sent)
    @rule(number=picks)
    def send_again(self, number: int) -> None:
        """The same request once more: the same answer, and nothing else (P2)."""
        key = sorted(self.sent)[number % len(self.sent)]
        draft, appended = self.sent[key]
        assert self.commit(append, draft, request=_request(key)) == appended

    @precondition(lambda self: self.works(*LIVE))
    @rule(number=picks, times=st.integers(1, 3))
    def mention_by_agent(self, number: int, times: int) -> None:
        """An agent gives a colleague work; a call that is repeated has one effect (P4)."""
        work = self.pick(number, *LIVE)
        if work is None or work.space != SPACE:
            return
        other = NAMES[1 - NAMES.index(work.agent)]
        author = Author(instruction_id(work.number), work.epoch, f"c{self.salt}")
        draft = Draft(kind="said", space=SPACE, sender=work.agent, text=f"@{other} help", author=author)
        first, *again = (self.commit(append, draft) for _ in range(times))
        self.salt += 1
        assert all(one == first for one in again)
        made = self.model.assign(other, SPACE, 0, mention=True)
        assert first.instruction_ids == (instruction_id(made),)

    @precondition(lambda self: self.works(*LIVE))
    @rule(number=picks)
    def ack(self, number: int) -> None:
        """An agent marks its inbox as handled: work that is queued runs all the same."""
        work = self.pick(number, *LIVE)
        if work is not None:
            author = Author(instruction_id(work.number), work.epoch)
            self.commit(acknowledge, author, range(1, 200))

    # -- attempts ----------------------------------------------------------------------------------------

    @precondition(lambda self: self.works(*LANED))
    @rule(number=picks)
    def lease(self, number: int) -> None:
        """Give some of what is queued to an attempt, be it its turn or not."""
        work = self.pick(number, *LANED)
        if work is not None:
            self.lease_one(work)

    def lease_one(self, work: Work) -> None:
        """An attempt begins, if its agent is free for one."""
        self.salt += 1
        leased = self.commit(lease, instruction_id(work.number), sha256(str(self.salt).encode()).digest())
        assert (leased is not None) == self.model.free(work.agent), work
        if leased is not None:
            self.model.lease(work)
            assert (leased.epoch, leased.entries) == (work.epoch, work.entries)

    @precondition(lambda self: self.model.ready())
    @rule(number=picks, entries=st.integers(0, 3))
    def work(self, number: int, entries: int) -> None:
        """Lease one that is ready, and get on with it."""
        ready = self.model.ready()
        chosen = ready[number % len(ready)]
        self.lease_one(self.model.works[chosen])
        for _ in range(entries):
            self.journal_one(self.model.works[chosen], final=False)

    @precondition(lambda self: self.works(*LIVE))
    @rule(number=picks, final=st.sampled_from((False, False, True)))
    def entry(self, number: int, final: bool) -> None:
        """A reply becomes durable, and the kernel learns whether something presses (P11)."""
        work = self.pick(number, *LIVE)
        if work is not None:
            self.journal_one(work, final=final)

    def journal_one(self, work: Work, *, final: bool) -> None:
        stop = "end_turn" if final else "pause_turn"
        entry = Entry(k=work.entries, kind="reply", text="so", stop_reason=stop)
        presses = self.commit(journal, instruction_id(work.number), work.epoch, entry)
        self.model.entry(work, final=final)
        assert presses == self.model.presses(work)

    @precondition(lambda self: any(one.epoch for one in self.model.works.values()))
    @rule(number=picks)
    def entry_of_the_last_attempt(self, number: int) -> None:
        """Who was fenced writes nothing (P3)."""
        work = self.pick(number, "queued", "yielded", "leased", "running", "waiting", *ENDED)
        if work is None or work.epoch == 0:
            return
        epoch = work.epoch - 1 if work.state in LIVE else work.epoch
        number_of_it = instruction_id(work.number)
        for late in (
            lambda: self.commit(journal, number_of_it, epoch, Entry(k=work.entries, kind="reply")),
            lambda: self.commit(close, number_of_it, epoch, status="done"),
            lambda: self.commit(requeue, number_of_it, epoch, Requeue(status="queued", outcome="late")),
        ):
            try:
                late()
            except Refused as refused:
                assert refused.code == "stale_attempt"  # noqa: PT017
            else:
                raise AssertionError(f"epoch {epoch} of {work} still wrote")

    @precondition(lambda self: self.works("running"))
    @rule(number=picks)
    def preempt(self, number: int) -> None:
        """It was told to make room, and did."""
        work = self.pick(number, "running")
        if work is not None:
            self._park(work, Requeue(status="yielded", outcome="yielded", preempted=True))
            self.model.preempt(work)

    @precondition(lambda self: self.works(*LIVE))
    @rule(number=picks, delay_ms=st.sampled_from((0, 1000, 3000)))
    def crash(self, number: int, delay_ms: int) -> None:
        work = self.pick(number, *LIVE)
        if work is not None:
            until = self.model.now_ms + delay_ms
            parking = Requeue(
                status="queued",
                outcome="crash",
                cause="crash",
                charge="crash",
                not_before_ms=until,
                crash_jitter=JITTER,
            )
            self._park(work, parking)
            self.model.crash(work, until)

    @precondition(lambda self: self.works(*LIVE))
    @rule(number=picks, delay_ms=st.sampled_from((0, 10_000)))
    def wait(self, number: int, delay_ms: int) -> None:
        """It waits for an approval: until a time, or until somebody does something."""
        work = self.pick(number, *LIVE)
        if work is not None:
            until = self.model.now_ms + delay_ms if delay_ms else 0
            self._park(work, Requeue(status="waiting", outcome="waiting", waits_for="approval", not_before_ms=until))
            self.model.back(work, "waiting", until, "approval")

    def _park(self, work: Work, parking: Requeue) -> None:
        self.commit(requeue, instruction_id(work.number), work.epoch, parking)

    @precondition(lambda self: self.works(*LIVE))
    @rule(number=picks, status=st.sampled_from(("done", "done", "incomplete", "failed", "dead")))
    def end(self, number: int, status: str) -> None:
        work = self.pick(number, *LIVE)
        if work is not None:
            self.commit(close, instruction_id(work.number), work.epoch, status=status, text="that is all")  # type: ignore[arg-type]
            self.model.end(work, status)

    # -- people and time ---------------------------------------------------------------------------------

    @precondition(lambda self: self.now_and_then())
    @rule(number=picks)
    def cancel(self, number: int) -> None:
        """A person takes it back."""
        work = self.pick(number, "queued", "yielded", "waiting", *LIVE)
        if work is not None:
            self.commit(cancel, instruction_id(work.number))
            self.model.end(work, "cancelled")

    @precondition(lambda self: self.works("failed", "dead"))
    @rule(number=picks)
    def retry(self, number: int) -> None:
        """A person has it tried again."""
        work = self.pick(number, "failed", "dead")
        if work is not None:
            self.commit(steering.retry, instruction_id(work.number))
            self.model.retry(work)

    @precondition(lambda self: self.now_and_then())
    @rule(number=picks)
    def promote(self, number: int) -> None:
        """A person has it done first."""
        work = self.pick(number, "queued", "yielded", "waiting")
        if work is not None:
            self.commit(steering.promote, instruction_id(work.number))
            work.lane, work.promoted = 0, True

    @precondition(lambda self: self.now_and_then())
    @rule(agent=agents, deed=st.sampled_from(("pause", "resume", "reset")))
    def hold_agent(self, agent: str, deed: str) -> None:
        """A person keeps an agent from work, or lets it go on."""
        known = self.model.agents[agent]
        if deed == "reset":
            self.commit(steering.reset_agent, AgentKey(agent))
            self.model.agents[agent] = Agent()
            for work in self.model.works.values():
                if work.agent == agent and work.state in LANED:
                    work.not_before_ms = 0
        elif known.state != "error":
            self.commit(steering.pause_agent if deed == "pause" else steering.resume_agent, AgentKey(agent))
            known.state = "paused" if deed == "pause" else "active"

    @precondition(lambda self: self.now_and_then())
    @rule(paused=st.booleans())
    def pause_workflow(self, paused: bool) -> None:
        """A person keeps the whole team from work, or lets it go on."""
        if paused == self.model.paused:
            return
        self.commit(steering.pause_workflow if paused else steering.resume_workflow, SPACE)
        self.model.pause(paused=paused)

    @precondition(lambda self: self.now_and_then(17))
    @rule()
    def stop_and_start(self) -> None:
        """The workflow is stopped with all its work, and begins anew."""
        self.commit(stop_workflow, SPACE, "cancelled", 130, "asked to")
        self.model.stop()
        self.commit(append, team())

    @rule(seconds=st.sampled_from((1, 5, 60, 301)))
    def advance(self, seconds: int) -> None:
        """Time passes, and what it alone changes is done."""
        self.model.now_ms += seconds * 1000
        self.commit(apply_due, STARVATION_MS)
        self.model.tick()

    @precondition(lambda self: self.now_and_then())
    @rule()
    def restart(self) -> None:
        """The kernel dies, and the next one takes over."""
        self.commit(recover)
        self.model.restart()

    # -- what must hold ----------------------------------------------------------------------------------

    @invariant()
    def every_row_is_as_the_model_has_it(self) -> None:
        """P3: each instruction in exactly one state, by the same steps."""
        found = [tuple(row) for row in self.database.writer().execute(ROWS)]
        expected = [
            (
                one.number,
                one.agent,
                one.space,
                one.lane,
                one.state,
                one.waits_for,
                one.not_before_ms,
                one.epoch,
                one.entries,
                one.preempted,
                int(one.promoted),
            )
            for one in self.model.works.values()
        ]
        assert found == expected, f"found {set(found) - set(expected)}, expected {set(expected) - set(found)}"

    @invariant()
    def agents_are_held_back_as_the_model_has_it(self) -> None:
        """P13: by the restart policy and by people, and by nothing else."""
        found = {key: (state, resume) for key, state, resume in self.database.writer().execute(AGENTS)}
        expected = {name: (one.state, one.resume_at_ms) for name, one in self.model.agents.items()}
        assert found == expected, f"found {found}, expected {expected}"

    @precondition(lambda self: len(self.sent) % 4 == 0)  # often enough, for it reads everything twice
    @invariant()
    def whoever_is_only_counted_is_idle(self) -> None:
        """The status of thousands looks closer at those alone who do or wait for something."""
        conn, now_ms = self.database.writer(), self.model.now_ms
        every = ps(conn, now_ms)
        counted = summary(conn, now_ms)
        assert counted.states == Counter(one.shown.state for one in every)
        assert {one for one in every if one.shown.state != "idle"} <= set(counted.busy) <= set(every)

    @invariant()
    def each_agent_has_one_live_attempt_at_most(self) -> None:
        """P3: and each live instruction exactly one."""
        found = [tuple(row) for row in self.database.writer().execute(LIVE_ATTEMPTS)]
        assert found == [(one.number, one.epoch) for one in self.works(*LIVE)]
        held = [one.agent for one in self.works(*LIVE)]
        assert len(held) == len(set(held))

    @invariant()
    def what_is_ready_is_in_order(self) -> None:
        """P11: lanes, FIFO inside each, nobody passed over."""
        found = instructions.ready(self.database.writer(), self.model.now_ms, 10)
        assert [one.number for one in found] == self.model.ready()

    @invariant()
    def every_request_was_done_once(self) -> None:
        """P2."""
        conn = self.database.writer()
        for draft, _appended in self.sent.values():
            assert conn.execute(OF_KEY, (draft.text,)).fetchall() == [(1,)]

    @invariant()
    def deliveries_follow_their_work(self) -> None:
        """P1: nothing that woke somebody is lost or left open."""
        conn = self.database.writer()
        assert conn.execute(OPEN_DELIVERIES).fetchall() == [(0,)]
        assert conn.execute(LOST).fetchall() == [(0,)]


class FileMachine(StoreMachine):
    """In a file, which may be closed and opened again at any point."""

    def open(self) -> Database:
        self.folder = TemporaryDirectory()
        return open_migrated(str(Path(self.folder.name) / "store.db"))

    @rule()
    def reopen(self) -> None:
        """The process ends and another begins."""
        self.database.close()
        self.database = open_migrated(self.database.path)

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


def _request(key: str) -> RequestKey:
    return RequestKey("user", key, sha256(key.encode()).digest())


def team() -> Draft:
    """The start of the workflow both agents are in, with limits that no run of the machine reaches."""
    definition = b'{"name":"review","agents":{},"limits":{"hops":1000,"instructions":10000}}'
    members = (MemberSpec(name=one, key=AgentKey(one), origin="file") for one in NAMES)
    return started(*members, mode="start", definition=definition)
