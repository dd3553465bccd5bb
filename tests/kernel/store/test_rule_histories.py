"""Any rules and messages lead to what a plain interpreter says; scripts/soak rules tries thousands."""

import pytest

from kernel.policy import rules as policy
from kernel.policy.rules import RuleStep
from kernel.rule.draft import Fact
from kernel.rule.effects import RuleView
from tests.kernel.store.rule_histories import trial

pytestmark = pytest.mark.promise("P53", "P54")
HISTORIES = 40


def test_rules_do_what_a_plain_interpreter_does() -> None:
    assert sum(map(trial, range(HISTORIES))) > 10 * HISTORIES


@pytest.mark.parametrize(("name", "wrong"), [("FUEL", 33), ("DEPTH", 9)])
def test_an_interpreter_with_other_bounds_is_found_out(name: str, wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, name, wrong)
    with pytest.raises(AssertionError):
        sum(map(trial, range(10 * HISTORIES)))


def test_an_author_that_has_left_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def anybody(_step: RuleStep, _fact: Fact, _view: RuleView) -> None:
        return None

    monkeypatch.setattr("kernel.rule.rules.defined.may", anybody)
    with pytest.raises(AssertionError):
        sum(map(trial, range(10 * HISTORIES)))
