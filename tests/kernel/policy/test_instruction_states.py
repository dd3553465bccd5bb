"""State machines of instructions and deliveries, and that the store writes what their tables allow and nothing else."""

import ast
import re
from collections.abc import Iterator, Mapping
from inspect import getsource
from pathlib import Path
from typing import NamedTuple, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel.store
from kernel.policy.instruction_states import (
    DELIVERIES,
    TRANSITIONS,
    DeliveryStep,
    Step,
    delivery_sources,
    delivery_target,
    sources,
    target,
)
from kernel.store.rows import delivery_sql, instruction_sql
from kernel.store.transitions import close
from kernel.store.transitions.close import ENDS, EndStatus
from kernel.store.transitions.requeue import Requeue
from protocol.instruction import ENDED, LIVE, STATUSES, DeliveryState, Status

STEPS = get_args(Step)
DELIVERY_STEPS = get_args(DeliveryStep)
DELIVERY_STATES = frozenset(get_args(DeliveryState))


def test_the_tables_know_every_state_and_no_other() -> None:
    assert set(TRANSITIONS) == set(STATUSES)
    assert {state for row in TRANSITIONS.values() for state in row.values()} <= set(STATUSES)
    assert {step for row in TRANSITIONS.values() for step in row} == set(STEPS)
    assert set(DELIVERIES) == DELIVERY_STATES == {state for row in DELIVERIES.values() for state in row.values()}
    assert {step for row in DELIVERIES.values() for step in row} == set(DELIVERY_STEPS)


def test_a_step_leads_to_the_same_state_from_wherever_it_is_made() -> None:
    assert all({TRANSITIONS[state][step] for state in sources(step)} == {target(step)} for step in STEPS)
    assert all(
        {DELIVERIES[state][step] for state in delivery_sources(step)} == {delivery_target(step)}
        for step in DELIVERY_STEPS
    )


@pytest.mark.promise("P3")
@given(st.sampled_from(("queued", "waiting")), st.lists(st.sampled_from(STEPS)))
def test_what_has_ended_stays_ended_unless_a_person_revives_it(state: Status, steps: list[Step]) -> None:
    ended = False
    for step in steps:
        if step not in TRANSITIONS[state]:
            continue
        state = TRANSITIONS[state][step]
        assert not ended or step == "revive"
        ended = state in ENDED


@pytest.mark.promise("P3")
def test_every_state_can_come_to_an_end_and_be_reached() -> None:
    assert set(sources("cancel")) == set(STATUSES) - ENDED
    reached: set[Status] = {"queued", "waiting"}
    for _ in STATUSES:
        reached |= {state for known in reached for state in TRANSITIONS[known].values()}
    assert reached == set(STATUSES)


@pytest.mark.promise("P3")
def test_what_waits_is_woken_before_anybody_gets_it() -> None:
    assert set(sources("lease")) == {"queued", "yielded"}
    ends = {"answer": "done", "incomplete": "incomplete", "cancel": "cancelled"}
    assert TRANSITIONS["waiting"] == {"resume": "queued", **ends}


@pytest.mark.promise("P5")
def test_only_what_is_held_can_write() -> None:
    assert set(sources("entry")) == LIVE


def test_only_what_was_given_up_can_be_retried() -> None:
    assert set(sources("revive")) == {"failed", "dead"}


def test_a_delivery_that_was_shown_is_not_shown_as_new_again() -> None:
    """Queued, leased, injected, acked or dead, in this order; only a retry begins again."""
    order = ("queued", "leased", "injected", "acked", "dead")
    for state, row in DELIVERIES.items():
        for step, then in row.items():
            assert step == "revive" or order.index(then) > order.index(state)


def test_guards_are_literals_that_partial_indexes_can_be_used_with() -> None:
    assert instruction_sql("{lease} {before lease}") == "'leased' IN ('queued', 'yielded')"
    assert instruction_sql("{resume} {before resume}") == "'queued' = 'waiting'"
    assert instruction_sql("{entry} {before entry}") == "'running' IN ('leased', 'running')"
    assert instruction_sql("{before revive}") == "IN ('failed', 'dead')"
    assert instruction_sql("{before cancel}") == "IN ('queued', 'leased', 'running', 'yielded', 'waiting')"
    assert delivery_sql("{ack} {before ack}") == "'acked' IN ('queued', 'leased', 'injected')"
    schema = (STORE / "schema.sql").read_text()
    for step in ("lease", "entry", "cancel", "revive"):
        assert f"WHERE state {instruction_sql(f'{{before {step}}}')}" in schema


def test_a_step_that_is_not_in_the_table_cannot_be_rendered() -> None:
    with pytest.raises(IndexError):
        instruction_sql("{revoke}")


STORE = Path(kernel.store.__path__[0])
RENDERERS: Mapping[str, str] = {"instructions": "instruction_sql", "deliveries": "delivery_sql"}
HANDED_IN: Mapping[str, tuple[str, frozenset[str]]] = {
    "close.END": ("done answer cancel", frozenset(get_args(EndStatus))),
    "close.END_DELIVERY": ("ack", frozenset(end.delivery for end in ENDS.values())),
    "requeue.PARK": ("retry", frozenset(get_args(get_type_hints(Requeue)["status"]))),
}
"""Statements that are told the state: the steps that their guard is rendered from, and the states they are told."""


class Update(NamedTuple):
    """A statement that changes a state, as its author wrote it."""

    place: str
    renderer: str
    assigned: str
    guards: tuple[str, ...]


def updates(table: str) -> Iterator[Update]:
    """Every statement of the store that assigns ``state`` in ``table``, wherever it stands."""
    for path in sorted(STORE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        called = {
            id(argument): ast.unparse(call.func)
            for call in ast.walk(tree)
            if isinstance(call, ast.Call)
            for argument in call.args
        }
        for statement in tree.body:
            for node in ast.walk(statement):
                text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
                found = re.search(rf"UPDATE {table} SET(.*?)(?:\bWHERE\b(.*)|$)", text, re.DOTALL)
                assigned = found and re.search(r"\bstate = ([^\s,]+)", found[1])
                if found and assigned:
                    name = statement.target.id if isinstance(statement, ast.AnnAssign) else "?"  # type: ignore[union-attr]
                    guards = tuple(re.findall(r"\{before (\w+)\}", found[2] or ""))
                    yield Update(f"{path.stem}.{name}", called.get(id(node), ""), assigned[1], guards)


@pytest.mark.promise("P3")
@pytest.mark.parametrize(
    ("table", "allowed"),
    [("instructions", TRANSITIONS), ("deliveries", DELIVERIES)],
    ids=["instructions", "deliveries"],
)
def test_the_store_changes_states_by_the_table_alone(table: str, allowed: Mapping[str, Mapping[str, str]]) -> None:
    found = list(updates(table))
    made: set[str] = set()
    for update in found:
        assert update.renderer == RENDERERS[table], f"{update.place} writes a state of its own"
        step = update.assigned.strip("{}")
        if step != update.assigned:
            assert update.guards[:1] == (step,), f"{update.place} asks for another state than its step needs"
            made.add(step)
            continue
        steps, states = HANDED_IN[update.place]
        assert update.guards == tuple(steps.split()), update.place
        for source in {state for one in update.guards for state, row in allowed.items() if one in row}:
            possible = {one for one, then in allowed[source].items() if then in states}
            assert possible, f"{update.place} changes {source}"
        first = next(state for state, row in allowed.items() if update.guards[0] in row and "lease" not in row)
        assert states <= set(allowed[first].values()), update.place
        made |= {one for one, then in allowed[first].items() if then in states} | {*update.guards}
    assert made == {step for row in allowed.values() for step in row}, "the table has a step that nothing makes"


@pytest.mark.promise("P3")
def test_what_nobody_holds_ends_only_as_the_table_says() -> None:
    ends = re.findall(r'Closing\(status="(\w+)"[^)]*\)\s*return _conclude\([^\n]*step="cancel"', getsource(close))
    assert len(ends) == len(re.findall(r'(?<!Change\()step="cancel"', getsource(close))) > 0
    for state in set(STATUSES) - ENDED - LIVE:
        assert set(ends) <= set(TRANSITIONS[state].values())
