"""Rules that create: random histories, and what the limits are for; scripts/soak creations tries thousands."""

from collections.abc import Collection

import pytest

from kernel.policy import creation
from kernel.store.transitions import creations
from protocol.agent import Scope
from protocol.limits import RunBudget
from tests.kernel.store.creation_histories import trial

pytestmark = pytest.mark.promise("P53", "P54")
HISTORIES = 300


def test_what_rules_create_is_within_limits_and_scopes_and_happens_once() -> None:
    assert sum(map(trial, range(HISTORIES))) > 3 * HISTORIES


@pytest.mark.parametrize("wrong", ["depth", "number", "scopes", "lineage", "budget"])
def test_a_limit_that_does_not_hold_is_found_out(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlimited(_verb: str, depth: int, made: int) -> None:
        creation.check_creation("open_space", 1 if wrong == "depth" else depth, 0 if wrong == "number" else made)

    def anybody(_name: str, _asked: Collection[Scope], _author: Collection[Scope] | None) -> None:
        return None

    def whole(budget: RunBudget, _tokens: int, _usd: float, _own: RunBudget) -> RunBudget:
        return budget

    lineage = ("INHERITED", "SELECT ?, ?, ? WHERE 0")
    doubles = {"scopes": ("check_scopes", anybody), "lineage": lineage, "budget": ("share_of", whole)}
    name, double = doubles.get(wrong, ("check_creation", unlimited))
    monkeypatch.setattr(creations, name, double)
    with pytest.raises(AssertionError):
        sum(map(trial, range(HISTORIES)))


def test_a_run_gets_a_share_of_what_is_left_or_its_own_budget_if_that_is_lower() -> None:
    share = creation.share_of(RunBudget(tokens=100, usd=4.0), 20, 2.0, RunBudget(tokens=1_000, usd=0.5))
    assert share == RunBudget(tokens=40, usd=0.5)
    assert creation.share_of(RunBudget(), 20, 2.0, RunBudget(tokens=7)) == RunBudget(tokens=7)
