"""How a run ends that one agent answers for, or whose answer must have a shape."""

import pytest

from kernel.policy.ending import Answer, Chosen, by_agent, by_output, by_verdict
from kernel.policy.verdict import GRAVITY, Verdict

DONE = Verdict("done", 0, "nothing is left to do")
FAILED = Verdict("failed", 1, "1 instruction failed")
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


UNTRUSTED = Verdict("incomplete", 7, "an approval is needed")
YES, NO, NONE = Answer("release", "yes"), Answer("release", "no"), Answer("release", why="nobody asked")


@pytest.mark.parametrize(
    ("over", "answer", "status", "exit_code"),
    [
        (DONE, YES, "done", 0),
        (FAILED, YES, "failed", 1),
        (LIMITED, YES, "incomplete", 6),
        (DONE, NO, "rejected", 8),
        (LIMITED, NO, "rejected", 8),
        (TIMEOUT, NO, "rejected", 8),
        (UNTRUSTED, NO, "incomplete", 7),
        (FAILED, NO, "failed", 1),
        (DONE, NONE, "incomplete", 6),
        (LIMITED, NONE, "incomplete", 6),
        (TIMEOUT, NONE, "timeout", 124),
        (FAILED, NONE, "failed", 1),
    ],
)
def test_a_vote_decides_over_what_is_done_and_nothing_makes_it_better(
    over: Verdict, answer: Answer, status: str, exit_code: int
) -> None:
    """Contracts section 7, exit 8: only a yes is a success, and what is worse than a no stays."""
    ended = by_verdict(over, answer)
    assert (ended.status, ended.exit_code) == (status, exit_code)
    assert GRAVITY.index(ended.exit_code) >= GRAVITY.index(over.exit_code)
    assert answer.why in ended.reason or over.exit_code
