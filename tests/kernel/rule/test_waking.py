"""Who is woken, and where: by a question and its answer, a schedule, a vote."""

from typing import Any, Final

import msgspec
import pytest

from kernel.policy.rules import ActiveRule
from kernel.policy.voting import ProposalOpened, with_defaults
from kernel.rule.draft import Draft, InstructionOutcome, Payload, ProposalEnded, Wakes, WakeupDue
from kernel.rule.effects import Assign, InboxDelivery, LimitRun, OpenProposal, WriteRow
from protocol.errors import Refused
from protocol.message import MessageKind
from protocol.names import AgentKey, AgentName, InstructionId
from protocol.rules import RuleSpec
from protocol.voting import BallotType, Option, ProposalTerms
from tests.kernel.refusals import refused
from tests.kernel.rule.view_double import SPACE, ViewDouble, team


def asked(view: ViewDouble, name: str, *, space: str = SPACE, hops: int = 1) -> ViewDouble:
    """Alice, at work on instruction 1, asks ``name``."""
    text, speaker = "what does @carol think?", AgentKey(view.members.get("alice", "alice"))
    draft = Draft(kind="said", space=space, sender="alice", text=text, to=(name,), mentions=(), asks=True)
    return view.hear(draft, hops=hops, cause=1, speaker=speaker)


def test_a_question_is_urgent_work_for_the_one_it_is_for_and_for_nobody_else() -> None:
    """contracts 5: an instruction in lane immediate; a name in it wakes nobody."""
    view = asked(ViewDouble(team("alice", "bob", "carol")), "Bob")
    [(_, effects)] = view.recorded
    assert [one for one in effects if isinstance(one, Assign)] == [
        Assign(AgentKey("bob@review:main"), "bob", "immediate", 1, joins=False, asked_by=1)  # type: ignore[arg-type]
    ]


def test_only_members_of_the_workspace_can_be_asked() -> None:
    """contracts 5: agents do not send to each other's personal spaces."""
    error = refused(asked, ViewDouble(team("alice", "bob")), "zoe")
    with pytest.raises(Refused) as personal:
        asked(ViewDouble(), "bob", space="dm:alice")
    assert (error.code, personal.value.code) == ("not_a_participant", "not_a_participant")
    assert "in a workspace" in str(personal.value.hint)


def test_nobody_asks_itself_under_whatever_name() -> None:
    for name in ("alice", "critic"):
        assert refused(asked, ViewDouble({"alice": "alice", "critic": "alice"}), name).code == "conflict"


def test_who_waits_for_the_asker_is_not_asked() -> None:
    view = ViewDouble(team("alice", "bob", "carol"), asking=("carol@review:main", "bob@review:main"))
    for name in ("carol", "bob"):
        error = refused(asked, view, name)
        assert error.code == "conflict" and error.hint
    assert view.recorded == []
    view.asking = ("carol@review:main",)
    assert asked(view, "bob").woken() == [("bob@review:main", "immediate")]


@pytest.mark.promise("P27")
def test_a_question_over_the_hop_limit_waits_like_any_work() -> None:
    assert asked(ViewDouble(team("alice", "bob"), hops=3), "bob", hops=4).held_back() == [("bob@review:main", "hops")]


def test_an_answer_does_not_wake_who_has_it_anyway() -> None:
    view = ViewDouble(team("alice", "bob", "carol"), asking=("alice@review:main", "carol@review:main"))
    outcome = InstructionOutcome(instruction=InstructionId("i2"), status="done", text="@alice @carol it is 42")
    draft = Draft(kind="done", space=SPACE, sender="bob", payload=outcome)
    view.hear(draft, hops=2, cause=2, speaker=AgentKey("bob@review:main"))
    assert view.woken() == [("carol@review:main", "immediate")]


def come(view: ViewDouble, *, agent: str = "alice", home: str = "dm:alice", workspace: str | None = None) -> None:
    payload = WakeupDue(agent=AgentKey(agent), workspace=workspace)
    view.hear(Draft(kind="due", space=home, sender="system", text="@bob look around", payload=payload))


def places(view: ViewDouble) -> list[tuple[str, str, str]]:
    """Where who was given work, under which name."""
    return [
        (fact.draft.space, one.agent, one.name)
        for fact, effects in view.recorded
        for one in effects
        if isinstance(one, Assign)
    ]


def test_it_wakes_its_agent_alone_in_the_background() -> None:
    view = ViewDouble(members=team("bob"))
    come(view)
    [(fact, effects)] = view.recorded
    assert (fact.draft.space, fact.hops) == ("dm:alice", 0)
    alice, name = AgentKey("alice"), AgentName("alice")
    assert effects == (Assign(alice, name, "background", 0), InboxDelivery(alice, name))


def test_it_wakes_in_the_workspace_it_names_if_that_runs_with_its_agent() -> None:
    """contracts 1: schedule. No tag: any that runs."""
    for wanted in ("review", "review:main"):
        view = ViewDouble(members={"critic": "alice"})
        come(view, workspace=wanted)
        assert places(view) == [(SPACE, "alice", "critic")]


def test_it_wakes_at_home_where_the_workspace_does_not_run_or_is_not_its_own() -> None:
    """contracts 1: a workspace that does not run -> personal."""
    member = {"critic": "alice"}
    for view, wanted in (
        (ViewDouble(members=member, runs=False), "review"),
        (ViewDouble(members=member), "review:other"),
        (ViewDouble(members=member), "deploy"),
        (ViewDouble(members=team("bob")), "review"),
    ):
        come(view, workspace=wanted)
        assert places(view) == [("dm:alice", "alice", "alice")]


def test_the_schedule_of_a_workflow_wakes_in_its_workspace_and_nowhere_else() -> None:
    view = ViewDouble(members=team("helper"))
    come(view, agent=f"helper@{SPACE}", home=SPACE)
    assert places(view) == [(SPACE, f"helper@{SPACE}", "helper")]
    stopped = ViewDouble(members=team("helper"), runs=False)
    come(stopped, agent=f"helper@{SPACE}", home=SPACE)
    assert places(stopped) == []


@pytest.mark.promise("P13")
def test_a_workspace_that_a_limit_holds_is_left_alone_and_told_once() -> None:
    view = ViewDouble(members=team("helper"), instructions=3, assigned=3)
    come(view, agent=f"helper@{SPACE}", home=SPACE)
    (_, effects), (notice, _) = view.recorded
    assert effects == (WriteRow(LimitRun(space=SPACE, by="instructions")),)
    assert (notice.draft.kind, notice.draft.sender) == ("system", "system")
    assert "awk continue @review:main" in notice.draft.text
    told = ViewDouble(members=team("helper"), instructions=3, assigned=3, limited=True)
    come(told, agent=f"helper@{SPACE}", home=SPACE)
    assert [effects for _, effects in told.recorded] == [()]


def test_an_agent_that_is_gone_is_not_woken() -> None:
    view = ViewDouble(agents=frozenset())
    come(view)
    assert places(view) == []


@pytest.mark.parametrize(
    ("payload", "fires"),
    [(WakeupDue(agent=AgentKey("alice")), True), (Wakes(agent=AgentKey("alice"), name="a"), False)],
)
def test_a_rule_about_schedules_is_set_off_by_a_schedule_alone(payload: Payload, *, fires: bool) -> None:
    spec = msgspec.convert({"name": "late", "when": {"due": {}}, "then": [{"say": "now"}]}, RuleSpec)
    rule = ActiveRule(number=1, version=1, author="user", author_key=None, scopes=frozenset(), fired=0, spec=spec)
    view = ViewDouble(members=team("alice"), active=(rule,))
    view.hear(Draft(kind="due", space=SPACE, sender="system", text="look", payload=payload))
    assert any(fact.draft.text == "now" for fact, _ in view.recorded) is fires


NAMES: Final = ("alice", "bob", "carol")
AB: Final = (Option(id="a", label="Apples"), Option(id="b", label=""))
ALICE: Final = Wakes(agent=AgentKey(f"alice@{SPACE}"), name="alice")


def view(**more: Any) -> ViewDouble:
    return ViewDouble(members=team(*NAMES), **more)


def said(
    where: ViewDouble, kind: MessageKind, payload: Payload, sender: str = "alice", space: str = SPACE
) -> ViewDouble:
    """One message, and all that follows from it."""
    speaks = {"cause": 7, "speaker": AgentKey(f"{sender}@{SPACE}")} if sender in NAMES else {}
    return where.hear(Draft(kind=kind, space=space, sender=sender, payload=payload), hops=2, **speaks)


def rows(where: ViewDouble) -> list[Any]:
    return [one.row for _, effects in where.recorded for one in effects if isinstance(one, WriteRow)]


def opened(type: BallotType = "decision", options: tuple[Option, ...] = AB, **more: Any) -> ProposalOpened:
    asked = ProposalTerms(type=type, title="Which?", options=options, **more)
    return with_defaults(asked, asked.id or "p1", NAMES, 0)


def test_everybody_but_its_creator_is_woken_as_by_a_mention() -> None:
    where = said(view(), "proposal", opened())
    assert where.woken() == [(f"bob@{SPACE}", "immediate"), (f"carol@{SPACE}", "immediate")]
    (row,) = rows(where)
    assert isinstance(row, OpenProposal)
    assert (row.creator, row.creator_key, row.hops) == ("alice", f"alice@{SPACE}", 2)
    assert row.electors == NAMES


def test_what_a_person_puts_to_the_vote_wakes_all() -> None:
    assert len(said(view(), "proposal", opened(), "user").woken()) == 3


@pytest.mark.parametrize(
    ("where", "space", "code"),
    [
        (view(), "dm:alice", "not_a_participant"),
        (view(runs=False), SPACE, "workflow_not_running"),
        (view(has_channel=False), SPACE, "not_a_participant"),
        (view(ballots=("p1",)), SPACE, "already_exists"),
        (view(open=16), SPACE, "conflict"),
    ],
)
def test_where_nobody_can_vote_nothing_is_put_to_the_vote(where: ViewDouble, space: str, code: str) -> None:
    error = refused(said, where, "proposal", opened(), "user", space)
    assert (error.code, bool(error.hint)) == (code, True)


@pytest.mark.parametrize("payload", [ALICE, ProposalEnded(name="p1", winner="a", wakes=ALICE)])
def test_its_creator_is_woken_as_by_a_mention(payload: Payload) -> None:
    """contracts 5: the creator learns the result."""
    where = said(view(), "resolved", payload, "system")
    assert where.woken() == [(f"alice@{SPACE}", "immediate")]


@pytest.mark.promise("P27")
def test_a_limit_holds_back_who_would_be_woken_by_the_end() -> None:
    where = said(view(assigned=1000), "resolved", ALICE, "system")
    assert (where.woken(), where.held_back()) == ([], [(f"alice@{SPACE}", "hops")])


def test_a_result_that_its_creator_has_seen_wakes_nobody() -> None:
    assert said(view(), "resolved", ProposalEnded(name="p1", winner="a", wakes=None)).woken() == []
    assert said(view(runs=False), "resolved", ALICE, "system").woken() == []
