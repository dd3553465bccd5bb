"""How a run ends that one agent answers for, or whose answer must have a shape."""

import pytest

from kernel.policy.run_completion import (
    RUN_GRAVITY,
    ExitChoice,
    FinalAnswer,
    RunCompletion,
    exit_by_agent,
    exit_by_output,
    exit_by_verdict,
)

DONE = RunCompletion("done", 0, "nothing is left to do")
FAILED = RunCompletion("failed", 1, "1 instruction failed")
TIMEOUT = RunCompletion("timeout", 124, "the time was up")
LIMITED = RunCompletion("incomplete", 6, "a limit")


@pytest.mark.parametrize(
    ("over", "chosen", "status", "exit_code"),
    [
        (FAILED, ExitChoice("a", "done", ended=True), "done", 0),
        (LIMITED, ExitChoice("a", "done", ended=True), "done", 0),
        (DONE, ExitChoice("a", "dead", "auth", ended=True), "failed", 4),
        (DONE, ExitChoice("a", "failed", "invalid", ended=True), "failed", 1),
        (DONE, ExitChoice("a", "failed", "untrusted", ended=True), "failed", 7),
        (DONE, ExitChoice("a", "incomplete", "max_steps", ended=True), "incomplete", 6),
        (TIMEOUT, ExitChoice("a", "done", ended=True), "timeout", 124),
        (LIMITED, ExitChoice("a", "waiting"), "incomplete", 6),
        (DONE, ExitChoice("a"), "failed", 1),
        (FAILED, ExitChoice("a"), "failed", 1),
    ],
)
def test_only_the_work_of_the_chosen_agent_counts(
    over: RunCompletion, chosen: ExitChoice, status: str, exit_code: int
) -> None:
    """contracts 7: --exit-code-from."""
    ended = exit_by_agent(over, chosen)
    assert (ended.status, ended.exit_code) == (status, exit_code)


def test_an_answer_that_does_not_fit_fails_only_what_was_done() -> None:
    assert exit_by_output(DONE, None) == DONE
    assert exit_by_output(FAILED, "why") == FAILED
    assert exit_by_output(DONE, "$.x: no") == RunCompletion(
        "failed", 1, "the final answer does not match output_schema: $.x: no"
    )


UNTRUSTED = RunCompletion("incomplete", 7, "an approval is needed")
YES, NO, NONE = FinalAnswer("release", "yes"), FinalAnswer("release", "no"), FinalAnswer("release", why="nobody asked")


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
    over: RunCompletion, answer: FinalAnswer, status: str, exit_code: int
) -> None:
    """contracts 7: only a yes is a success, and what is worse than a no stays."""
    ended = exit_by_verdict(over, answer)
    assert (ended.status, ended.exit_code) == (status, exit_code)
    assert RUN_GRAVITY.index(ended.exit_code) >= RUN_GRAVITY.index(over.exit_code)
    assert answer.why in ended.reason or over.exit_code
