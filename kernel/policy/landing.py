"""Landing of agents' branches: the state machine as a table, batches, and the effect on a run. Pure.

A landing is requested; merged in memory (``merging``); verified (``checked``), with the old and new commit of the
branch known; and ``merged`` after the branch was moved. A failed landing is ``refused`` and changes nothing. After a
crash, the branch itself shows whether a checked landing was completed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeVar

import msgspec

from kernel.policy.run_completion import Choice, RunCompletion
from protocol.agent import AgentLimits
from protocol.ipc import Bound

LandingState = Literal["requested", "merging", "checked", "merged", "refused"]
LandingStep = Literal["begin", "pass", "land", "again", "refuse"]
"""begin: merge its branches. pass: the check succeeded. land: the result is on the branch. again: the branch was
moved by others, the batch failed, or the kernel died."""

_OVER: Mapping[LandingStep, LandingState] = {}
TRANSITIONS: Final[Mapping[LandingState, Mapping[LandingStep, LandingState]]] = {
    "requested": {"begin": "merging", "refuse": "refused"},
    "merging": {"pass": "checked", "land": "merged", "again": "requested", "refuse": "refused"},
    "checked": {"land": "merged", "again": "requested", "refuse": "refused"},
    "merged": _OVER,
    "refused": _OVER,
}

TRIES: Final = 20
"""Maximum tries of a landing whose branch is moved by others each time."""
TOGETHER: Final = 64
"""Maximum landings in one batch."""


class Queued(msgspec.Struct, frozen=True):
    """Queued landing, with the columns that determine its batch."""

    id: int
    repository: str
    branch: str
    check: str | None


Q = TypeVar("Q", bound=Queued)


def together(waiting: Sequence[Q], limit: int) -> tuple[Q, ...]:
    """Return the first landings of ``waiting``, at most ``limit``, that can share one check."""
    if not waiting:
        return ()
    first = waiting[0]
    same = (first.repository, first.branch, first.check)
    count = next((n for n, one in enumerate(waiting) if (one.repository, one.branch, one.check) != same), len(waiting))
    return tuple(waiting[: min(count, max(1, limit))])


def limit_after(size: int, limit: int, *, sound: bool) -> int:
    """Return the next batch limit: doubled after a ``sound`` batch, else half the last ``size``."""
    # Halving finds the landing that fails.
    return min(TOGETHER, max(limit, size) * 2) if sound else max(1, size // 2)


def tightest(limits: Iterable[AgentLimits]) -> Bound:
    """Return the resource limits of a check: the tightest of the agents whose work it checks."""
    known = tuple(limits)
    return Bound(
        memory_bytes=min((one.memory for one in known if one.memory is not None), default=None),
        processes=min((one.processes for one in known if one.processes is not None), default=None),
    )


Standing = Literal["moved", "untouched", "elsewhere"]


def settle(now: str | None, expected: str, *, tip_is_in: bool) -> Standing:
    """Return whether the branch contains the landing, is still at ``expected``, or neither."""
    if tip_is_in:
        return "moved"
    return "untouched" if now == expected else "elsewhere"


class LastDelivery(msgspec.Struct, frozen=True):
    """Newest landing by a run's ``deliver``; ``after``: the newest instruction at its request."""

    state: LandingState
    after: int
    why: str = ""

    @property
    def over(self) -> bool:
        """Return whether the landing has ended."""
        return not TRANSITIONS[self.state]


def delivers(when: Literal["done", "verdict"], over: RunCompletion, choice: Choice | None) -> bool:
    """Return whether a completed run's work has to be merged; ``choice`` is the run's verdict."""
    return over.exit_code == 0 if when == "done" else choice == "yes"


def next_delivery(last: LastDelivery | None, newest_instruction: int) -> Literal["request", "wait", "over"]:
    """Return the next delivery step of a run; new work after a delivery requires another one."""
    if last is None or (last.over and newest_instruction > last.after):
        return "request"
    return "over" if last.over else "wait"


def exit_by_delivery(over: RunCompletion, last: LastDelivery, branch: str) -> RunCompletion:
    """Return ``over`` with the result of its delivery; a failed delivery fails a successful run."""
    if last.state == "merged":
        return msgspec.structs.replace(over, reason=f"{over.reason}; merged into {branch}")
    if over.exit_code:
        return over
    return RunCompletion("failed", 1, f"not merged into {branch}: {last.why}")
