"""When a run is over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interface.cli import exits
from kernel.policy.run_completion import BY_REASON, RUN_GRAVITY, RunCompletion, RunSnapshot, RunWaits, run_completion
from protocol.api.runs import RunOptions
from protocol.errors import EXIT_OF_CAUSE, EXIT_OF_WAIT

NOTHING = RunWaits()
SOON = RunWaits(timed=((2000, "provider"),))
NOW_MS = 1000


def progress(**changes: object) -> RunSnapshot:
    """A run in which everything ended well."""
    facts: dict[str, object] = {
        "run": 1, "space": "review:main", "waits": NOTHING,
        "failed": 0, "incomplete": 0, "limited": False, "deadline_ms": None,
    }  # fmt: skip
    return RunSnapshot(**(facts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "status", "exit_code"),
    [
        ({}, "done", 0),
        ({"failed": 1}, "failed", 1),
        ({"incomplete": 2}, "incomplete", 6),
        ({"limited": True}, "incomplete", 6),
        ({"failed": 1, "incomplete": 1, "limited": True}, "failed", 1),
        ({"waits": None, "deadline_ms": NOW_MS, "failed": 1}, "timeout", 124),
        ({"waits": RunWaits(persons=("hops", "credentials"))}, "incomplete", 4),
        ({"waits": RunWaits(persons=("budget", "approval")), "incomplete": 1}, "incomplete", 7),
        ({"waits": RunWaits(persons=("person", "hops")), "incomplete": 1}, "incomplete", 7),
        ({"waits": RunWaits(persons=("person", "credentials"))}, "incomplete", 4),
        (
            {"waits": RunWaits(persons=("person",)), "options": RunOptions(attended=True), "deadline_ms": NOW_MS},
            "timeout",
            124,
        ),
        ({"waits": RunWaits(persons=("credentials", "error"))}, "failed", 1),
        ({"waits": RunWaits(persons=("paused",))}, "failed", 1),
        ({"waits": RunWaits(persons=("quota",)), "failed": 1}, "failed", 1),
        ({"failed": 2, "causes": frozenset({"untrusted"})}, "failed", 7),
        ({"failed": 2, "causes": frozenset({"untrusted", "quota"})}, "failed", 4),
        ({"failed": 2, "causes": frozenset({"untrusted", "auth", "crash"})}, "failed", 1),
        ({"failed": 2, "causes": frozenset({"untrusted", None})}, "failed", 1),
        ({"failed": 1, "causes": frozenset({"untrusted"}), "incomplete": 1, "limited": True}, "failed", 7),
        (
            {"failed": 1, "causes": frozenset({"untrusted"}), "waits": RunWaits(persons=("credentials",))},
            "incomplete",
            4,
        ),
        ({"failed": 1, "causes": frozenset({"untrusted"}), "waits": RunWaits(persons=("budget",))}, "failed", 7),
        ({"waits": RunWaits(timed=((9000, "quota"),)), "deadline_ms": 8000}, "incomplete", 4),
        ({"waits": RunWaits(timed=((9000, "backoff"),)), "deadline_ms": 8000}, "timeout", 124),
        ({"waits": RunWaits(votes=(9000,)), "deadline_ms": NOW_MS}, "timeout", 124),
        ({"waits": RunWaits(votes=(9000,)), "limited": True, "used_up": True}, "incomplete", 6),
        ({"waits": RunWaits(votes=(9000,), persons=("budget",)), "limited": True, "used_up": True}, "incomplete", 6),
        ({"waits": RunWaits(votes=(9000,), persons=("credentials",))}, "incomplete", 4),
        ({"waits": RunWaits(votes=(9000,), persons=("quota", "hops"))}, "incomplete", 4),
        ({"waits": RunWaits(votes=(9000,), persons=("approval",))}, "incomplete", 7),
        ({"waits": RunWaits(votes=(9000,), persons=("error",))}, "failed", 1),
        ({"waits": RunWaits(votes=(9000,)), "failed": 1, "causes": frozenset({"untrusted"})}, "failed", 7),
    ],
)
def test_the_worst_reason_gives_the_exit_code(changes: dict[str, object], status: str, exit_code: int) -> None:
    """contracts 7, when a run ends, and its exit codes."""
    over = run_completion(progress(**changes), NOW_MS)
    assert isinstance(over, RunCompletion)
    assert (over.status, over.exit_code) == (status, exit_code)


def test_a_run_ends_with_the_code_that_any_command_would_end_with() -> None:
    known = {reason: over.exit_code for reason, over in BY_REASON.items() if reason in EXIT_OF_WAIT}
    assert known == dict(EXIT_OF_WAIT)
    codes = {0, *EXIT_OF_WAIT.values(), *EXIT_OF_CAUSE.values()}
    assert [code for code in RUN_GRAVITY if code in codes] == [int(code) for code in exits.RESULT_GRAVITY]


@pytest.mark.promise("P24", "P26")
@pytest.mark.parametrize(
    ("changes", "nap_ms"),
    [
        ({}, 8000),
        ({"deadline_ms": 3000}, 2000),
        ({"deadline_ms": 30_000}, 8000),
        ({"limited": True}, 8000),
        ({"used_up": True}, 8000),
        ({"failed": 1, "causes": frozenset({"crash"})}, 8000),
        ({"waits": RunWaits(votes=(9000,), persons=("hops",)), "limited": True}, 8000),
        ({"waits": RunWaits(votes=(9000,), persons=("error",)), "options": RunOptions(attended=True)}, 8000),
        ({"waits": RunWaits(votes=(9000,), timed=((7000, "backoff"),), persons=("error",))}, 6000),
        ({"waits": RunWaits(votes=(9000,), timed=((7000, "backoff"),)), "deadline_ms": 5000}, 4000),
        ({"failed": 1, "causes": frozenset({"auth"}), "options": RunOptions(attended=True)}, 8000),
    ],
)
def test_a_run_waits_for_a_vote_as_long_as_something_may_come_of_it(changes: dict[str, object], nap_ms: int) -> None:
    assert run_completion(progress(**({"waits": RunWaits(votes=(9000,))} | changes)), NOW_MS) == nap_ms


@pytest.mark.promise("P26")
@given(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.integers(0, 10**6), st.sampled_from([None, SOON]))
def test_a_run_with_work_that_can_go_on_lasts_until_its_time_is_up(
    failed: int, incomplete: int, limited: bool, now_ms: int, waits: RunWaits | None
) -> None:
    """Never while work is pending; the nap ends when something may have changed."""
    facts = progress(waits=waits, failed=failed, incomplete=incomplete, limited=limited, deadline_ms=500_000)
    over = run_completion(facts, now_ms)
    assert isinstance(over, RunCompletion) == (now_ms >= 500_000)
    if isinstance(over, int):
        assert over == max(1, (500_000 if waits is None else 2000) - now_ms)


@pytest.mark.promise("P55")
def test_a_run_that_somebody_watches_waits_for_a_persons_answer() -> None:
    watched = progress(waits=RunWaits(persons=("person",)), failed=1, options=RunOptions(attended=True))
    assert isinstance(run_completion(watched, NOW_MS), int)
