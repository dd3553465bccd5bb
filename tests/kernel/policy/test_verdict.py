"""When a run is over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.verdict import Progress, Verdict, verdict


def progress(**changes: object) -> Progress:
    """A run in which everything ended well."""
    facts: dict[str, object] = {
        "run": 1, "space": "review:main", "open": 0,
        "failed": 0, "incomplete": 0, "limited": False, "deadline_ms": None,
    }  # fmt: skip
    return Progress(**(facts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "status", "exit_code"),
    [
        ({}, "done", 0),
        ({"failed": 1}, "failed", 1),
        ({"incomplete": 2}, "incomplete", 6),
        ({"limited": True}, "incomplete", 6),
        ({"failed": 1, "incomplete": 1, "limited": True}, "failed", 1),
        ({"open": 1, "deadline_ms": 1000, "failed": 1}, "timeout", 124),
    ],
)
def test_the_worst_reason_gives_the_exit_code(changes: dict[str, object], status: str, exit_code: int) -> None:
    """contracts.md section 7, exit codes."""
    over = verdict(progress(**changes), now_ms=1000)
    assert isinstance(over, Verdict)
    assert (over.status, over.exit_code) == (status, exit_code)


@given(st.integers(1, 50), st.integers(0, 9), st.integers(0, 9), st.booleans(), st.integers(0, 10**6))
def test_a_run_with_open_work_goes_on_until_its_time_is_up(
    open_: int, failed: int, incomplete: int, limited: bool, now_ms: int
) -> None:
    """Promise P26: never while work is pending."""
    facts = progress(open=open_, failed=failed, incomplete=incomplete, limited=limited, deadline_ms=500_000)
    over = verdict(facts, now_ms)
    assert isinstance(over, Verdict) == (now_ms >= 500_000)
    if isinstance(over, int):
        assert over == 500_000 - now_ms
