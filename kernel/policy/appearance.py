"""What the process table says that an agent is doing. Pure (decisions.md, Names: states of an agent)."""

from dataclasses import dataclass
from typing import Final, Literal

from kernel.policy.standing import AgentState, Standing, standing
from protocol.instruction import WaitReason

Shown = Literal["idle", "running", "waiting", "backoff", "paused", "stopped", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
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
    kept_for: WaitReason | None = None
    """What a call of its live attempt is kept waiting for."""


@dataclass(frozen=True, slots=True)
class Appearance:
    """A state, why, and until when; ``until_ms`` None: nobody knows, or nothing is waited for."""

    state: Shown
    reason: str | None = None
    until_ms: int | None = None


_IDLE: Final = Appearance("idle")


def appearance(work: Work, now_ms: int) -> Appearance:
    """Work that runs, then what somebody decided, then what it waits for: a person before any time."""
    if work.live and work.kept_for is not None:
        return Appearance("waiting", work.kept_for)
    if work.live:
        return Appearance("running", work.reason)
    if work.state != "active":
        return Appearance(work.state, work.reason)
    lanes = standing(
        "queued", None, work.due_ms or 0, "active", work.hold_reason, work.hold_until_ms, work.resume_at_ms, now_ms
    )
    if lanes.kind == "runnable" and work.due_ms is not None:
        return _IDLE  # about to be leased
    waits = [lanes, *_parked(work, now_ms)]
    found = next((one for kind in ("person", "time") for one in waits if one.kind == kind), None)
    return _IDLE if found is None else _of(found)


def _parked(work: Work, now_ms: int) -> list[Standing]:
    if work.parked_for is None:
        return []
    return [standing("waiting", work.parked_for, work.parked_until_ms, "active", None, 0, 0, now_ms)]


def _of(found: Standing) -> Appearance:
    if found.reason == "backoff":
        return Appearance("backoff", None, found.until_ms)
    return Appearance("waiting", found.reason, found.until_ms)
