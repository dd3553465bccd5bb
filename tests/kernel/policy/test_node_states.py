"""The states of a node, and the pauses between tries: pure functions, tried with everything that can come."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.node_states import (
    LONGEST_PAUSE_SECONDS,
    LONGEST_REFUSED_SECONDS,
    SHRINK_SECONDS,
    STEADY_SECONDS,
    TRANSITIONS,
    NodeDemand,
    NodeEvent,
    Reach,
    after,
    failures_after,
    pause_seconds,
    refused_seconds,
    standing,
    wanted_nodes,
)

REACHES = st.sampled_from(get_args(Reach))
EVENTS = st.sampled_from(get_args(NodeEvent))


@given(reach=REACHES, events=st.lists(EVENTS, max_size=30))
def test_a_node_is_only_up_once_it_was_opened(reach: Reach, events: list[NodeEvent]) -> None:
    for event in events:
        before, reach = reach, after(reach, event)
        if reach == "up" and before != "up":
            assert event == "opened"
        if (before, event) not in TRANSITIONS:
            assert reach == before


@given(reach=REACHES)
def test_the_end_and_a_refusal_leave_nothing_that_is_tried(reach: Reach) -> None:
    assert after(reach, "ended") == "off"
    assert after(reach, "refused") == "off"


def test_a_node_whose_lease_is_over_is_lost_until_it_answers() -> None:
    reach: Reach = "off"
    seen = [reach := after(reach, event) for event in ("began", "opened", "broke", "fenced", "broke", "opened")]
    assert seen == ["connecting", "up", "connecting", "lost", "lost", "up"]


@given(reach=REACHES)
def test_draining_hides_neither_that_a_node_is_lost_nor_that_it_is_off(reach: Reach) -> None:
    assert standing(reach, draining=False) == reach
    assert standing(reach, draining=True) == ("draining" if reach == "up" else reach)


@given(failures=st.integers(0, 10_000), chance=st.floats(-1, 2))
def test_pauses_grow_to_a_bound(failures: int, chance: float) -> None:
    assert 0 < pause_seconds(failures, chance) <= LONGEST_PAUSE_SECONDS
    assert pause_seconds(failures + 1, 0.5) >= pause_seconds(failures, 0.5)
    assert 0 < refused_seconds(failures) <= refused_seconds(failures + 1) <= LONGEST_REFUSED_SECONDS


@given(failures=st.integers(0, 1000), held=st.floats(0, 1e6))
def test_a_connection_that_held_was_no_failure(failures: int, held: float) -> None:
    assert failures_after(failures, held) == (1 if held >= STEADY_SECONDS else failures + 1)


DEMANDS = st.builds(
    NodeDemand,
    waiting=st.integers(0, 500),
    running=st.integers(0, 500),
    each=st.integers(1, 50),
    least=st.integers(0, 5),
    most=st.integers(5, 50),
    nodes=st.integers(0, 60),
    idle_seconds=st.floats(0, 1000),
)


@given(demand=DEMANDS)
def test_there_are_as_many_nodes_as_work_fills_within_bounds(demand: NodeDemand) -> None:
    """Never fewer than what runs needs, as far as the bound lets it; never more than is allowed."""
    wanted = wanted_nodes(demand)
    assert demand.least <= wanted <= demand.most
    assert wanted * demand.each >= min(demand.waiting + demand.running, demand.most * demand.each)


@given(demand=DEMANDS)
def test_nodes_are_given_back_only_after_a_while(demand: NodeDemand) -> None:
    if demand.idle_seconds < SHRINK_SECONDS and demand.nodes <= demand.most:
        assert wanted_nodes(demand) >= demand.nodes
