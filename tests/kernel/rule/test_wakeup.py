"""A schedule that came: whom it wakes, and where."""

import msgspec
import pytest

from kernel.policy.rules import ActiveRule
from kernel.rule.draft import Draft, Fact, Payload, Wakes, WakeupDue
from kernel.rule.effects import Assign, InboxDelivery, LimitRun, WriteRow
from kernel.rule.evaluate import CORE_TABLE, evaluate
from protocol.names import AgentKey, AgentName
from protocol.rules import RuleSpec
from tests.kernel.rule.view_double import SPACE, ViewDouble, team


def come(view: ViewDouble, *, agent: str = "alice", home: str = "dm:alice", workspace: str | None = None) -> None:
    payload = WakeupDue(agent=AgentKey(agent), workspace=workspace)
    fact = Fact(Draft(kind="due", space=home, sender="system", text="@bob look around", payload=payload))
    evaluate(fact, CORE_TABLE, view, view)


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
    fact = Fact(Draft(kind="due", space=SPACE, sender="system", text="look", payload=payload))
    evaluate(fact, CORE_TABLE, view, view)
    assert any(fact.draft.text == "now" for fact, _ in view.recorded) is fires
