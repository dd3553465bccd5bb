"""proposal list, show, vote, cancel: what agents vote on, and a person's say in it."""

from typing import Any

import msgspec
import pytest

from protocol.api.runs import Accepted
from protocol.voting import BallotInfo, Option, ProposalList, Resolution, Vote, document
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble, Stream, problem, sse
from tests.interface.samples import AT, event, report

OPEN = BallotInfo(
    id="release", space="review:main", type="approval", title="Ship 1.2?", description="It is Friday.\nStill?",
    options=(Option(id="yes", label="Yes"), Option(id="no", label="not today")), binding=True, creator="alice",
    resolution=Resolution(type="majority", quorum=2, tie_breaker="first"), created_at=AT, expires_at=AT, state="open",
    electors=("alice", "bob", "carol"), missing=("carol",), counts={"yes": 1, "no": 1},
    votes=(Vote(voter="alice", choice="yes", at=AT), Vote(voter="bob", choice="no", reason="the tests", at=AT)),
)  # fmt: skip
WON = msgspec.structs.replace(OPEN, state="resolved", winner="no", why="quorum", ended_at=AT, missing=())
ELSEWHERE = msgspec.structs.replace(OPEN, space="deploy:pr-7")
HERE = "/spaces/review:main/proposals"


def listed(*ballots: BallotInfo) -> ProposalList:
    return ProposalList(proposals=ballots)


def test_what_is_put_to_the_vote_is_listed_as_it_can_be_named(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: proposal list, of all workflows what is open, of one all."""
    kernel.answers["GET /proposals"] = listed(OPEN, ELSEWHERE)
    first, second = cli("proposal", "list").out.splitlines()[1:]
    assert first.split() == ["release@review", "binding", "approval", "2/3", "open", "until", AT, "Ship", "1.2?"]
    assert second.split()[0] == "release@deploy:pr-7"
    kernel.answers[f"GET {HERE}"] = listed(WON)
    assert " 3/3    no won  Ship 1.2?\n" in cli("proposal", "list", "@review").out
    assert cli("proposal", "list", "--all", "--json").json()["schema"] == "awk/proposal-list/1"
    assert [asked.query.get("state") for asked in kernel.of("GET", "/proposals")] == ["open", None]
    kernel.answers["GET /proposals"] = listed()
    assert cli("proposal", "list").out == "no proposals\n"


def test_one_is_shown_with_its_votes_and_who_is_waited_for(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"GET {HERE}/release"] = document(OPEN)
    assert cli("proposal", "show", "release@review").out.splitlines() == [
        "release@review: Ship 1.2?",
        f"binding approval by alice, {AT}; more than half of the votes win, quorum 2 of 3, a tie: first",
        "It is Friday.",
        "Still?",
        "  yes: 1 vote",
        "  no: 1 vote (not today)",
        "  alice voted yes",
        "  bob voted no: the tests",
        f"open until {AT}; not yet: carol",
    ]
    kernel.answers[f"GET {HERE}/release"] = document(WON)
    assert cli("proposal", "show", "release@review").out.endswith(
        f"no won, {AT} (enough have voted; a tie: the first of them wins)\n"
    )
    shown = cli("proposal", "show", "release@review", "--json").json()
    assert (next(iter(shown)), shown["schema"], shown["winner"]) == ("schema", "awk/proposal/1", "no")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tied": ("yes", "no")}, "tied: alice chooses of yes, no; not yet: carol"),
        ({"state": "resolved", "ended_at": AT, "why": "settled"}, "no winner"),
        ({"state": "expired", "ended_at": AT, "why": "deadline"}, f"expired, {AT} (its time was up)"),
        (
            {"state": "cancelled", "ended_at": AT, "why": "cancelled", "ended_by": "user", "reason": "too late"},
            f"cancelled by user, {AT}: too late",
        ),
        ({"state": "resolved", "ended_at": AT, "why": "quorum", "assigned": {"docs": ("bob",)}}, "docs: bob"),
        ({"state": "expired", "ended_at": AT, "why": "deadline"}, "\ndid not vote: carol\n"),
        ({"state": "resolved", "winner": "no", "ended_at": AT, "why": "creator"}, "(its creator broke the tie)"),
        (
            {"state": "resolved", "winner": "no", "ended_at": AT, "why": "quorum", "counts": {"yes": 0, "no": 2}},
            "voted)",
        ),
        ({"type": "assignment"}, "each option gets those who choose it, quorum 2 of 3\n"),
    ],
)
def test_how_it_ended_is_said(changes: dict[str, Any], said: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"GET {HERE}/release"] = document(msgspec.structs.replace(OPEN, **changes))
    assert said in cli("proposal", "show", "release@review").out


@pytest.mark.parametrize("words", [["proposal", "show"], ["status"], ["clear"], ["approve"], []], ids=str)
@pytest.mark.parametrize("word", ["x" * 5000, f"@{'x' * 5000}", "x!" * 2500], ids=["name", "workflow", "no name"])
def test_a_wrong_name_is_not_said_again_in_full(words: list[str], word: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /proposals"] = listed(OPEN)
    ran = cli(*words, word)
    assert (ran.code != 0, len(ran.err) < 600) == (True, True)


def test_a_person_votes_and_calls_votes_off(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: proposal vote, cancel; one document with --json; a refusal is told as the kernel says it."""
    kernel.answers[f"POST {HERE}/release/vote"] = document(OPEN)
    kernel.answers[f"POST {HERE}/release/cancel"] = problem(409, "conflict", "release has ended")
    ran = cli("proposal", "vote", "release@review", "yes", "--reason", "tested")
    assert (ran.code, ran.out) == (0, f"release@review: you voted yes; open until {AT}\n")
    assert cli("proposal", "vote", "release@review", "yes", "--json").json()["state"] == "open"
    first, _ = kernel.of("POST", f"{HERE}/release/vote")
    assert (first.body, "idempotency-key" in first.headers) == ({"choice": "yes", "reason": "tested"}, True)
    ran = cli("proposal", "cancel", "release@review")
    assert (ran.code, ran.err) == (1, "error: release has ended\n")
    kernel.answers[f"POST {HERE}/release/cancel"] = document(
        msgspec.structs.replace(OPEN, state="cancelled", ended_at=AT)
    )
    assert cli("proposal", "cancel", "release@review").out == "release@review: cancelled\n"


def test_an_id_alone_is_enough_where_it_says_which(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /proposals"] = listed(msgspec.structs.replace(ELSEWHERE, state="expired"), OPEN)
    kernel.answers[f"GET {HERE}/release"] = document(OPEN)
    assert cli("proposal", "show", "release").code == 0
    slip = cli("proposal", "show", "relaese")
    assert (slip.code, "did you mean release@deploy:pr-7?" in slip.err) == (5, True)
    kernel.answers["GET /proposals"] = listed(ELSEWHERE, OPEN)
    both = cli("proposal", "vote", "release", "yes")
    assert (both.code, "name one: release@deploy:pr-7, release@review" in both.err) == (2, True)
    assert [asked for asked in kernel.asked if asked.method == "POST"] == []


def test_whoever_watches_a_run_is_told_how_to_vote(cli: Cli, kernel: KernelDouble) -> None:
    """On standard error, and only where somebody is there to do it; exit 8 is the report's."""
    opened = event("proposal.opened", 5, space="review:pr-7", data={"id": "release", "type": "approval"})
    accepted = sse("accepted", Accepted(run="review:pr-7", seq=4))
    result = sse("result", report(status="rejected", exit_code=8, verdict="no"))
    kernel.answers["POST /run"] = Stream([accepted, sse("proposal.opened", opened, 5), result])
    ran = cli("run", "review", terminal=True)
    assert (ran.code, "you may vote too: awk proposal vote release@review:pr-7 CHOICE\n" in ran.err) == (8, True)
    assert "review:main" in ran.err
    assert "; verdict no; " in ran.err
    alone = cli("run", "review", "--json")
    assert (alone.code, "vote too" in alone.err, alone.json()["verdict"]) == (8, False, "no")


def test_a_document_by_itself_has_all_that_a_row_has() -> None:
    told = msgspec.to_builtins(document(WON))
    assert told == {"schema": "awk/proposal/1", **msgspec.to_builtins(WON)}
    assert msgspec.json.encode(document(WON)).startswith(b'{"schema":"awk/proposal/1","id":')
