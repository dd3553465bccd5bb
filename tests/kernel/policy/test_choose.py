"""Choosing is a pure decision."""

from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.choose import Candidate, choose
from protocol.names import AgentKey, instruction_id

AGENTS = ("alice", "bob", "carol", "dave")


def candidate(agent: str, lane: int, number: int) -> Candidate:
    return Candidate(instruction_id(number), AgentKey(agent), lane, number)


candidates = st.lists(
    st.builds(
        candidate,
        st.sampled_from(AGENTS),
        st.integers(0, 2),
        st.integers(1, 1000),
    ),
    unique_by=lambda one: one.number,
)


@given(candidates, st.integers(-1, 6), st.frozensets(st.sampled_from(AGENTS)))
def test_the_most_urgent_go_first_one_for_each_free_agent(
    ready: list[Candidate], slots: int, busy: frozenset[str]
) -> None:
    """Promises P3 and P11."""
    chosen = choose(ready, slots, busy)
    assert len(chosen) <= max(slots, 0)
    assert [(one.lane, one.number) for one in chosen] == sorted((one.lane, one.number) for one in chosen)
    agents = [one.agent for one in chosen]
    assert len(set(agents)) == len(agents)
    assert not busy & set(agents)
    for passed in set(ready) - set(chosen):
        better = [one for one in chosen if (one.lane, one.number) < (passed.lane, passed.number)]
        assert passed.agent in busy or passed.agent in {one.agent for one in better} or len(chosen) == max(slots, 0)
