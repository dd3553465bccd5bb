"""What lands together, what follows a check, and what a run does about its delivery: by the table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.landing import (
    TOGETHER,
    TRANSITIONS,
    LandingState,
    LastDelivery,
    Queued,
    delivers,
    exit_by_delivery,
    limit_after,
    next_delivery,
    settle,
    tightest,
    together,
)
from kernel.policy.run_completion import RunCompletion
from protocol.agent import AgentLimits
from protocol.ipc import Bound

DONE = RunCompletion("done", 0, "nothing is left to do")
FAILED = RunCompletion("failed", 1, "1 instruction failed")


@pytest.mark.promise("P33")
def test_every_state_leads_to_an_end_and_no_end_leads_on() -> None:
    """Refused or merged; what is checked can only be those, or begin anew."""
    ends = {state for state, steps in TRANSITIONS.items() if not steps}
    assert ends == {"merged", "refused"}
    for state in TRANSITIONS:
        reached: set[LandingState] = {state}
        seen: set[LandingState] = set()
        while reached - seen:
            seen |= reached
            reached = {target for one in seen for target in TRANSITIONS[one].values()}
        assert seen >= ends or state in ends


QUEUE = st.lists(
    st.builds(
        Queued,
        id=st.integers(1, 99),
        repository=st.sampled_from(["r", "s"]),
        branch=st.sampled_from(["main", "dev"]),
        check=st.sampled_from([None, "make"]),
    )
)


@given(QUEUE, st.integers(-1, 9))
def test_what_lands_together_is_the_head_of_the_queue_and_of_one_kind(waiting: list[Queued], limit: int) -> None:
    batch = together(waiting, limit)
    assert list(batch) == waiting[: len(batch)]
    assert bool(batch) == bool(waiting)
    assert len({(one.repository, one.branch, one.check) for one in batch}) <= 1
    assert len(batch) <= max(1, limit)


@given(st.integers(1, TOGETHER), st.integers(1, TOGETHER))
def test_a_red_batch_is_halved_until_the_one_is_alone(size: int, limit: int) -> None:
    rounds, left = 0, size
    while left > 1:
        left = limit_after(left, limit, sound=False)
        rounds += 1
    assert rounds <= size.bit_length()
    assert limit <= limit_after(size, limit, sound=True) <= TOGETHER


def test_a_check_is_bound_by_the_least_of_each_limit_that_is_set() -> None:
    limits = AgentLimits(memory=2**30), AgentLimits(memory=2**29, processes=9), AgentLimits(processes=7), AgentLimits()
    assert tightest(limits) == Bound(memory_bytes=2**29, processes=7)
    assert tightest([AgentLimits()]) == tightest([]) == Bound()


@pytest.mark.parametrize(
    ("now", "inside", "standing"),
    [("old", False, "untouched"), ("tip", True, "moved"), ("later", True, "moved"), ("other", False, "elsewhere")],
)
def test_who_died_over_a_move_learns_from_the_branch_whether_it_happened(now: str, inside: bool, standing: str) -> None:
    assert settle(now, "old", tip_is_in=inside) == standing


def test_a_run_delivers_when_it_is_to_and_again_what_was_done_since() -> None:
    assert [delivers("done", over, None) for over in (DONE, FAILED)] == [True, False]
    assert [delivers("verdict", FAILED, choice) for choice in ("yes", "no", None)] == [True, False, False]
    assert next_delivery(None, 3) == "request"
    assert next_delivery(LastDelivery("merging", 3), 9) == "wait"
    assert next_delivery(LastDelivery("refused", 3), 4) == "request"
    assert next_delivery(LastDelivery("refused", 4, "red"), 4) == "over"


def test_the_exit_code_of_a_run_says_whether_its_work_was_merged() -> None:
    refused, merged = LastDelivery("refused", 1, "the check failed"), LastDelivery("merged", 1)
    red = exit_by_delivery(DONE, refused, "main")
    assert (red.status, red.exit_code, red.reason) == ("failed", 1, "not merged into main: the check failed")
    assert exit_by_delivery(FAILED, refused, "main") == FAILED
    assert exit_by_delivery(DONE, merged, "main").exit_code == 0
    assert "merged into main" in exit_by_delivery(DONE, merged, "main").reason
