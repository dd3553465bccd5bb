"""Placement: in thousands of states nobody is put where it does not fit, or kept from where it does."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.placement import FULL, HERE, Load, Machine, Unplaced, loads_of, place
from kernel.policy.scheduling import Candidate, Limits, choose, homeless
from protocol.names import AgentKey, instruction_id
from protocol.placement import PlaceNeeds, label_fault

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
running = st.lists(st.tuples(st.sampled_from((HERE, *NAMES)), asked), max_size=8).map(loads_of)
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
@given(asked, machines, running, st.sampled_from((HERE, *NAMES)))
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
@given(st.lists(asked, max_size=12), machines, running, st.integers(0, 6))
def test_what_is_chosen_at_once_exceeds_no_machine_and_who_does_not_fit_holds_up_nobody(
    wanted: list[PlaceNeeds], there: Sequence[Machine], loads: dict[str, Load], of_provider: int
) -> None:
    ready = [Candidate(instruction_id(n), AgentKey(f"a{n}"), 1, n, "p", needs) for n, needs in enumerate(wanted, 1)]
    live = sum(load.workers for load in loads.values())
    limits = Limits(there[0].workers, {"p": live + of_provider})
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
def test_what_is_no_label_is_told(label: str) -> None:
    assert label_fault(label) is not None


@pytest.mark.parametrize("label", ["gpu", "arch=arm64", "zone/a.b_c-d", "x" * 63])
def test_labels_are_words(label: str) -> None:
    assert label_fault(label) is None
