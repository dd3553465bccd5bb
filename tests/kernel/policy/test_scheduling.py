"""Choosing is a pure decision."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.scheduling import Candidate, Limits, choose
from protocol.names import AgentKey, instruction_id

AGENTS = ("alice", "bob", "carol", "dave", "erin")
PROVIDERS = ("anthropic", "openai", "")


def candidate(agent: str, lane: int, number: int, provider: str = "") -> Candidate:
    return Candidate(instruction_id(number), AgentKey(agent), lane, number, provider)


candidates = st.lists(
    st.builds(candidate, st.sampled_from(AGENTS), st.integers(0, 2), st.integers(1, 1000), st.sampled_from(PROVIDERS)),
    unique_by=lambda one: one.number,
)
limits = st.builds(
    Limits,
    st.integers(0, 6),
    st.dictionaries(st.sampled_from(PROVIDERS), st.integers(0, 3)),
)
running = st.dictionaries(st.sampled_from(PROVIDERS), st.integers(0, 3))


@pytest.mark.promise("P3", "P11")
@settings(max_examples=3 * settings.get_profile("untimed").max_examples)
@given(candidates, running, limits, st.frozensets(st.sampled_from(AGENTS)))
def test_the_most_urgent_go_first_one_for_each_free_agent_within_the_limits(
    ready: list[Candidate], live: dict[str, int], within: Limits, busy: frozenset[str]
) -> None:
    chosen = choose(ready, live, within, busy)
    order = [(one.lane, one.number) for one in chosen]
    assert order == sorted(order)
    agents = [one.agent for one in chosen]
    assert len(set(agents)) == len(agents) and not busy & set(agents)
    after = Counter(live) + Counter(one.provider for one in chosen)
    assert not chosen or after.total() <= within.workers
    for provider in {one.provider for one in chosen}:
        assert after[provider] <= within.per_provider.get(provider, within.workers)
    for passed in set(ready) - set(chosen):
        assert _has_a_reason(passed, chosen, after, within, busy)


def _has_a_reason(
    passed: Candidate, chosen: tuple[Candidate, ...], after: Counter[str], within: Limits, busy: frozenset[str]
) -> bool:
    better = {one.agent for one in chosen if (one.lane, one.number) < (passed.lane, passed.number)}
    return (
        passed.agent in busy | better
        or after.total() >= within.workers
        or after[passed.provider] >= within.per_provider.get(passed.provider, within.workers)
    )


def test_a_provider_without_room_holds_up_nobody_who_asks_another() -> None:
    ready = [candidate("alice", 0, 1, "full"), candidate("bob", 2, 2, "free")]
    chosen = choose(ready, {"full": 2}, Limits(32, {"full": 2, "free": 1}), frozenset())
    assert [one.agent for one in chosen] == ["bob"]


def test_a_limit_is_not_exceeded_by_what_is_chosen_at_once() -> None:
    ready = [candidate(agent, 1, number, "p") for number, agent in enumerate(AGENTS, 1)]
    assert [one.number for one in choose(ready, {}, Limits(32, {"p": 2}), frozenset())] == [1, 2]
    assert choose(ready, {"q": 32}, Limits(32), frozenset()) == ()


def test_one_limit_may_stand_for_every_provider_that_is_not_named() -> None:
    each = Limits(32, {"q": 2}, each_provider=1)
    ready = [candidate(agent, 1, number, "qp"[number % 2]) for number, agent in enumerate(AGENTS, 1)]
    assert [one.number for one in choose(ready, {}, each, frozenset())] == [1, 2, 4]
    unknown = [candidate(agent, 1, number) for number, agent in enumerate(AGENTS, 1)]
    assert len(choose(unknown, {}, each, frozenset())) == len(AGENTS)
