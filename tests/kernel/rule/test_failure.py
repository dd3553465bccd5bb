"""A failure is told once: also that of a schedule that fails each time it comes."""

import pytest

from kernel.rule.core import CORE_TABLE
from kernel.rule.draft import Outcome
from kernel.rule.evaluate import evaluate
from kernel.rule.fact import Fact
from kernel.rule.view import Ended
from protocol.errors import Cause
from protocol.instruction import Status
from protocol.names import AgentKey, InstructionId
from tests.kernel.rule.stage import Stage


def told(before: Ended | None, status: Status = "failed", cause: Cause | None = "untrusted") -> bool:
    """Whether the failure of alice's wakeup i7 is told, where the one before it ended like that."""
    stage = Stage()
    if before is not None:
        stage.wakeups[7] = before
    payload = Outcome(instruction=InstructionId("i7"), status=status, cause=cause, error_class="permanent")
    fact = Fact(kind="failed", space="dm:alice", sender="alice", cause=7, speaker=AgentKey("alice"), payload=payload)
    evaluate(fact, CORE_TABLE, stage, stage)
    return any(fact.kind == "system" for fact, _ in stage.recorded)


def test_a_wakeup_that_fails_as_the_last_one_did_is_not_told_again() -> None:
    """decisions.md, failure notice: once; an agent without trust would fill its own conversation."""
    assert not told(Ended("failed", "untrusted"))
    assert not told(Ended("dead", "network"), "dead", "network")
    assert not told(Ended("incomplete", "max_steps"), "incomplete", "max_steps")


@pytest.mark.parametrize(
    "before", [None, Ended("failed", "invalid"), Ended("done", None), Ended("cancelled", "cancelled")]
)
def test_a_failure_that_is_new_is_told(before: Ended | None) -> None:
    """Whatever is no wakeup, the first one, and one that fails for another cause than the last."""
    assert told(before)


def test_two_failures_of_which_nobody_knows_the_cause_are_both_told() -> None:
    """They need not be the same."""
    assert told(Ended("failed", None), cause=None)
