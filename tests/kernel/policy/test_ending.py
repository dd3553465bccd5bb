"""How a run ends that one agent answers for, or whose answer must have a shape."""

import pytest

from kernel.policy.ending import Chosen, by_agent, by_output
from kernel.policy.verdict import Verdict

DONE = Verdict("done", 0, "nothing is left to do")
FAILED = Verdict("failed", 1, "1 instructions failed")
TIMEOUT = Verdict("timeout", 124, "the time was up")
LIMITED = Verdict("incomplete", 6, "a limit")


@pytest.mark.parametrize(
    ("over", "chosen", "status", "exit_code"),
    [
        (FAILED, Chosen("a", "done", ended=True), "done", 0),
        (LIMITED, Chosen("a", "done", ended=True), "done", 0),
        (DONE, Chosen("a", "dead", "auth", ended=True), "failed", 4),
        (DONE, Chosen("a", "failed", "invalid", ended=True), "failed", 1),
        (DONE, Chosen("a", "failed", "untrusted", ended=True), "failed", 7),
        (DONE, Chosen("a", "incomplete", "max_steps", ended=True), "incomplete", 6),
        (TIMEOUT, Chosen("a", "done", ended=True), "timeout", 124),
        (LIMITED, Chosen("a", "waiting"), "incomplete", 6),
        (DONE, Chosen("a"), "failed", 1),
        (FAILED, Chosen("a"), "failed", 1),
    ],
)
def test_only_the_work_of_the_chosen_agent_counts(over: Verdict, chosen: Chosen, status: str, exit_code: int) -> None:
    """Contracts section 7: --exit-code-from."""
    ended = by_agent(over, chosen)
    assert (ended.status, ended.exit_code) == (status, exit_code)


def test_an_answer_that_does_not_fit_fails_only_what_was_done() -> None:
    """output_schema: what failed anyway says more."""
    assert by_output(DONE, None) == DONE
    assert by_output(FAILED, "why") == FAILED
    assert by_output(DONE, "$.x: no") == Verdict("failed", 1, "the final answer does not fit output_schema: $.x: no")
