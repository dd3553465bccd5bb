"""Choosing and placing are pure decisions: in thousands of states nobody is put where it does not fit."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.scheduling import (
    FULL,
    HERE,
    Candidate,
    Load,
    Machine,
    Unplaced,
    WorkerLimits,
    choose,
    homeless,
    loads_of,
    place,
)
from protocol.limits import PlaceNeeds, label_fault
from protocol.names import AgentKey, instruction_id

AGENTS = ("alice", "bob", "carol", "dave", "erin")
PROVIDERS = ("anthropic", "openai", "")


def candidate(agent: str, lane: int, number: int, provider: str = "") -> Candidate:
    return Candidate(instruction_id(number), AgentKey(agent), lane, number, provider)


candidates = st.lists(
    st.builds(candidate, st.sampled_from(AGENTS), st.integers(0, 2), st.integers(1, 1000), st.sampled_from(PROVIDERS)),
    unique_by=lambda one: one.number,
)
limits = st.builds(WorkerLimits, st.integers(0, 6), st.dictionaries(st.sampled_from(PROVIDERS), st.integers(0, 3)))
running = st.dictionaries(st.sampled_from(PROVIDERS), st.integers(0, 3))


@pytest.mark.promise("P3", "P11")
@settings(max_examples=3 * settings.get_profile("untimed").max_examples)
@given(candidates, running, limits, st.frozensets(st.sampled_from(AGENTS)))
def test_the_most_urgent_go_first_one_for_each_free_agent_within_the_limits(
    ready: list[Candidate], live: dict[str, int], within: WorkerLimits, busy: frozenset[str]
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
    passed: Candidate, chosen: tuple[Candidate, ...], after: Counter[str], within: WorkerLimits, busy: frozenset[str]
) -> bool:
    better = {one.agent for one in chosen if (one.lane, one.number) < (passed.lane, passed.number)}
    return (
        passed.agent in busy | better
        or after.total() >= within.workers
        or after[passed.provider] >= within.per_provider.get(passed.provider, within.workers)
    )


def test_a_provider_without_room_holds_up_nobody_who_asks_another() -> None:
    ready = [candidate("alice", 0, 1, "full"), candidate("bob", 2, 2, "free")]
    chosen = choose(ready, {"full": 2}, WorkerLimits(32, {"full": 2, "free": 1}), frozenset())
    assert [one.agent for one in chosen] == ["bob"]


def test_a_limit_is_not_exceeded_by_what_is_chosen_at_once() -> None:
    ready = [candidate(agent, 1, number, "p") for number, agent in enumerate(AGENTS, 1)]
    assert [one.number for one in choose(ready, {}, WorkerLimits(32, {"p": 2}), frozenset())] == [1, 2]
    assert choose(ready, {"q": 32}, WorkerLimits(32), frozenset()) == ()


def test_one_limit_may_stand_for_every_provider_that_is_not_named() -> None:
    each = WorkerLimits(32, {"q": 2}, each_provider=1)
    ready = [candidate(agent, 1, number, "qp"[number % 2]) for number, agent in enumerate(AGENTS, 1)]
    assert [one.number for one in choose(ready, {}, each, frozenset())] == [1, 2, 4]
    unknown = [candidate(agent, 1, number) for number, agent in enumerate(AGENTS, 1)]
    assert len(choose(unknown, {}, each, frozenset())) == len(AGENTS)


GIB = 2**30
LABELS = ("gpu", "arm", "big")
NAMES = ("n1", "n2", "n3")

asked = st.builds(
    PlaceNeeds,
    labels=st.lists(st.sampled_from(LABELS), unique=True, max_size=2).map(tuple),
    memory=st.none() | st.sampled_from((GIB, 4 * GIB, 64 * GIB)),
    gpus=st.integers(0, 3),
)
nodes = st.lists(
    st.builds(
        Machine,
        name=st.sampled_from(NAMES),
        workers=st.integers(0, 4),
        labels=st.frozensets(st.sampled_from(LABELS)),
        connected=st.booleans(),
        draining=st.booleans(),
        memory_bytes=st.sampled_from((0, 4 * GIB, 16 * GIB)),
        gpus=st.integers(0, 4),
    ),
    unique_by=lambda one: one.name,
)
here = st.builds(
    Machine,
    name=st.just(HERE),
    workers=st.integers(0, 4),
    memory_bytes=st.sampled_from((2 * GIB, 16 * GIB)),
    gpus=st.integers(0, 2),
)
machines = st.tuples(here, nodes).map(lambda both: (both[0], *both[1]))
running_by_machine = st.lists(st.tuples(st.sampled_from((HERE, *NAMES)), asked), max_size=8).map(loads_of)
many = settings(max_examples=10 * settings.get_profile("untimed").max_examples)


def fits(machine: Machine, needs: PlaceNeeds, load: Load) -> bool:
    """In words of the contract, once more."""
    if machine.name == HERE and needs.labels:
        return False
    there = machine.connected and not machine.draining and set(needs.labels) <= machine.labels
    if machine.name == HERE:
        there = True
    memory = not needs.memory or load.memory_bytes + needs.memory <= machine.memory_bytes
    gpus = not needs.gpus or load.gpus + needs.gpus <= machine.gpus
    return there and memory and gpus and load.workers < machine.workers


@pytest.mark.promise("P88")
@many
@given(asked, machines, running_by_machine, st.sampled_from((HERE, *NAMES)))
def test_who_needs_something_is_put_where_that_is_free_and_nowhere_else(
    needs: PlaceNeeds, there: Sequence[Machine], loads: dict[str, Load], prefer: str
) -> None:
    able = [one for one in there if fits(one, needs, loads.get(one.name, Load())) and (needs or one.name == HERE)]
    where = place(needs, there, loads, prefer)
    if isinstance(where, Unplaced):
        assert able == []
        assert where.reason
        return
    by_name = {one.name: one for one in able}
    assert where in by_name
    if prefer != HERE and prefer in by_name:
        assert where == prefer
    elif HERE in by_name:
        assert where == HERE
    else:
        busy = {name: loads.get(name, Load()).workers / one.workers for name, one in by_name.items()}
        assert busy[where] == min(busy.values())


@pytest.mark.promise("P88")
@many
@given(asked, machines)
def test_only_who_fits_nowhere_even_if_all_were_idle_is_without_a_machine(
    needs: PlaceNeeds, there: Sequence[Machine]
) -> None:
    one = Candidate(instruction_id(1), AgentKey("alice"), 1, 1, "", needs)
    able = any(fits(machine, needs, Load()) for machine in there)
    found = homeless((one,), there)
    assert (one.id in found) == (bool(needs) and not able)
    assert FULL not in found.values()


@pytest.mark.promise("P88")
@many
@given(st.lists(asked, max_size=12), machines, running_by_machine, st.integers(0, 6))
def test_what_is_chosen_at_once_exceeds_no_machine_and_who_does_not_fit_holds_up_nobody(
    wanted: list[PlaceNeeds], there: Sequence[Machine], loads: dict[str, Load], of_provider: int
) -> None:
    ready = [Candidate(instruction_id(n), AgentKey(f"a{n}"), 1, n, "p", needs) for n, needs in enumerate(wanted, 1)]
    live = sum(load.workers for load in loads.values())
    limits = WorkerLimits(there[0].workers, {"p": live + of_provider})
    chosen = choose(ready, {"p": live}, limits, frozenset(), there, loads)
    used = dict(loads)
    by_name = {one.name: one for one in there}
    for one in chosen:
        assert fits(by_name[one.node], one.needs, used.get(one.node, Load()))
        used[one.node] = used.get(one.node, Load()).plus(one.needs)
    assert len(chosen) <= of_provider
    if len(chosen) < of_provider:
        numbers = {one.number for one in chosen}
        for left in ready:
            if left.number not in numbers:
                assert isinstance(place(left.needs, there, used), Unplaced)


@pytest.mark.parametrize("label", ["", " gpu", "-x", "a b", "é", "x" * 64, "a\n"])
def test_labels_are_words(label: str) -> None:
    assert label_fault(label) is not None
    assert all(label_fault(one) is None for one in ("gpu", "arch=arm64", "zone/a.b_c-d", "x" * 63))
