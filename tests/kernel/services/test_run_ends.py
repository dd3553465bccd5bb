"""Runs that a vote decides over, on a real store: how they end, and that they wait for it."""

from collections.abc import AsyncGenerator
from typing import Any, Final, Literal

import msgspec
import pytest

from kernel.operations.runs import OneRun, show
from kernel.rule.draft import Author, Draft
from kernel.services.runs import LONGEST_NAP_SECONDS
from kernel.store import feed
from kernel.store.transitions.append import append
from kernel.store.transitions.clear import clear
from kernel.store.transitions.close import close
from kernel.store.transitions.due import apply_due
from kernel.store.transitions.lease import lease
from kernel.store.transitions.voting import cancel_proposal, create, vote
from protocol.api.runs import RunOptions, RunReport
from protocol.errors import Refused
from protocol.names import instruction_id
from protocol.voting import Option, ProposalTerms, Resolution
from protocol.workflow import VerdictTerms, WorkflowDefinition
from tests.kernel.services.budget_kernel import alive
from tests.kernel.services.test_runs import NOW_MS, Scene
from tests.kernel.store.running_store import started
from tests.shorthand import present

HERE = "review:main"
BARE: dict[str, Any] = {"type": "approval", "title": "Ship it?", "id": "release", "binding": True}
ASKED: dict[str, Any] = {**BARE, "timeout_seconds": 60}
MINUTE: Final = VerdictTerms(id="release", timeout=60.0)
OTHER: dict[str, Any] = {"id": "relaese", "binding": False}
Step = tuple[Literal["ask", "yes", "no", "user", "cancel", "late", "forge"], dict[str, Any]]
Ends = Literal["done", "incomplete", "failed"]
ASK: Step = ("ask", {})
YES: Step = ("yes", {})
NO: Step = ("no", {})


class Vote:
    """A workflow with one agent, whose exit code is a vote's. The agent is given work by every ballot."""

    def __init__(self, on: Scene) -> None:
        self.on = on
        self._leased = 0

    async def start(
        self,
        mode: Literal["run", "start"] = "run",
        deadline_ms: int | None = None,
        *,
        attended: bool = False,
        verdict: str | VerdictTerms = MINUTE,
        members: tuple[str, ...] = ("alice",),
    ) -> None:
        definition = WorkflowDefinition(name="review", agents={}, verdict=verdict)
        options, known = RunOptions(attended=attended), msgspec.json.encode(definition)
        draft = started(*members, mode=mode, definition=known, deadline_ms=deadline_ms, options=options)
        await self.on.writer.commit(append, draft)

    async def step(self, step: Step) -> None:
        """Somebody does something; ``yes`` and ``no`` are alice's, whose work that is."""
        what, more = step
        commit = self.on.writer.commit
        match what:
            case "ask":
                await commit(create, HERE, ProposalTerms(**{**ASKED, **more}))
            case "user":
                await commit(vote, HERE, "release", more["choice"])
            case "cancel":
                await commit(cancel_proposal, HERE, "release")
            case "forge":
                await commit(lambda tx: tx.conn.execute(f"UPDATE ballots SET {more['column']}"))
            case "late":
                self.on.now_ms += 60_000
                await commit(apply_due, 3_600_000)
            case choice:
                await self.work(choice, more.get("ends", "done"))

    async def work(self, choice: str | None, ends: Ends = "done") -> None:
        """Alice does what she was given: she votes, and ends as she ends."""
        self._leased += 1
        name = instruction_id(self._leased)
        assert await self.on.writer.commit(lease, name, name.encode()) is not None
        if choice is not None:
            await self.on.writer.commit(vote, HERE, "release", choice, author=Author(name, 1))
        await self.on.writer.commit(close, name, 1, status=ends, cause=None if ends == "done" else "invalid")

    async def by_alice(self) -> None:
        """Alice, who was given something to do, puts it to the vote, and is still at work."""
        await self.on.writer.commit(append, Draft(kind="said", space=HERE, sender="user", text="ask", to=("alice",)))
        name = instruction_id(1)
        assert await self.on.writer.commit(lease, name, name.encode()) is not None
        await self.on.writer.commit(create, HERE, ProposalTerms(**ASKED), author=Author(name, 1))

    def report(self) -> RunReport:
        return self.on.reader.now(show, OneRun(run=HERE), self.on.now_ms)


@pytest.fixture
async def it() -> AsyncGenerator[Vote]:
    async with alive(Scene()) as on:
        yield Vote(on)


@pytest.mark.parametrize(
    ("steps", "status", "exit_code", "verdict", "why"),
    [
        ([ASK, YES], "done", 0, "yes", "and the verdict (release) is yes"),
        ([ASK, NO], "rejected", 8, "no", "the verdict (release) is no"),
        ([ASK, ("user", {"choice": "no"}), YES], "incomplete", 6, None, "no verdict: release had no winner"),
        ([], "incomplete", 6, None, "no verdict: proposal release was never created"),
        ([("ask", OTHER), ("late", {}), ("yes", {"votes": False})], "incomplete", 6, None, "was never created"),
        ([ASK, ("forge", {"column": "binding = 0"}), YES], "incomplete", 6, None, "release is not binding"),
        (
            [ASK, ("forge", {"column": "type = 'decision'"}), YES],
            "incomplete", 6, None, "release is not an approval but has type decision",
        ),
        ([ASK, ("cancel", {}), ("yes", {"votes": False})], "incomplete", 6, None, "release was cancelled"),
        ([ASK, ("yes", {"votes": False}), ("late", {})], "incomplete", 6, None, "had no winner at its deadline"),
        ([ASK, ("user", {"choice": "no"}), ("yes", {"votes": False}), ("late", {})], "incomplete", 6, None, "no win"),
        ([ASK, ("no", {"ends": "failed"})], "failed", 1, "no", "1 instruction failed"),
        ([ASK, ("no", {"ends": "incomplete"})], "rejected", 8, "no", "is no"),
        ([ASK, ("yes", {"ends": "incomplete"})], "incomplete", 6, "yes", "1 instruction ended incomplete"),
    ],
)  # fmt: skip
async def test_a_vote_decides_how_a_run_ends_and_only_a_yes_is_a_success(
    it: Vote, steps: list[Step], status: str, exit_code: int, verdict: str | None, why: str
) -> None:
    """contracts 1 and 7: verdict, exit 8; whatever else became of the vote, it fails closed."""
    await it.start()
    for what, more in steps:
        if more.get("votes") is False:
            await it.work(None)
        else:
            await it.step((what, more))
    await it.on.runs.run_once()
    report = it.report()
    assert (report.status, report.exit_code, report.verdict) == (status, exit_code, verdict)
    assert why in report.messages[-1].text


@pytest.mark.parametrize(
    "terms", [{"binding": False}, {"type": "decision", "options": (Option(id="yes"), Option(id="no"))}]
)
async def test_what_could_not_decide_does_not_use_up_the_id_of_the_verdict(it: Vote, terms: dict[str, Any]) -> None:
    await it.start()
    with pytest.raises(Refused, match="must be a binding approval"):
        await it.step(("ask", terms))
    await it.step(ASK)


TEAM = ("alice", "bob", "carol")
LONG = VerdictTerms(
    id="release", electors=("bob", "carol"), type="majority", quorum=2, timeout=120.0, tie_breaker="creator-decides"
)


async def by(it: Vote, name: str) -> Author:
    draft = Draft(kind="said", space=HERE, sender="user", text="go", to=(name,))
    (instruction,) = (await it.on.writer.commit(append, draft)).instruction_ids
    return Author(instruction, present(await it.on.writer.commit(lease, instruction, instruction.encode())).epoch)


@pytest.mark.parametrize(
    ("verdict", "terms", "named"),
    [
        ("release", {"resolution": Resolution(quorum=1)}, "quorum"),
        ("release", {"resolution": Resolution(quorum=2, tie_breaker="creator-decides")}, "quorum, tie_breaker"),
        ("release", {"resolution": Resolution(type="unanimous")}, "type"),
        (LONG, {"resolution": Resolution(quorum=1)}, "quorum"),
        (LONG, {"resolution": Resolution(tie_breaker="first")}, "tie_breaker"),
        (LONG, {"timeout_seconds": 1}, "timeout_seconds"),
    ],
)
async def test_who_asks_cannot_change_the_terms_of_the_verdict(
    it: Vote, verdict: str | VerdictTerms, terms: dict[str, Any], named: str
) -> None:
    await it.start(verdict=verdict, members=TEAM)
    alice = await by(it, "alice")
    with pytest.raises(Refused, match=f"are fixed by the workflow file: {named} cannot be changed"):
        await it.on.writer.commit(create, HERE, ProposalTerms(**{**BARE, **terms}), author=alice)
    put = await it.on.writer.commit(create, HERE, ProposalTerms(**BARE), author=alice)
    assert put.ballot.id == "release"


async def test_one_member_and_the_end_of_its_time_make_no_verdict(it: Vote) -> None:
    await it.start(verdict="release", members=TEAM)
    alice = await by(it, "alice")
    with pytest.raises(Refused, match="timeout_seconds cannot be changed"):
        await it.on.writer.commit(create, HERE, ProposalTerms(**BARE, timeout_seconds=1), author=alice)
    await it.on.writer.commit(create, HERE, ProposalTerms(**BARE), author=alice)
    await it.on.writer.commit(vote, HERE, "release", "yes", author=alice)
    it.on.now_ms += 600_000
    await it.on.writer.commit(apply_due, 3_600_000)
    assert it.report().verdict is None
    assert any(one.text.startswith("[EXPIRED:release]") for one in it.report().messages)


async def test_the_file_says_who_votes_how_long_and_what_breaks_a_tie(it: Vote) -> None:
    await it.start(verdict=LONG, members=TEAM)
    alice, bob, carol = [await by(it, name) for name in TEAM]
    same = Resolution(type="majority", quorum=2, tie_breaker="creator-decides")
    asked = ProposalTerms(**BARE, resolution=same, timeout_seconds=120)
    put = await it.on.writer.commit(create, HERE, asked, author=bob)
    assert (put.ballot.electors, put.ballot.resolution, len(put.instruction_ids)) == (("bob", "carol"), same, 1)
    with pytest.raises(Refused, match="'alice' is not an elector of proposal 'release'") as refused:
        await it.on.writer.commit(vote, HERE, "release", "yes", author=alice)
    assert refused.value.hint == "electors: bob, carol"
    await it.on.writer.commit(vote, HERE, "release", "no", author=carol)
    await it.on.writer.commit(vote, HERE, "release", "yes", author=bob)
    assert it.report().verdict is None
    await it.on.writer.commit(vote, HERE, "release", "no", author=bob)
    assert it.report().verdict == "no"


@pytest.mark.parametrize("kind", ["assignment", "decision", "approval"])
async def test_what_nothing_relies_on_cannot_be_binding(it: Vote, kind: Any) -> None:
    await it.start(members=TEAM)
    options = () if kind == "approval" else (Option(id="a"), Option(id="b"))
    asked = ProposalTerms(type=kind, title="x", options=options, binding=True)
    with pytest.raises(Refused, match=f"this {kind} has no effect") as refused:
        await it.on.writer.commit(create, HERE, asked)
    assert "these are binding: the approval release decides this workflow" in str(refused.value.hint)
    await it.on.writer.commit(create, HERE, msgspec.structs.replace(asked, binding=False))


@pytest.mark.promise("P26")
async def test_a_run_waits_for_an_open_vote_and_no_longer_than_that(it: Vote) -> None:
    await it.start()
    await it.step(ASK)
    await it.work(None)
    assert await it.on.runs.run_once() == 60.0
    it.on.now_ms += 60_000
    assert await it.on.runs.run_once() == LONGEST_NAP_SECONDS
    assert it.report().status == "running"
    await it.on.writer.commit(apply_due, 3_600_000)
    await it.on.runs.run_once()
    assert (it.report().status, it.report().exit_code) == ("incomplete", 6)


@pytest.mark.promise("P26")
async def test_a_vote_that_may_last_longer_than_its_run_is_waited_for_until_the_time_is_up(it: Vote) -> None:
    """Exit 124: any vote may end it before; a stop leaves nothing open."""
    await it.start(deadline_ms=NOW_MS + 30_000)
    await it.step(ASK)
    await it.work(None)
    assert await it.on.runs.run_once() == 30.0
    assert it.report().status == "running"
    it.on.now_ms += 30_000
    await it.on.runs.run_once()
    report = it.report()
    assert (report.status, report.exit_code, report.verdict) == ("timeout", 124, None)
    assert "the deadline passed" in report.messages[-2].text
    assert "[RESOLVED:release]" in report.messages[-1].text


SPENT = "UPDATE workflows SET assigned = instructions_limit, limited = 1, limited_by = 'instructions'"
FAR = "UPDATE workflows SET hops_limit = 0, limited = 1, limited_by = 'hops'"
MONEY = "UPDATE workflows SET budget_usd = 1, spent_usd = 2, limited = 1, limited_by = 'budget'"
ERROR = "UPDATE agents SET state = 'error'"


@pytest.mark.promise("P26")
@pytest.mark.parametrize(
    ("fault", "attended", "status", "exit_code"),
    [
        (SPENT, True, "incomplete", 6),
        (FAR, True, "incomplete", 6),
        (MONEY, True, "incomplete", 6),
        (ERROR, False, "failed", 1),
        (ERROR, True, "running", 0),
    ],
)
async def test_a_vote_does_not_keep_a_run_that_cannot_go_on(
    it: Vote, fault: str, attended: bool, status: str, exit_code: int
) -> None:
    await it.start(attended=attended)
    await it.by_alice()
    await it.on.writer.commit(close, instruction_id(1), 1, status="done")
    if fault == ERROR:
        await it.on.writer.commit(append, Draft(kind="said", space=HERE, sender="user", text="so?", to=("alice",)))
    await it.on.writer.commit(lambda tx: tx.conn.execute(fault))
    await it.on.runs.run_once()
    report = it.report()
    assert (report.status, report.exit_code, report.verdict) == (status, exit_code, None)


@pytest.mark.promise("P27")
async def test_what_a_vote_comes_to_gives_no_work_that_a_limit_would_keep_undone(it: Vote) -> None:
    await it.start()
    await it.by_alice()
    await it.on.writer.commit(lambda tx: tx.conn.execute("UPDATE workflows SET hops_limit = 1"))
    await it.on.writer.commit(close, instruction_id(1), 1, status="done")
    assert await it.on.runs.run_once() == 60.0
    await it.step(("late", {}))
    await it.on.runs.run_once()
    report = it.report()
    assert (report.status, report.exit_code) == ("incomplete", 6)
    assert sum(report.instructions.values()) == 1
    assert [one.kind for one in report.messages[-3:]] == ["resolved", "system", "status"]


def ended(it: Vote) -> list[str]:
    """What became of each vote, in order."""
    told = it.on.reader.now(feed.since, 0, 100)
    return [one.data["state"] for one in told if one.type == "proposal.ended"]


@pytest.mark.promise("P24")
async def test_what_is_due_when_its_run_ends_wakes_nobody(it: Vote) -> None:
    await it.start(deadline_ms=NOW_MS + 90_000)
    await it.by_alice()
    await it.step(("user", {"choice": "no"}))
    await it.on.writer.commit(close, instruction_id(1), 1, status="done")
    it.on.now_ms += 100_000
    await it.on.runs.run_once()
    report = it.report()
    assert (report.exit_code, report.verdict, sum(report.instructions.values())) == (124, None, 1)
    assert ended(it) == ["expired"]


@pytest.mark.promise("P24", "P26")
async def test_a_vote_whose_time_was_up_before_its_runs_has_expired_though_no_kernel_ran(it: Vote) -> None:
    await it.start(deadline_ms=NOW_MS + 90_000)
    await it.step(ASK)
    await it.step(("user", {"choice": "no"}))
    await it.work(None)
    it.on.now_ms += 100_000
    await it.on.runs.run_once()
    assert (it.report().status, it.report().exit_code, it.report().verdict) == ("timeout", 124, None)
    assert ended(it) == ["expired"]


@pytest.mark.promise("P24")
@pytest.mark.parametrize("way", ["cancel", "clear"])
async def test_what_ended_by_its_deadline_is_not_called_off_afterwards(it: Vote, way: str) -> None:
    await it.start()
    await it.step(ASK)
    await it.step(("user", {"choice": "no"}))
    await it.work(None)
    it.on.now_ms += 60_000
    if way == "cancel":
        with pytest.raises(Refused, match="has ended: expired"):
            await it.step(("cancel", {}))
    else:
        await it.on.writer.commit(clear, HERE)
        assert ended(it) == ["expired"]


@pytest.mark.parametrize(("step", "exit_code", "verdict"), [(YES, 0, "yes"), (NO, 8, "no")])
async def test_what_was_decided_outlives_what_was_said(it: Vote, step: Step, exit_code: int, verdict: str) -> None:
    await it.start()
    await it.step(ASK)
    await it.step(step)
    await it.on.runs.run_once()
    await it.on.writer.commit(clear, HERE)
    assert (it.report().exit_code, it.report().verdict) == (exit_code, verdict)


async def test_a_workflow_that_was_started_says_what_was_decided_and_goes_on(it: Vote) -> None:
    await it.start("start")
    await it.step(ASK)
    assert it.report().verdict is None
    await it.step(NO)
    await it.on.runs.run_once()
    assert (it.report().status, it.report().verdict) == ("running", "no")


async def test_each_run_of_a_name_votes_anew(it: Vote) -> None:
    for choice in ("yes", "no"):
        await it.start()
        assert it.report().verdict is None
        await it.step(ASK)
        await it.step((choice, {}))
        await it.on.runs.run_once()
        assert it.report().verdict == choice
