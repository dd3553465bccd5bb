"""Tasks as policies see them: the table of states, what follows from a failure, circles, and whose files are whose."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.tasks import (
    LOST,
    OVER,
    TRANSITIONS,
    FileClaim,
    Needed,
    TaskStep,
    check_plan,
    claim_on,
    claims_against,
    covers,
    find_cycle,
    held_by,
    next_step,
    overlap,
    waits_for,
)
from protocol.errors import Refused
from protocol.tasks import TASK_STATES, OnFailure, TaskSpec, TaskState


def test_every_state_is_in_the_table_and_every_step_leads_somewhere() -> None:
    assert set(TRANSITIONS) == set(TASK_STATES)
    assert {step for steps in TRANSITIONS.values() for step in steps} == set(get_args(TaskStep))
    assert {state for state, steps in TRANSITIONS.items() if not steps} == {"done", "cancelled"}
    assert set(OVER) == {"done", "cancelled", "failed"}
    assert set(TRANSITIONS["failed"].values()) == {"done", "cancelled"}
    assert all("claim" not in steps for state, steps in TRANSITIONS.items() if state != "ready")


@pytest.mark.promise("P39")
@pytest.mark.parametrize(("own", "other"), list(product((None, *get_args(OnFailure)), repeat=2)))
def test_what_a_failure_means_its_follower_says_or_else_what_failed(
    own: OnFailure | None, other: OnFailure | None
) -> None:
    expected = own or other or "hold"
    for state in LOST:
        needs = (Needed("t1", "done"), Needed("t2", state, other))
        assert next_step(own, needs) == {"hold": None, "skip": "free", "cancel": "cancel"}[expected]
        assert held_by(own, needs) == (("t2",) if expected == "hold" else ())
        assert waits_for(own, needs) == (() if expected == "skip" else ("t2",))


@given(st.lists(st.sampled_from(TASK_STATES), max_size=6))
def test_a_task_is_free_exactly_when_all_that_it_needs_is_done(states: Sequence[TaskState]) -> None:
    needs = [Needed(f"t{n}", state) for n, state in enumerate(states)]
    assert (next_step(None, needs) == "free") == all(state == "done" for state in states)


graphs = st.dictionaries(st.sampled_from("abcdefg"), st.lists(st.sampled_from("abcdefg"), max_size=3), max_size=7)


@given(graphs)
def test_a_circle_is_found_exactly_where_there_is_one_and_is_one(needs: Mapping[str, Sequence[str]]) -> None:
    left = {name: set(others) & needs.keys() for name, others in needs.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    cycle = find_cycle(needs)
    assert bool(cycle) == bool(left)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(after in needs[before] for before, after in pairwise(cycle))


def test_a_chain_of_any_length_is_looked_through() -> None:
    chain = {f"t{n}": [f"t{n + 1}"] for n in range(50_000)}
    assert find_cycle(chain) == ()
    assert len(find_cycle({**chain, "t50000": ["t0"]})) == 50_002


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("src/api/**", "src/api/a/b.py", True),
        ("src/api/**", "src/apx/b.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "README.md", False),
        ("**/test_?.py", "a/b/test_1.py", True),
        ("src/api", "src/api/deep/x.py", True),
        ("src/api", "src/api", True),
        ("src/a.py", "src/a.py/b", False),
        ("./src//a.py", "src/a.py", True),
        ("a*", "a*", True),
        ("b", "*", False),
        ("a?c", "abc", True),
    ],
)
def test_what_a_glob_stands_for(glob: str, path: str, expected: bool) -> None:
    assert covers([glob], path) is expected


names = st.text("ab.*?", min_size=1, max_size=3)
globs = st.lists(names | st.just("**"), min_size=1, max_size=4).map("/".join)
paths = st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@given(globs, globs, paths)
def test_globs_that_a_path_has_in_common_overlap(one: str, other: str, path: str) -> None:
    if covers([one], path) and covers([other], path):
        assert overlap([one], [other])
        assert overlap([other], [one])


@given(globs, paths)
def test_a_glob_covers_what_a_plain_expression_of_it_matches(glob: str, path: str) -> None:
    if {".", ".."} & {*glob.split("/"), *path.split("/")}:
        return
    parts = glob.split("/")
    if not set(parts[-1]) & set("*?."):
        parts.append("**")
    pattern = "".join(
        "(?:[^/]+/)*"
        if part == "**"
        else "".join({"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter)) for letter in part) + "/"
        for part in parts
    )
    assert covers([glob], path) == (re.fullmatch(pattern, f"{path}/") is not None)


def test_files_are_held_against_others_and_not_against_oneself() -> None:
    claims = [FileClaim("t3", "bob", ("src/**",))]
    found = claim_on(claims, "src/a.py", "alice")
    assert found is not None
    assert found.holder == "bob"
    assert claim_on(claims, "src/a.py", "bob") is None
    assert claim_on(claims, "notes/a.txt", "alice") is None
    assert claims_against(claims, ("**/*.py",), "alice") == claims[0]
    assert claims_against(claims, (), "alice") is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TaskSpec(title=" "), "title"),
        (TaskSpec(title="x", key="t3"), "key 't3' invalid"),
        (TaskSpec(title="x", for_="zoe"), "member 'zoe' not found"),
        (TaskSpec(title="x", files=("/etc/passwd",)), "working directory"),
        (TaskSpec(title="x", files=("a/../../b",)), "working directory"),
        (TaskSpec(title="x", check=" "), "not a command"),
        (TaskSpec(title="x", text="y" * 20_000), "characters"),
        (TaskSpec(title="x", needs=("a",) * 65), "64"),
        (TaskSpec(title="x", key="a", for_="bob", files=("src/**",), check="make"), None),
    ],
)
def test_what_cannot_be_a_task_is_refused_with_the_reason(spec: TaskSpec, expected: str | None) -> None:
    if expected is None:
        check_plan([spec], ["alice", "bob"])
        return
    with pytest.raises(Refused, match=re.escape(expected)):
        check_plan([spec], ["alice", "bob"])


def test_two_tasks_of_one_plan_have_two_keys() -> None:
    for plan in ([TaskSpec(title="x", key="a"), TaskSpec(title="y", key="a")], [], [TaskSpec(title="x")] * 201):
        with pytest.raises(Refused):
            check_plan(plan, [])


@pytest.mark.parametrize(
    ("glob", "other"),
    [("*a" * 149, "*b" * 149), ("**/a/" * 59, "**/*?a/" * 42), ("?" * 300, "a/" * 2000), ("**/" * 99, "**/" * 99)],
)
def test_no_glob_takes_the_kernel_long_or_down(glob: str, other: str) -> None:
    assert overlap([glob], [other]) == overlap([other], [glob])
