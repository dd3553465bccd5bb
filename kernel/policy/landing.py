"""Landing agents' branches: its state machine as a table, what lands together, and what a run does about it. Pure.

A landing is requested; merged in memory (``merging``); found sound (``checked``), which is when it is known what the
branch is moved from and to; and ``merged`` once it was moved. What cannot land is ``refused``, and nothing has changed.
What is checked is settled by looking at the branch, whoever died over it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeVar

import msgspec

from kernel.policy.run_completion import Choice, RunCompletion
from protocol.agent import AgentLimits
from protocol.ipc import Bound

LandingState = Literal["requested", "merging", "checked", "merged", "refused"]
LandingStep = Literal["begin", "pass", "land", "again", "refuse"]
"""begin: its branches are being merged. pass: the result is sound. land: it is on the branch, or was already.
again: the branch was moved by somebody else, others stood in the way, or a kernel died."""

_OVER: Mapping[LandingStep, LandingState] = {}
TRANSITIONS: Final[Mapping[LandingState, Mapping[LandingStep, LandingState]]] = {
    "requested": {"begin": "merging", "refuse": "refused"},
    "merging": {"pass": "checked", "land": "merged", "again": "requested", "refuse": "refused"},
    "checked": {"land": "merged", "again": "requested", "refuse": "refused"},
    "merged": _OVER,
    "refused": _OVER,
}

TRIES: Final = 20
"""How often one is begun whose branch somebody else moves each time."""
TOGETHER: Final = 64
"""How many land together at most."""


class Queued(msgspec.Struct, frozen=True):
    """One landing in the queue, as far as it matters for what it lands with."""

    id: int
    repository: str
    branch: str
    check: str | None


Q = TypeVar("Q", bound=Queued)


def together(waiting: Sequence[Q], limit: int) -> tuple[Q, ...]:
    """The first of ``waiting``, and those right behind it that one check can stand for: ``limit`` of them at most."""
    if not waiting:
        return ()
    first = waiting[0]
    same = (first.repository, first.branch, first.check)
    count = next((n for n, one in enumerate(waiting) if (one.repository, one.branch, one.check) != same), len(waiting))
    return tuple(waiting[: min(count, max(1, limit))])


def limit_after(size: int, limit: int, *, sound: bool) -> int:
    """The number that may land together after ``size`` of them were ``sound``, or not.

    It is half of what was red, which is how the one is found that made it so.
    """
    return min(TOGETHER, max(limit, size) * 2) if sound else max(1, size // 2)


def tightest(limits: Iterable[AgentLimits]) -> Bound:
    """The most that a check may use of the machine: as much as each of the agents whose work it checks."""
    known = tuple(limits)
    return Bound(
        memory_bytes=min((one.memory for one in known if one.memory is not None), default=None),
        processes=min((one.processes for one in known if one.processes is not None), default=None),
    )


Standing = Literal["moved", "untouched", "elsewhere"]


def settle(now: str | None, expected: str, *, tip_is_in: bool) -> Standing:
    """Say of a branch that is at ``now`` whether it was moved from ``expected``: where the tip is in it, it was."""
    if tip_is_in:
        return "moved"
    return "untouched" if now == expected else "elsewhere"


class LastDelivery(msgspec.Struct, frozen=True):
    """The newest landing that a run's ``deliver`` asked for. ``after``: the newest instruction at that time."""

    state: LandingState
    after: int
    why: str = ""

    @property
    def over(self) -> bool:
        """Return whether it has ended."""
        return not TRANSITIONS[self.state]


def delivers(when: Literal["done", "verdict"], over: RunCompletion, choice: Choice | None) -> bool:
    """Return whether a run that comes out as ``over`` is one whose work is to be merged."""
    return over.exit_code == 0 if when == "done" else choice == "yes"


def next_delivery(last: LastDelivery | None, newest_instruction: int) -> Literal["request", "wait", "over"]:
    """The next step of a run whose work is to be merged: what was done since the last time is merged as well."""
    if last is None or (last.over and newest_instruction > last.after):
        return "request"
    return "over" if last.over else "wait"


def exit_by_delivery(over: RunCompletion, last: LastDelivery, branch: str) -> RunCompletion:
    """Return what ``over`` is where its work was to be merged."""
    if last.state == "merged":
        return msgspec.structs.replace(over, reason=f"{over.reason}; merged into {branch}")
    if over.exit_code:
        return over
    return RunCompletion("failed", 1, f"not merged into {branch}: {last.why}")
