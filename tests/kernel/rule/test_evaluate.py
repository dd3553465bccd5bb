"""Evaluation: breadth first, bounded, all or nothing."""

import msgspec
import pytest

from kernel.rule.draft import Draft, Fact, InstructionOutcome, MemberSpec, RunSpec
from kernel.rule.effects import Append, Effect, Rule, RuleView, WriteRow
from kernel.rule.evaluate import CORE, CORE_TABLE, MAX_DEPTH, EvaluationOverrun, by_kind, evaluate
from protocol.errors import Refused
from protocol.instruction import Status
from protocol.message import MessageKind
from protocol.names import AgentKey, InstructionId
from tests.kernel.refusals import refused
from tests.kernel.rule.view_double import SPACE, ViewDouble, team


def ended(status: Status, text: str = "") -> ViewDouble:
    view = ViewDouble(team("alice", "bob"))
    outcome = InstructionOutcome(
        instruction=InstructionId("i7"), status=status, text=text, cause="auth", error_class="permanent"
    )
    kind: MessageKind = "done" if status in ("done", "incomplete") else "failed"
    draft = Draft(kind=kind, space=SPACE, sender="alice", payload=outcome)
    return view.hear(draft, hops=3, cause=7, speaker=AgentKey("alice@review:main"))


def test_what_an_agent_says_at_the_end_is_its_reply_and_is_routed() -> None:
    view = ended("done", "@bob your turn")
    assert [(fact.draft.kind, fact.draft.sender, fact.hops, fact.cause) for fact, _ in view.recorded] == [
        ("done", "alice", 3, 7),
        ("reply", "alice", 3, 7),
    ]
    assert view.woken() == [("bob@review:main", "immediate")]


def test_an_empty_result_is_no_reply() -> None:
    """contracts 1: none means empty reply."""
    assert [fact.draft.kind for fact, _ in ended("done", "  ").recorded] == ["done"]


@pytest.mark.parametrize("status", ["failed", "dead", "incomplete"])
def test_a_failure_is_announced_by_the_system(status: Status) -> None:
    """Class, cause and id, never the agent's words."""
    view = ended(status, "secret plan @bob" if status != "incomplete" else "")
    notice, _ = view.recorded[-1]
    assert (notice.draft.kind, notice.draft.sender) == ("system", "system")
    assert all(part in notice.draft.text for part in ("i7", "alice", "permanent", "auth"))
    assert "secret" not in notice.draft.text
    assert view.woken() == []


def test_a_cancelled_instruction_is_not_announced() -> None:
    assert [fact.draft.kind for fact, _ in ended("cancelled").recorded] == ["failed"]


def started(**changes: object) -> Fact:
    payload = RunSpec(
        name="review",
        tag="main",
        mode="run",
        file="flow.yaml",
        definition=msgspec.json.encode({"name": "review", "agents": {}, "limits": {"hops": 5}}),
        members=(MemberSpec(name="alice", key=AgentKey("alice@review:main"), origin="inline"),),
        kickoff="@alice go",
    )
    return Fact(Draft(kind="status", space=SPACE, sender="system", payload=msgspec.structs.replace(payload, **changes)))


def test_a_workflow_starts_with_its_members_before_its_kickoff() -> None:
    view = ViewDouble(runs=False)
    with pytest.raises(Refused, match="not running"):
        # The stage does not apply rows, so the kickoff that follows still finds nothing running.
        evaluate(started(), CORE_TABLE, view, view)
    (fact, puts), *_ = view.recorded
    assert fact.draft.kind == "status"
    assert [type(one.row).__name__ for one in puts if isinstance(one, WriteRow)] == ["StartRun", "SetMembers"]


def test_a_workflow_that_runs_is_not_started_again() -> None:
    """contracts 7: exit 2 with a hint."""
    error = refused(evaluate, started(), CORE_TABLE, ViewDouble(), ViewDouble())
    assert (error.code, error.hint) == ("already_running", "stop it first: awk stop @review:main")


def test_proposals_that_answer_each_other_for_ever_are_stopped() -> None:
    """Bounded (256 messages, depth 16)."""

    def echo(fact: Fact, _view: RuleView) -> tuple[Effect, ...]:
        return (Append(Draft(kind="system", space=fact.draft.space, sender="system", text=fact.draft.text)),)

    table = by_kind([Rule("echo", frozenset({"system"}), echo)])
    view = ViewDouble()
    with pytest.raises(EvaluationOverrun):
        evaluate(Fact(Draft(kind="system", space=SPACE, sender="system")), table, view, view)
    assert len(view.recorded) == MAX_DEPTH + 1


def test_proposals_are_asked_in_the_order_of_the_table() -> None:
    assert [one.name for one in CORE] == [
        "workflow", "routing", "reply", "failure", "wakeup", "ballot", "document", "rules",
    ]  # fmt: skip
    assert [one.name for one in CORE_TABLE["done"]] == ["reply", "failure", "rules"]
