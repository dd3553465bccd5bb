"""The readiness of an open instruction, and the status of its agent in the process table. Pure.

An instruction can go on now, by itself at some time, or only once a person does something; an agent shows what most
of its work comes to.
"""

from typing import Final, Literal

import msgspec

from protocol.instruction import ENDED, LIVE, Status, WaitReason

Kind = Literal["ended", "runnable", "time", "person"]
Reason = WaitReason | Literal["backoff", "stopped", "error"]

BY_ITSELF: Final[frozenset[str]] = frozenset({"provider"})
"""Waits that end without a person, also where no time is known: somebody else's try ends them."""
AgentState = Literal["active", "paused", "stopped", "error"]
"""Nothing of an agent's queue is leased unless it is active; only a person changes the others."""


class Readiness(msgspec.Struct, frozen=True):
    """Readiness of an instruction: ``reason`` keeps it back, and at ``until_ms`` it goes on by itself (kind time)."""

    kind: Kind
    reason: Reason | None = None
    until_ms: int | None = None


class _Wait(msgspec.Struct, frozen=True):
    reason: Reason
    until_ms: int
    """0: nobody knows."""

    def needs_person(self) -> bool:
        return self.until_ms == 0 and self.reason not in BY_ITSELF


def readiness_of(own: Readiness, asked: Readiness) -> Readiness:
    """Return how who waits for an answer stands: as whom it asked, whose end lets it go on.

    ``own`` is how it stands by itself: what it asked has ended, so that nobody is left to answer.
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
    """Return how an instruction in ``state`` stands, given what it and its agent wait for (0 ms: no time is known).

    One that an attempt holds goes on, but where a call of it is kept waiting for somebody.

    A wait for a person wins over any time: when the time has come the person would still be waited for. Among
    persons' waits its own tells most, then the agent's hold, then the agent's state. Of times the last one counts.
    """
    if state in ENDED:
        return _ENDED
    if state in LIVE:
        return _RUNNABLE if waits_for is None else _kept_waiting(_Wait(waits_for, not_before_ms), now_ms)
    own_ms = 0 if waits_for == "paused" else not_before_ms  # what it waits for then comes after the pause
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
    """The columns that say whether an instruction can go on."""

    state: Status
    waits_for: WaitReason | None
    not_before_ms: int
    agent_state: AgentState
    hold_reason: WaitReason | None
    hold_until_ms: int
    resume_at_ms: int

    def readiness(self, now_ms: int) -> Readiness:
        """Its readiness by itself, whatever waits with it."""
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
    """An agent and its work. Times are the kernel's, 0 for none; ``due_ms`` None: nothing is in its lanes.

    ``parked_for`` is what the first of its waiting instructions waits for.
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
    """What a call of its live attempt is kept waiting for."""


class DerivedStatus(msgspec.Struct, frozen=True):
    """A state, why, and until when; ``until_ms`` None: nobody knows, or nothing is waited for."""

    state: Shown
    reason: str | None = None
    until_ms: int | None = None


_IDLE: Final = DerivedStatus("idle")


def agent_status(work: AgentWork, now_ms: int) -> DerivedStatus:
    """Work that runs, then what somebody decided, then what it waits for: a person before any time."""
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


def _of(found: Readiness) -> DerivedStatus:
    if found.reason == "backoff":
        return DerivedStatus("backoff", None, found.until_ms)
    return DerivedStatus("waiting", found.reason, found.until_ms)
