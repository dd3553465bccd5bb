"""Whether an open instruction goes on: now, at some time, or once a person does something."""

from typing import Any, get_args

import pytest

from kernel.policy.agent_status import Readiness, readiness, readiness_of
from protocol.errors import EXIT_OF_WAIT
from protocol.instruction import ENDED, LIVE, STATUSES, WaitReason

NOW = 1_000_000
FREE: dict[str, Any] = {
    "waits_for": None, "not_before_ms": 0, "agent_state": "active", "hold_reason": None, "hold_until_ms": 0,
    "resume_at_ms": 0, "now_ms": NOW,
}  # fmt: skip


def stand(state: Any, **more: Any) -> Readiness:
    return readiness(state, **FREE | more)


@pytest.mark.promise("P26")
@pytest.mark.parametrize("state", STATUSES)
def test_what_nothing_holds_is_runnable_until_it_ends(state: Any) -> None:
    assert stand(state).kind == ("ended" if state in ENDED else "runnable")


@pytest.mark.parametrize("state", sorted(LIVE | ENDED))
def test_a_pause_does_not_touch_what_runs_or_ended(state: Any) -> None:
    assert stand(state, agent_state="error", hold_reason="quota").kind != "person"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"not_before_ms": NOW + 5}, "backoff"),
        ({"resume_at_ms": NOW + 5}, "backoff"),
        ({"hold_reason": "provider", "hold_until_ms": NOW + 5}, "provider"),
        ({"hold_reason": "quota", "hold_until_ms": NOW + 5, "resume_at_ms": NOW + 3}, "quota"),
    ],
)
def test_a_wait_for_time_says_until_when(more: dict[str, Any], reason: str) -> None:
    assert stand("queued", **more) == Readiness("time", reason, NOW + 5)  # type: ignore[arg-type]
    assert stand("queued", **more | {"now_ms": NOW + 5}).kind == "runnable"


@pytest.mark.promise("P26")
@pytest.mark.parametrize("reason", [one for one in get_args(WaitReason) if one != "provider"])
def test_a_wait_without_a_time_is_for_a_person(reason: Any) -> None:
    assert stand("waiting", waits_for=reason) == Readiness("person", reason)
    assert reason in EXIT_OF_WAIT
    kind = "person" if reason == "paused" else "time"
    assert stand("waiting", waits_for=reason, not_before_ms=NOW + 1).kind == kind


def test_a_provider_without_a_time_is_tried_by_somebody_else() -> None:
    assert stand("waiting", waits_for="provider").kind == "runnable"
    assert stand("queued", hold_reason="provider").kind == "runnable"


@pytest.mark.parametrize("state", ["paused", "stopped", "error"])
def test_an_agent_that_does_no_work_needs_a_person_whatever_else_it_waits_for(state: Any) -> None:
    for more in ({}, {"not_before_ms": NOW + 9}, {"hold_reason": "provider", "hold_until_ms": NOW + 9}):
        assert stand("queued", agent_state=state, **more) == Readiness("person", state)
    assert stand("waiting", waits_for="provider", not_before_ms=NOW + 9, agent_state=state).kind == "person"
    assert state in EXIT_OF_WAIT


def test_its_own_wait_tells_more_than_its_agents_state() -> None:
    assert stand("waiting", waits_for="credentials", agent_state="paused").reason == "credentials"


ASKS = Readiness("person", "answer")


@pytest.mark.promise("P26")
@pytest.mark.parametrize(
    ("asked", "asker"),
    [
        (Readiness("runnable"), Readiness("runnable", "answer")),
        (Readiness("time", "provider", NOW + 5), Readiness("time", "provider", NOW + 5)),
        (Readiness("person", "credentials"), Readiness("person", "credentials")),
        (Readiness("ended"), ASKS),
        (ASKS, ASKS),
    ],
)
def test_who_waits_for_an_answer_stands_as_whom_it_asked(asked: Readiness, asker: Readiness) -> None:
    """It goes on when that has ended; where nobody is left to answer, only a person can help."""
    assert readiness_of(ASKS, asked) == asker
