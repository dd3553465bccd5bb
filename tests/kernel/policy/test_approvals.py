"""Patterns of what was approved once for all."""

import time

import pytest

from kernel.policy.tools import ApprovalRule, covering, matches

COMMAND = '{"command":"git status"}'


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        (COMMAND, COMMAND, True),
        ('{"command":"git *"}', COMMAND, True),
        ('{"command":"git status*"}', COMMAND, True),
        ("*", COMMAND, True),
        ("*git*status*", COMMAND, True),
        ('{"command":"git"}', COMMAND, False),
        ("git *", COMMAND, False),
        ("*status*git*", COMMAND, False),
        ("*.*", COMMAND, False),
        ("ab*ba", "aba", False),
        ("a*b*c", "abc", True),
        ("a*b*bc", "abc", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_pattern_fits_the_whole_input_and_a_star_any_text(pattern: str, text: str, *, fits: bool) -> None:
    assert matches(pattern, text) is fits


def test_an_input_that_an_agent_chooses_cannot_make_it_slow() -> None:
    begun = time.process_time()
    assert not matches("*a" * 2000 + "*b*c", "a" * 1_000_000)
    assert time.process_time() - begun < 1


def test_the_first_rule_that_fits_counts() -> None:
    """So that the decision names one rule, the same each time."""
    rules = (ApprovalRule(1, "x"), ApprovalRule(2, '{"command":"git *"}'), ApprovalRule(3, "*"))
    assert covering(rules, COMMAND) == rules[1]
    assert covering(rules[:1], COMMAND) is None
