"""Who may ask whom, and what a question and its answer wake."""

import pytest

from kernel.rule.draft import Draft, Fact, InstructionOutcome
from kernel.rule.effects import Assign
from kernel.rule.evaluate import CORE_TABLE, evaluate
from protocol.errors import Refused
from protocol.names import AgentKey, InstructionId
from tests.kernel.rule.view_double import SPACE, ViewDouble, team


def asked(view: ViewDouble, name: str, *, space: str = SPACE, hops: int = 1) -> ViewDouble:
    """Alice, at work on instruction 1, asks ``name``."""
    fact = Fact(
        Draft(
            kind="said", space=space, sender="alice", text="what does @carol think?", to=(name,), mentions=(), asks=True
        ),
        hops=hops,
        cause=1,
        speaker=AgentKey(view.members.get("alice", "alice")),
    )
    evaluate(fact, CORE_TABLE, view, view)
    return view


def test_a_question_is_urgent_work_for_the_one_it_is_for_and_for_nobody_else() -> None:
    """contracts 5: an instruction in lane immediate; a name in it wakes nobody."""
    view = asked(ViewDouble(team("alice", "bob", "carol")), "Bob")
    [(_, effects)] = view.recorded
    assert [one for one in effects if isinstance(one, Assign)] == [
        Assign(AgentKey("bob@review:main"), "bob", "immediate", 1, joins=False, asked_by=1)  # type: ignore[arg-type]
    ]


def test_only_members_of_the_workspace_can_be_asked() -> None:
    """contracts 5: agents do not send to each other's personal spaces."""
    with pytest.raises(Refused) as outside:
        asked(ViewDouble(team("alice", "bob")), "zoe")
    with pytest.raises(Refused) as personal:
        asked(ViewDouble(), "bob", space="dm:alice")
    assert (outside.value.code, personal.value.code) == ("not_a_participant", "not_a_participant")
    assert "in a workspace" in str(personal.value.hint)


def test_nobody_asks_itself_under_whatever_name() -> None:
    for name in ("alice", "critic"):
        with pytest.raises(Refused) as caught:
            asked(ViewDouble({"alice": "alice", "critic": "alice"}), name)
        assert caught.value.code == "conflict"


def test_who_waits_for_the_asker_is_not_asked() -> None:
    view = ViewDouble(team("alice", "bob", "carol"), asking=("carol@review:main", "bob@review:main"))
    for name in ("carol", "bob"):
        with pytest.raises(Refused) as caught:
            asked(view, name)
        assert caught.value.code == "conflict" and caught.value.hint
    assert view.recorded == []
    view.asking = ("carol@review:main",)
    assert asked(view, "bob").woken() == [("bob@review:main", "immediate")]


@pytest.mark.promise("P27")
def test_a_question_over_the_hop_limit_waits_like_any_work() -> None:
    assert asked(ViewDouble(team("alice", "bob"), hops=3), "bob", hops=4).held_back() == [("bob@review:main", "hops")]


def test_an_answer_does_not_wake_who_has_it_anyway() -> None:
    view = ViewDouble(team("alice", "bob", "carol"), asking=("alice@review:main", "carol@review:main"))
    outcome = InstructionOutcome(instruction=InstructionId("i2"), status="done", text="@alice @carol it is 42")
    fact = Fact(
        Draft(kind="done", space=SPACE, sender="bob", payload=outcome),
        hops=2,
        cause=2,
        speaker=AgentKey("bob@review:main"),
    )
    evaluate(fact, CORE_TABLE, view, view)
    assert view.woken() == [("carol@review:main", "immediate")]
