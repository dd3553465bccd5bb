"""Readiness of an open instruction, and the status of its agent in the process table. Pure.

An instruction can run now, at a known time, or only after a person acts. The status of an agent follows from its work.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from protocol.instruction import ENDED, LIVE, Status, WaitReason

Kind = Literal["ended", "runnable", "time", "person"]
Reason = WaitReason | Literal["backoff", "stopped", "error"]

BY_ITSELF: Final[frozenset[str]] = frozenset({"provider"})
"""Wait reasons that end without a person even if no time is known: the attempt of another agent ends them."""
AgentState = Literal["active", "paused", "stopped", "error"]
"""Only an active agent receives work from its queue; only a person changes the other states."""


class Readiness(msgspec.Struct, frozen=True):
    """Readiness of an instruction: ``reason`` blocks it, and at ``until_ms`` it becomes runnable (kind ``time``)."""

    kind: Kind
    reason: Reason | None = None
    until_ms: int | None = None


class _Wait(msgspec.Struct, frozen=True):
    reason: Reason
    until_ms: int
    """0: unknown."""

    def needs_person(self) -> bool:
        return self.until_ms == 0 and self.reason not in BY_ITSELF


def readiness_of(own: Readiness, asked: Readiness) -> Readiness:
    """Return the readiness of an instruction that waits for another instruction's answer.

    The waiting instruction is as ready as the ``asked`` instruction. Once that instruction has
    ended, no answer can come, and only ``own`` counts.
    """
    if asked.kind == "ended" or asked == own:
        return own
    return Readiness(asked.kind, asked.reason or own.reason, asked.until_ms)


_ENDED: Final = Readiness("ended")
_RUNNABLE: Final = Readiness("runnable")


def readiness(
    state: Status,
    waits_for: WaitReason | None,
    not_before_ms: int,
    agent_state: AgentState,
    hold_reason: WaitReason | None,
    hold_until_ms: int,
    resume_at_ms: int,
    now_ms: int,
) -> Readiness:
    """Return the readiness of an instruction by its own and its agent's waits (0 ms: unknown).

    A live instruction is runnable unless one of its calls waits.

    A wait for a person takes precedence over any time, because the person is needed even after that time. Among waits
    for a person, the order is: the instruction's own, the agent's hold, the agent's state. Among times, the latest
    counts.
    """
    if state in ENDED:
        return _ENDED
    if state in LIVE:
        return _RUNNABLE if waits_for is None else _kept_waiting(_Wait(waits_for, not_before_ms), now_ms)
    own_ms = 0 if waits_for == "paused" else not_before_ms  # its own wait starts after the pause
    waits = [
        *([_Wait(waits_for or "provider", own_ms)] if state == "waiting" else ()),
        *([_Wait(hold_reason, hold_until_ms)] if hold_reason is not None else ()),
        *([_Wait(agent_state, 0)] if agent_state != "active" else ()),
    ]
    for wait in waits:
        if wait.needs_person():
            return Readiness("person", wait.reason)
    backoff_ms = max(resume_at_ms, 0 if state == "waiting" else not_before_ms)
    last = max((*waits, _Wait("backoff", backoff_ms)), key=lambda wait: wait.until_ms)
    return Readiness("time", last.reason, last.until_ms) if last.until_ms > now_ms else _RUNNABLE


def _kept_waiting(wait: _Wait, now_ms: int) -> Readiness:
    if wait.needs_person():
        return Readiness("person", wait.reason)
    return Readiness("time", wait.reason, wait.until_ms) if wait.until_ms > now_ms else _RUNNABLE


class Waiting(msgspec.Struct, frozen=True):
    """Columns that determine the readiness of an instruction."""

    state: Status
    waits_for: WaitReason | None
    not_before_ms: int
    agent_state: AgentState
    hold_reason: WaitReason | None
    hold_until_ms: int
    resume_at_ms: int

    def readiness(self, now_ms: int) -> Readiness:
        """Return the instruction's own readiness, regardless of any instruction that it asked."""
        return readiness(
            self.state,
            self.waits_for,
            self.not_before_ms,
            self.agent_state,
            self.hold_reason,
            self.hold_until_ms,
            self.resume_at_ms,
            now_ms,
        )


Shown = Literal["idle", "running", "waiting", "backoff", "paused", "stopped", "error"]


class AgentWork(msgspec.Struct, frozen=True):
    """Agent with its work; times are Unix times in ms, 0 for none.

    ``due_ms``: when its queue may be leased, None if empty. ``parked_for``: wait reason of its
    first waiting instruction.
    """

    live: bool
    state: AgentState
    reason: str | None
    due_ms: int | None
    parked_for: WaitReason | None
    parked_until_ms: int
    hold_reason: WaitReason | None
    hold_until_ms: int
    resume_at_ms: int
    kept_for: WaitReason | None
    """Wait reason of a call of its live attempt."""


class DerivedStatus(msgspec.Struct, frozen=True):
    """Displayed state of an agent; ``until_ms``: end of a wait, None if unknown or not waiting."""

    state: Shown
    reason: str | None = None
    until_ms: int | None = None


_IDLE: Final = DerivedStatus("idle")


def agent_status(work: AgentWork, now_ms: int) -> DerivedStatus:
    """Return an agent's status: by a running attempt, else by the agent's state, else by waits."""
    if work.live and work.kept_for is not None:
        return DerivedStatus("waiting", work.kept_for)
    if work.live:
        return DerivedStatus("running", work.reason)
    if work.state != "active":
        return DerivedStatus(work.state, work.reason)
    lanes = readiness(
        "queued", None, work.due_ms or 0, "active", work.hold_reason, work.hold_until_ms, work.resume_at_ms, now_ms
    )
    if lanes.kind == "runnable" and work.due_ms is not None:
        return _IDLE  # about to be leased
    parked: list[Readiness]
    if work.parked_for is None:
        parked = []
    else:
        parked = [readiness("waiting", work.parked_for, work.parked_until_ms, "active", None, 0, 0, now_ms)]
    waits = [lanes, *parked]
    found = next((one for kind in ("person", "time") for one in waits if one.kind == kind), None)
    return _IDLE if found is None else _of(found)


_URGENCY: Final[Mapping[Shown, int]] = {"error": 0, "running": 2, "waiting": 3, "backoff": 3, "paused": 4, "stopped": 4}


def urgency(shown: DerivedStatus, *, silent: bool) -> int:
    """Return the rank in the process table: errors, agents that need a person, running, waiting, held, idle."""
    waits = shown.state == "waiting" and shown.until_ms is None and shown.reason not in BY_ITSELF
    return 1 if silent or waits else _URGENCY.get(shown.state, 5)


def _of(found: Readiness) -> DerivedStatus:
    if found.reason == "backoff":
        return DerivedStatus("backoff", None, found.until_ms)
    return DerivedStatus("waiting", found.reason, found.until_ms)
