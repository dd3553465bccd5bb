"""Whether an open instruction can go on: now, by itself at some time, or only once a person does something. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

from protocol.instruction import ENDED, LIVE, Status, WaitReason

Kind = Literal["ended", "runnable", "time", "person"]
Reason = WaitReason | Literal["backoff", "stopped", "error"]

BY_ITSELF: Final[frozenset[str]] = frozenset({"provider"})
"""Waits that end without a person, also where no time is known: somebody else's try ends them."""
AgentState = Literal["active", "paused", "stopped", "error"]
"""Nothing of an agent's queue is leased unless it is active; only a person changes the others."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How an instruction stands. ``reason`` says what keeps it, ``until_ms`` when it goes on by itself (kind time)."""

    kind: Kind
    reason: Reason | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Wait:
    reason: Reason
    until_ms: int
    """0: nobody knows."""

    def needs_person(self) -> bool:
        return self.until_ms == 0 and self.reason not in BY_ITSELF


def through(own: Standing, asked: Standing) -> Standing:
    """How who waits for an answer stands: as whom it asked, whose end lets it go on.

    ``own`` is how it stands by itself: what it asked has ended, so that nobody is left to answer.
    """
    if asked.kind == "ended" or asked == own:
        return own
    return Standing(asked.kind, asked.reason or own.reason, asked.until_ms)


_ENDED: Final = Standing("ended")
_RUNNABLE: Final = Standing("runnable")


def standing(
    state: Status,
    waits_for: WaitReason | None,
    not_before_ms: int,
    agent_state: AgentState,
    hold_reason: WaitReason | None,
    hold_until_ms: int,
    resume_at_ms: int,
    now_ms: int,
) -> Standing:
    """How an instruction in ``state`` stands, given what it and its agent wait for (0 ms: no time is known).

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
            return Standing("person", wait.reason)
    backoff_ms = max(resume_at_ms, 0 if state == "waiting" else not_before_ms)
    last = max((*waits, _Wait("backoff", backoff_ms)), key=lambda wait: wait.until_ms)
    return Standing("time", last.reason, last.until_ms) if last.until_ms > now_ms else _RUNNABLE


def _kept_waiting(wait: _Wait, now_ms: int) -> Standing:
    if wait.needs_person():
        return Standing("person", wait.reason)
    return Standing("time", wait.reason, wait.until_ms) if wait.until_ms > now_ms else _RUNNABLE
