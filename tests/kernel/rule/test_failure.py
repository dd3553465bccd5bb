"""A failure is told once: also that of a schedule that fails each time it comes."""

import pytest

from kernel.rule.draft import Draft, InstructionOutcome
from kernel.rule.effects import EndedInstruction
from protocol.errors import Cause
from protocol.instruction import Status
from protocol.names import AgentKey, InstructionId
from tests.kernel.rule.view_double import ViewDouble


def told(before: EndedInstruction | None, status: Status = "failed", cause: Cause | None = "untrusted") -> bool:
    """Whether the failure of alice's wakeup i7 is told, where the one before it ended like that."""
    view = ViewDouble()
    if before is not None:
        view.wakeups[7] = before
    payload = InstructionOutcome(instruction=InstructionId("i7"), status=status, cause=cause, error_class="permanent")
    draft = Draft(kind="failed", space="dm:alice", sender="alice", payload=payload)
    view.hear(draft, cause=7, speaker=AgentKey("alice"))
    return any(fact.draft.kind == "system" for fact, _ in view.recorded)


def test_a_wakeup_that_fails_as_the_last_one_did_is_not_told_again() -> None:
    assert not told(EndedInstruction("failed", "untrusted"))
    assert not told(EndedInstruction("dead", "network"), "dead", "network")
    assert not told(EndedInstruction("incomplete", "max_steps"), "incomplete", "max_steps")


@pytest.mark.parametrize(
    "before",
    [
        None,
        EndedInstruction("failed", "invalid"),
        EndedInstruction("done", None),
        EndedInstruction("cancelled", "cancelled"),
    ],
)
def test_a_failure_that_is_new_is_told(before: EndedInstruction | None) -> None:
    assert told(before)


def test_two_failures_of_which_nobody_knows_the_cause_are_both_told() -> None:
    assert told(EndedInstruction("failed", None), cause=None)
