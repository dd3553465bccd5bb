"""Run completion: the end of a run, and its exit code (contracts 7). Pure (promise P26).

What has not ended falls into three sets (kernel.policy.agent_status): what can go on now, what goes on by itself at
some time, what waits for a person. A run is over when nothing is in the first, and in the second only what comes too
late. The exit code may be one agent's, depend on the shape of the final answer, or on a vote.

What is put to the vote keeps a run as well, until its time is up: any vote may end it before. But not where nothing of
what comes of it could be used: a limit keeps everybody asleep, or a person is waited for, and nobody watches.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from kernel.policy.agent_status import Reason
from protocol.api.runs import RunOptions
from protocol.errors import EXIT_OF_CAUSE

RunStatus = Literal["done", "failed", "incomplete", "timeout", "rejected"]

FOREVER_MS: Final = 3_600_000


class RunWaits(msgspec.Struct, frozen=True):
    """Waits of a run that end at a known time, and those that a person ends; each with its reason.

    ``votes``: when what is put to the vote in it ends, if no vote ends it before.
    """

    timed: tuple[tuple[int, Reason | None], ...] = ()
    persons: tuple[Reason | None, ...] = ()
    votes: tuple[int, ...] = ()


class RunSnapshot(msgspec.Struct, frozen=True):
    """One snapshot of a run. Counts are of its instructions; times are the kernel's milliseconds.

    ``waits`` is None while something can go on at once: then nothing else matters.
    """

    run: int
    space: str
    waits: RunWaits | None
    failed: int
    incomplete: int
    limited: bool
    """A limit of the workflow was reached."""
    deadline_ms: int | None
    causes: frozenset[str | None] = frozenset()
    """Of what failed."""
    used_up: bool = False
    """A limit was reached that holds for everybody: not even what a vote comes to can wake anybody."""
    options: RunOptions = RunOptions()


class RunCompletion(msgspec.Struct, frozen=True):
    """The run is over. ``reason`` is for people."""

    status: RunStatus
    exit_code: int
    reason: str


_FAILED: Final = RunCompletion("failed", 1, "an agent is in error: see awk ps, then awk reset")
_STOPPED: Final = RunCompletion("failed", 1, "an agent is stopped")
_PAUSED: Final = RunCompletion("failed", 1, "somebody paused what is left to do")
_LIMITED: Final = RunCompletion("incomplete", 6, "a limit of the workflow was reached")
_BUDGET: Final = RunCompletion("incomplete", 6, "the budget is used up")
_TIMEOUT: Final = RunCompletion("timeout", 124, "what is left to do goes on only after the time is up")

BY_REASON: Final[Mapping[Reason | None, RunCompletion]] = {
    "error": _FAILED,
    "stopped": _STOPPED,
    "paused": _PAUSED,
    "answer": RunCompletion("failed", 1, "an answer did not come"),
    "credentials": RunCompletion(
        "incomplete", 4, "credentials are missing or refused; set them, then awk restart --kernel from that shell"
    ),
    "quota": RunCompletion("incomplete", 4, "a quota is used up; once there is more: awk reset AGENT"),
    "approval": RunCompletion(
        "incomplete",
        7,
        "an approval is needed, and nobody is here to give it: run it on a terminal, with --detach, "
        "or with --approve auto or deny; or awk start it",
    ),
    "person": RunCompletion(
        "incomplete",
        7,
        "a person has to answer, and nobody is here to: run it on a terminal, or with --detach; or awk start it",
    ),
    "node": RunCompletion("incomplete", 7, "no node that is up has what an agent needs: awk node list says why"),
    "budget": _BUDGET,
    "hops": _LIMITED,
    "provider": _TIMEOUT,
    "backoff": _TIMEOUT,
    None: _TIMEOUT,
}
"""What a run is that this keeps from going on, in order: the worst first."""

_ORDER: Final = {reason: place for place, reason in enumerate(BY_REASON)}

FAILED: Final = 1
REJECTED: Final = 8
_WHY_FAILED: Final[Mapping[int, str]] = {
    4: ": credentials or a quota are missing",
    7: ": what was to be done was not trusted (--trust)",
}
RUN_GRAVITY: Final = (0, 124, 6, REJECTED, 7, 4, FAILED)
"""Exit codes, the worst last."""
_LIMITS: Final = frozenset({"budget", "hops"})
"""What nobody who watches a run can lift."""


def run_completion(progress: RunSnapshot, now_ms: int) -> RunCompletion | int:
    """The verdict, or the milliseconds after which to look again though nothing happened.

    The worst reason wins: a failure tells more than what somebody waits for, and that more than a limit.
    """
    waits = progress.waits
    deadline_ms = progress.deadline_ms
    if waits is None:
        return _until(deadline_ms, deadline_ms, now_ms)
    in_time = [until_ms for until_ms, _ in waits.timed if deadline_ms is None or until_ms < deadline_ms]
    # Any vote may end what is put to it before its own time: it never comes too late, as a backoff does.
    next_ms = min((*in_time, *(() if _in_vain(progress, waits) else waits.votes)), default=None)
    if next_ms is not None:
        return _until(next_ms if deadline_ms is None else min(next_ms, deadline_ms), deadline_ms, now_ms)
    if progress.options.attended and "person" in waits.persons:  # who is there may answer at any time
        return _until(deadline_ms, deadline_ms, now_ms)
    reasons: set[Reason | None] = {*waits.persons, *(reason for _, reason in waits.timed)}
    found = (*_failed(progress), *(BY_REASON[reason] for reason in sorted(reasons, key=_ORDER.__getitem__)))
    worst = max(found, key=lambda one: RUN_GRAVITY.index(one.exit_code), default=None)  # the first of the worst
    if worst is not None:
        return worst
    if progress.incomplete:
        return RunCompletion("incomplete", 6, f"{_counted(progress.incomplete)} ended incomplete")
    return _LIMITED if progress.limited else RunCompletion("done", 0, "nothing is left to do")


def _in_vain(progress: RunSnapshot, waits: RunWaits) -> bool:
    if progress.limited and progress.used_up:
        return True
    missing = not _LIMITS.issuperset(waits.persons) or not EXIT_OF_CAUSE.keys().isdisjoint(progress.causes)
    return missing and not progress.options.attended


def _until(next_ms: int | None, deadline_ms: int | None, now_ms: int) -> RunCompletion | int:
    if deadline_ms is not None and now_ms >= deadline_ms:
        return RunCompletion("timeout", 124, "the time was up before all was done")
    return FOREVER_MS if next_ms is None else max(1, next_ms - now_ms)


def _failed(progress: RunSnapshot) -> tuple[RunCompletion, ...]:
    """Return what the failures of a run say, if there are any: as ``send --wait`` does, by the worst cause."""
    if not progress.failed:
        return ()
    codes = {EXIT_OF_CAUSE.get(cause or "", FAILED) for cause in progress.causes} or {FAILED}
    code = max(codes, key=RUN_GRAVITY.index)
    text = f"{_counted(progress.failed)} failed{_WHY_FAILED.get(code, '')}"
    return (RunCompletion("failed", code, text),)


def _counted(count: int) -> str:
    return f"{count} instruction{'' if count == 1 else 's'}"


Choice = Literal["yes", "no"]


class ExitChoice(msgspec.Struct, frozen=True):
    """The agent whose work gives the run's exit code. ``status`` is that of its last instruction; None: it had none."""

    name: str
    status: str | None = None
    cause: str | None = None
    ended: bool = False


class FinalAnswer(msgspec.Struct, frozen=True):
    """The answer of the approval called ``name``, which decides over a run. ``choice`` None: none; ``why`` tells."""

    name: str
    choice: Choice | None = None
    why: str = ""


def exit_by_agent(over: RunCompletion, chosen: ExitChoice) -> RunCompletion:
    """Return what ``over`` is where only the work of ``chosen`` counts. That the time was up counts all the same."""
    if over.status == "timeout" or (chosen.status is not None and not chosen.ended):
        return over
    if chosen.status is None:
        return over if over.exit_code else RunCompletion("failed", FAILED, f"{chosen.name} was given nothing to do")
    if chosen.status == "done":
        return RunCompletion("done", 0, f"{chosen.name} is done")
    why = f"{chosen.name}: {chosen.status}{f' ({chosen.cause})' if chosen.cause else ''}"
    if chosen.status == "incomplete":
        return RunCompletion("incomplete", 6, why)
    return RunCompletion("failed", EXIT_OF_CAUSE.get(chosen.cause or "", FAILED), why)


def exit_by_output(over: RunCompletion, misfit: str | None) -> RunCompletion:
    """Return what ``over`` is where the final answer does not fit, and why."""
    if over.status != "done" or misfit is None:
        return over
    return RunCompletion("failed", FAILED, f"the final answer does not fit output_schema: {misfit}")


def exit_by_tasks(over: RunCompletion, left: int, *, excused: bool) -> RunCompletion:
    """Return what ``over`` is where so many tasks are ``left`` that are not over; ``excused`` by what counts more."""
    if over.exit_code or not left or excused:
        return over
    many = "1 task is" if left == 1 else f"{left} tasks are"
    return RunCompletion("incomplete", 6, f"{many} not done, and nobody goes on with that (awk task list)")


def exit_by_verdict(over: RunCompletion, answer: FinalAnswer) -> RunCompletion:
    """Return what ``over`` is where a vote decides. Only a yes leaves what is done done; what is worse than a no stays.

    Without an answer it is incomplete: who relies on the exit code must not take a vote that nobody won for a yes.
    """
    if answer.choice == "no":
        rejected = RunCompletion("rejected", REJECTED, f"the verdict ({answer.name}) is no")
        return max(rejected, over, key=lambda one: RUN_GRAVITY.index(one.exit_code))
    if over.exit_code:
        return over
    if answer.choice is None:
        return RunCompletion("incomplete", 6, f"there is no verdict: {answer.why}")
    return msgspec.structs.replace(over, reason=f"{over.reason}, and the verdict ({answer.name}) is yes")
