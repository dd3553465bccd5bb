"""Requests for approval and decisions about them: who may ask, who decides, and what follows."""

from dataclasses import dataclass
from typing import Any

import pytest

from kernel.policy.approvals import Decision, Rule, State
from kernel.rule.draft import ApprovalAsked, ApprovalDecided, Draft, Fact
from kernel.rule.effects import ApprovalDecision, ApprovalRequest, ApprovalRule, WriteRow
from kernel.rule.evaluate import CORE_TABLE, evaluate
from kernel.rule.view import PendingApproval
from protocol.errors import Refused
from protocol.names import AgentKey
from tests.kernel.rule.view_double import SPACE, ViewDouble

ALICE = AgentKey("alice")
INPUT = '{"command":"git push"}'


@dataclass(frozen=True)
class By:
    """Whose message it is."""

    cause: int | None = 7
    speaker: AgentKey | None = ALICE


def said(view: ViewDouble, payload: ApprovalAsked | ApprovalDecided, by: By) -> list[Any]:
    """The rows that follow from one message of kind approval."""
    fact = Fact(
        Draft(kind="approval", space=SPACE, sender="alice", payload=payload), cause=by.cause, speaker=by.speaker
    )
    evaluate(fact, CORE_TABLE, view, view)
    assert len(view.recorded) == 1
    return [one.row for one in view.recorded[0][1] if isinstance(one, WriteRow)]


def asked(view: ViewDouble, by: By = By()) -> list[Any]:
    payload = ApprovalAsked(epoch=1, call_key="0.0:c", tool="bash", input=INPUT.encode(), digest=b"d", expires_ms=5000)
    return said(view, payload, by)


def decided(view: ViewDouble, decision: Decision = "granted", **more: Any) -> list[Any]:
    return said(view, ApprovalDecided(approval=3, decision=decision, by="user", **more), By(None, None))


def request(state: State = "open", by: str | None = None) -> dict[int, PendingApproval]:
    return {3: PendingApproval(ALICE, "bash", INPUT, state, by)}


@pytest.mark.promise("P26")
def test_a_request_stays_open_and_keeps_no_run_waiting() -> None:
    """A run whose rest waits for a person ends."""
    (row,) = asked(ViewDouble())
    assert isinstance(row, ApprovalRequest)
    assert (row.instruction, row.agent, row.rule, row.waits_ms) == (7, "alice", None, 0)


def test_a_run_that_somebody_watches_waits_for_it_until_its_deadline() -> None:
    """``run`` on a terminal."""
    (row,) = asked(ViewDouble(attended=True))
    assert row.waits_ms == 5000


def test_what_was_approved_once_for_all_is_granted_without_a_person() -> None:
    """--always PATTERN: bound to agent and tool."""
    view = ViewDouble(rules={("alice", "bash"): (Rule(2, '{"command":"git *"}'),)})
    assert asked(view)[0].rule == 2
    other = ViewDouble(rules={("alice", "bash"): (Rule(2, '{"command":"npm *"}'),)})
    assert asked(other)[0].rule is None


@pytest.mark.parametrize("decision", ["granted", "denied", "expired"])
def test_an_open_request_is_decided(decision: Decision) -> None:
    """One row, and nobody is woken by the rule: who waits is the store's to know."""
    rows = decided(ViewDouble(requests=request()), decision, reason="so")
    assert rows == [ApprovalDecision(approval=3, decision=decision, by="user", reason="so")]


def test_the_same_decision_again_changes_nothing() -> None:
    """A command that was repeated."""
    assert decided(ViewDouble(requests=request("granted", "user"))) == []


@pytest.mark.parametrize(("state", "decision"), [("granted", "denied"), ("expired", "granted"), ("denied", "granted")])
def test_a_decision_is_final(state: State, decision: Decision) -> None:
    """Denied by default: what expired cannot be granted afterwards."""
    with pytest.raises(
        Refused, match="no longer open" if state == "expired" else f"is {state} already by user"
    ) as refused:
        decided(ViewDouble(requests=request(state, "user")), decision)
    assert refused.value.code == "conflict"


def test_nobody_decides_what_nobody_asked() -> None:
    """404."""
    with pytest.raises(Refused) as refused:
        decided(ViewDouble())
    assert refused.value.code == "not_found"


def test_always_keeps_a_rule_for_that_agent_and_tool() -> None:
    """--always, --all-agents."""
    rows = decided(ViewDouble(requests=request()), always='{"command":"git *"}')
    assert rows[1] == ApprovalRule(agent=ALICE, tool="bash", pattern='{"command":"git *"}', by="user")
    rows = decided(ViewDouble(requests=request("granted", "user")), always="*", everybody=True)
    assert rows == [ApprovalRule(agent=None, tool="bash", pattern="*", by="user")]


@pytest.mark.parametrize(("everybody", "numbers"), [(False, [3, 4]), (True, [3, 4, 5])])
def test_what_waits_already_and_has_the_pattern_is_granted_with_it(*, everybody: bool, numbers: list[int]) -> None:
    """A program that asked for several at once: nobody is asked about what was just approved once for all."""
    pull, bob = '{"command":"git pull"}', AgentKey("bob")
    others = {
        4: PendingApproval(ALICE, "bash", pull, "open", None),
        5: PendingApproval(bob, "bash", pull, "open", None),
        6: PendingApproval(ALICE, "bash", '{"command":"rm"}', "open", None),
        7: PendingApproval(ALICE, "write", pull, "open", None),
        8: PendingApproval(ALICE, "bash", pull, "denied", "user"),
    }
    rows = decided(ViewDouble(requests=request() | others), always='{"command":"git *"}', everybody=everybody)
    assert [row.approval for row in rows if isinstance(row, ApprovalDecision)] == numbers


def test_a_pattern_that_is_not_the_requests_own_is_refused_whole() -> None:
    """A typing error must not grant what nobody meant."""
    view = ViewDouble(requests=request())
    with pytest.raises(Refused) as refused:
        decided(view, always="git *")
    assert refused.value.code == "bad_request"
    assert view.recorded == []


@pytest.mark.promise("P6")
@pytest.mark.parametrize("payload", [ApprovalDecided(approval=3, decision="granted", by="alice")])
def test_no_agent_decides(payload: ApprovalDecided) -> None:
    """A message that an instruction caused is no decision, whatever it says."""
    assert said(ViewDouble(requests=request()), payload, By()) == []


def test_only_an_agent_at_work_asks() -> None:
    """There would be nobody to tell."""
    with pytest.raises(Refused) as refused:
        asked(ViewDouble(), By(None, None))
    assert refused.value.code == "forbidden"
