"""What the process table says that an agent is doing."""

from typing import Any

import pytest
from msgspec.structs import replace

from kernel.policy.agent_status import AgentWork, DerivedStatus, agent_status, urgency

NOW = 1_000_000
IDLE = AgentWork(
    live=False, state="active", reason=None, due_ms=None, parked_for=None, parked_until_ms=0, hold_reason=None,
    hold_until_ms=0, resume_at_ms=0, kept_for=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("work", "shown"),
    [
        ({}, DerivedStatus("idle")),
        ({"due_ms": 0}, DerivedStatus("idle")),
        ({"live": True, "state": "paused"}, DerivedStatus("running")),
        ({"state": "error", "reason": "5 crashes in 60 s"}, DerivedStatus("error", "5 crashes in 60 s")),
        ({"state": "stopped", "resume_at_ms": NOW + 5}, DerivedStatus("stopped")),
        ({"due_ms": NOW + 5}, DerivedStatus("backoff", None, NOW + 5)),
        ({"due_ms": 0, "resume_at_ms": NOW + 5}, DerivedStatus("backoff", None, NOW + 5)),
        ({"hold_reason": "credentials", "due_ms": 0}, DerivedStatus("waiting", "credentials")),
        ({"hold_reason": "provider", "hold_until_ms": NOW + 5}, DerivedStatus("waiting", "provider", NOW + 5)),
        ({"parked_for": "budget"}, DerivedStatus("waiting", "budget")),
        ({"parked_for": "budget", "due_ms": 0}, DerivedStatus("idle")),
        ({"parked_for": "budget", "due_ms": NOW + 5}, DerivedStatus("waiting", "budget")),
        ({"parked_for": "quota", "parked_until_ms": NOW + 5}, DerivedStatus("waiting", "quota", NOW + 5)),
    ],
    ids=str,
)
def test_the_state_of_an_agent(work: dict[str, Any], shown: DerivedStatus) -> None:
    assert agent_status(replace(IDLE, **work), NOW) == shown


def test_the_most_urgent_agents_come_first() -> None:
    order = [
        DerivedStatus("error"), DerivedStatus("waiting", "approval"), DerivedStatus("running"),
        DerivedStatus("waiting", "provider", 5), DerivedStatus("paused"), DerivedStatus("idle"),
    ]  # fmt: skip
    assert [urgency(one, silent=False) for one in order] == list(range(len(order)))
    assert urgency(DerivedStatus("running"), silent=True) < urgency(DerivedStatus("running"), silent=False)
    assert urgency(DerivedStatus("waiting", "provider"), silent=False) == urgency(order[3], silent=False)
