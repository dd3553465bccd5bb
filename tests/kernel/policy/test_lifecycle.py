"""The tables of the states of instructions and deliveries, and that the store keeps to them."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from inspect import getsource
from typing import get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel.store.commits
from kernel.policy.instruction_states import (
    BEGINNINGS,
    DELIVERIES,
    TRANSITIONS,
    DeliveryStep,
    IllegalTransition,
    Step,
    after,
    delivery_after,
)
from kernel.store.transitions import close
from kernel.store.transitions.close import ENDS, EndStatus
from kernel.store.transitions.requeue import Requeue
from protocol.instruction import ENDED, LIVE, STATUSES, DeliveryState, Status

STEPS = get_args(Step)
DELIVERY_STATES = frozenset(get_args(DeliveryState))


def test_the_tables_know_every_state_and_no_other() -> None:
    """The tables know every state and no other."""
    assert set(TRANSITIONS) == set(STATUSES)
    assert {state for row in TRANSITIONS.values() for state in row.values()} <= set(STATUSES)
    assert {step for row in TRANSITIONS.values() for step in row} == set(STEPS)
    assert set(DELIVERIES) == DELIVERY_STATES == {state for row in DELIVERIES.values() for state in row.values()}
    assert {step for row in DELIVERIES.values() for step in row} == set(get_args(DeliveryStep))


@pytest.mark.promise("P3")
@given(st.sampled_from(sorted(BEGINNINGS)), st.lists(st.sampled_from(STEPS)))
def test_what_has_ended_stays_ended_unless_a_person_revives_it(state: Status, steps: list[Step]) -> None:
    """Exactly one terminal state."""
    ended = False
    for step in steps:
        try:
            state = after(state, step)
        except IllegalTransition:
            continue
        assert not ended or step == "revive"
        ended = state in ENDED


@pytest.mark.promise("P3")
def test_every_state_can_come_to_an_end_and_be_reached() -> None:
    """Nothing is stuck, nothing is dead code."""
    assert {state for state, row in TRANSITIONS.items() if "cancel" in row} == set(STATUSES) - ENDED
    reached = set(BEGINNINGS)
    for _ in STATUSES:
        reached |= {state for known in reached for state in TRANSITIONS[known].values()}
    assert reached == set(STATUSES)


@pytest.mark.promise("P5")
def test_only_what_is_held_can_write() -> None:
    """Only what is held can write."""
    assert {state for state, row in TRANSITIONS.items() if "entry" in row} == LIVE


def test_only_what_was_given_up_can_be_retried() -> None:
    """contracts 9: retry takes failed and dead."""
    assert {state for state, row in TRANSITIONS.items() if "revive" in row} == {"failed", "dead"}


def test_a_missing_step_says_what_and_where() -> None:
    """A missing key raises and changes nothing."""
    with pytest.raises(IllegalTransition, match="an instruction that is done cannot lease"):
        after("done", "lease")
    with pytest.raises(IllegalTransition, match="a delivery that is acked cannot die"):
        delivery_after("acked", "die")


def test_a_delivery_that_was_shown_is_not_shown_as_new_again() -> None:
    """Queued, leased, injected, acked or dead, in this order; only a retry begins again."""
    order = ("queued", "leased", "injected", "acked", "dead")
    for state, row in DELIVERIES.items():
        for step, then in row.items():
            assert step == "revive" or order.index(then) > order.index(state)


HANDED_IN: Mapping[str, frozenset[str]] = {
    "close.END": frozenset(get_args(EndStatus)),
    "close.END_DELIVERY": frozenset(end.delivery for end in ENDS.values()),
    "park.PARK": frozenset(get_args(get_type_hints(Requeue)["status"])),
}
"""The states that a commit is told, where its statement does not name one."""


def updates(table: str) -> Iterator[tuple[str, frozenset[str], frozenset[str]]]:
    """Every change of state in the store's commits: where, from which states, to which."""
    for module in pkgutil.iter_modules(kernel.store.commits.__path__):
        for name, sql in vars(importlib.import_module(f"kernel.store.commits.{module.name}")).items():
            if not (name.isupper() and isinstance(sql, str) and re.match(rf"\s*UPDATE {table} SET", sql)):
                continue
            assignment, _, guard = sql.partition("WHERE")
            for literal, parameter in re.findall(r"\bstate = (?:'(\w+)'|(:\w+|\?))", assignment):
                where = f"{module.name}.{name}"
                yield where, frozenset(_sources(guard)), HANDED_IN[where] if parameter else frozenset({literal})


def _sources(guard: str) -> Iterator[str]:
    """The states that a guard asks for; what is behind ANY_OPEN has a test of its own."""
    guard = re.split(r"NOT EXISTS|EXISTS|OR \(:any_open", guard)[0]
    for one, several in re.findall(r"\bstate (?:= '(\w+)'|IN \(([^)]*)\))", guard):
        yield from [one] if one else re.findall(r"'(\w+)'", several)


@pytest.mark.promise("P3")
@pytest.mark.parametrize(("table", "allowed"), [("instructions", TRANSITIONS), ("deliveries", DELIVERIES)])
def test_the_store_changes_no_state_that_the_table_does_not(table: str, allowed: dict[str, dict[str, str]]) -> None:
    """The guards of the commits and the table say the same."""
    found = list(updates(table))
    assert len(found) >= 4, "the statements were not recognised"
    for where, sources, targets in found:
        assert sources, f"{where} changes the state of {table} without asking for the one it is in"
        for source in sources:
            reachable = set(allowed[source].values()) | {source}
            assert targets <= reachable, f"{where}: {source} to {sorted(targets)} is not in the table"


def test_every_step_of_a_delivery_is_one_that_the_store_makes() -> None:
    """The table holds nothing that does not happen."""
    made = {
        (source, target) for _, sources, targets in updates("deliveries") for source in sources for target in targets
    }
    assert made == {(state, then) for state, row in DELIVERIES.items() for then in row.values()}


@pytest.mark.promise("P3")
def test_what_nobody_holds_ends_only_as_the_table_says() -> None:
    """The ends that take in every open state."""
    ends = re.findall(r'Conclusion\(status="(\w+)"[^)]*\)\s*return _conclude\([^\n]*any_open=True', getsource(close))
    assert len(ends) == getsource(close).count("any_open=True") > 0
    for state in set(STATUSES) - ENDED - LIVE:
        assert set(ends) <= set(TRANSITIONS[state].values())
