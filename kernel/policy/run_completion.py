"""Completion of a run and its exit code (contracts 7). Pure (promise P26).

Open instructions (kernel.policy.agent_status) are runnable now, runnable at a known time, or waiting for a person. A
run is over if none is runnable now, and none becomes runnable before the deadline. Its exit code may also depend on
one agent, on the format of the final answer, or on a vote.

An open proposal keeps a run alive until its deadline, because votes may end it earlier. Without use
for a result the run ends: if a limit blocks all agents, or an unattended run waits for a person.
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
    """Waits of a run: ``timed`` and ``persons``, with reasons; ``votes``: deadlines of votes."""

    timed: tuple[tuple[int, Reason | None], ...] = ()
    persons: tuple[Reason | None, ...] = ()
    votes: tuple[int, ...] = ()


class RunSnapshot(msgspec.Struct, frozen=True):
    """Snapshot of a run; counts are of its instructions, times are ms of the kernel's clock.

    ``waits`` is None while an instruction is runnable; the other fields then do not matter.
    """

    run: int
    space: str
    waits: RunWaits | None
    failed: int
    incomplete: int
    limited: bool
    """The run has reached a limit of the workflow."""
    deadline_ms: int | None
    causes: frozenset[str | None] = frozenset()
    """Causes of the failed instructions."""
    used_up: bool = False
    """The limit applies to all agents, so that not even the result of a vote can wake one."""
    options: RunOptions = RunOptions()


class RunCompletion(msgspec.Struct, frozen=True):
    """End of a run; ``reason`` is for people."""

    status: RunStatus
    exit_code: int
    reason: str


_FAILED: Final = RunCompletion("failed", 1, "an agent is in error: see awk ps, then awk reset")
_STOPPED: Final = RunCompletion("failed", 1, "an agent is stopped")
_PAUSED: Final = RunCompletion("failed", 1, "the remaining work is paused")
_LIMITED: Final = RunCompletion("incomplete", 6, "a limit of the workflow was reached")
_BUDGET: Final = RunCompletion("incomplete", 6, "the budget is exhausted")
_TIMEOUT: Final = RunCompletion("timeout", 124, "the remaining work would only continue after the deadline")

BY_REASON: Final[Mapping[Reason | None, RunCompletion]] = {
    "error": _FAILED,
    "stopped": _STOPPED,
    "paused": _PAUSED,
    "answer": RunCompletion("failed", 1, "an agent waits for an answer that cannot come"),
    "credentials": RunCompletion(
        "incomplete",
        4,
        "credentials are missing or rejected; set them, then run awk restart --kernel in the same shell",
    ),
    "quota": RunCompletion("incomplete", 4, "a quota is exhausted; when it is available again, run awk reset AGENT"),
    "approval": RunCompletion(
        "incomplete",
        7,
        "an approval is required, but no user is attached: run on a terminal, with --detach, "
        "or with --approve auto or deny; or use awk start",
    ),
    "person": RunCompletion(
        "incomplete",
        7,
        "an answer is required, but no user is attached: run on a terminal, or with --detach; or use awk start",
    ),
    "node": RunCompletion("incomplete", 7, "no connected node meets an agent's requirements: see awk node list"),
    "budget": _BUDGET,
    "hops": _LIMITED,
    "provider": _TIMEOUT,
    "backoff": _TIMEOUT,
    None: _TIMEOUT,
}
"""Completion of a run by the reason that blocks it, worst first."""

_ORDER: Final = {reason: place for place, reason in enumerate(BY_REASON)}

FAILED: Final = 1
REJECTED: Final = 8
_WHY_FAILED: Final[Mapping[int, str]] = {
    4: ": credentials or quota missing",
    7: ": the work was not trusted (see --trust)",
}
RUN_GRAVITY: Final = (0, 124, 6, REJECTED, 7, 4, FAILED)
"""Exit codes in ascending order of severity."""
_LIMITS: Final = frozenset({"budget", "hops"})
"""Waits that a user who watches a run cannot end."""


def run_completion(progress: RunSnapshot, now_ms: int) -> RunCompletion | int:
    """Return a run's completion, or, while the run continues, the ms until the next check.

    An event triggers a check earlier. The worst reason decides: a failure, then a wait for a person, then a limit.
    """
    waits = progress.waits
    deadline_ms = progress.deadline_ms
    if waits is None:
        return _until(deadline_ms, deadline_ms, now_ms)
    in_time = [until_ms for until_ms, _ in waits.timed if deadline_ms is None or until_ms < deadline_ms]
    # A vote may end before its deadline, so it never counts as too late (unlike a backoff).
    next_ms = min((*in_time, *(() if _are_votes_useless(progress, waits) else waits.votes)), default=None)
    if next_ms is not None:
        return _until(next_ms if deadline_ms is None else min(next_ms, deadline_ms), deadline_ms, now_ms)
    if progress.options.attended and "person" in waits.persons:  # an attached user may answer at any time
        return _until(deadline_ms, deadline_ms, now_ms)
    reasons: set[Reason | None] = {*waits.persons, *(reason for _, reason in waits.timed)}
    found = (*_failed(progress), *(BY_REASON[reason] for reason in sorted(reasons, key=_ORDER.__getitem__)))
    worst = max(found, key=lambda one: RUN_GRAVITY.index(one.exit_code), default=None)  # the first of equal severity
    if worst is not None:
        return worst
    if progress.incomplete:
        return RunCompletion("incomplete", 6, f"{_counted(progress.incomplete)} ended incomplete")
    return _LIMITED if progress.limited else RunCompletion("done", 0, "all work is done")


def _are_votes_useless(progress: RunSnapshot, waits: RunWaits) -> bool:
    if progress.limited and progress.used_up:
        return True
    missing = not _LIMITS.issuperset(waits.persons) or not EXIT_OF_CAUSE.keys().isdisjoint(progress.causes)
    return missing and not progress.options.attended


def _until(next_ms: int | None, deadline_ms: int | None, now_ms: int) -> RunCompletion | int:
    if deadline_ms is not None and now_ms >= deadline_ms:
        return RunCompletion("timeout", 124, "the deadline passed before all work was done")
    return FOREVER_MS if next_ms is None else max(1, next_ms - now_ms)


def _failed(progress: RunSnapshot) -> tuple[RunCompletion, ...]:
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
    """Agent whose work determines the exit code, with the status of its last instruction (None if it had none)."""

    name: str
    status: str | None = None
    cause: str | None = None
    ended: bool = False


class FinalAnswer(msgspec.Struct, frozen=True):
    """Result of the approval ``name``, which decides a run; ``why`` explains a missing ``choice`` (None)."""

    name: str
    choice: Choice | None = None
    why: str = ""


def exit_by_agent(over: RunCompletion, chosen: ExitChoice) -> RunCompletion:
    """Return the completion by the work of the agent ``chosen`` only; a timeout still applies."""
    if over.status == "timeout" or (chosen.status is not None and not chosen.ended):
        return over
    if chosen.status is None:
        return over if over.exit_code else RunCompletion("failed", FAILED, f"{chosen.name} received no work")
    if chosen.status == "done":
        return RunCompletion("done", 0, f"{chosen.name} is done")
    why = f"{chosen.name}: {chosen.status}{f' ({chosen.cause})' if chosen.cause else ''}"
    if chosen.status == "incomplete":
        return RunCompletion("incomplete", 6, why)
    return RunCompletion("failed", EXIT_OF_CAUSE.get(chosen.cause or "", FAILED), why)


def exit_by_output(over: RunCompletion, misfit: str | None) -> RunCompletion:
    """Return ``over``, or a failure if a done run's answer violates its schema (``misfit``)."""
    if over.status != "done" or misfit is None:
        return over
    return RunCompletion("failed", FAILED, f"the final answer does not match output_schema: {misfit}")


def exit_by_tasks(over: RunCompletion, left: int, *, excused: bool) -> RunCompletion:
    """Return ``over``, or incomplete if ``left`` tasks are open; ``excused``: ignore open tasks."""
    if over.exit_code or not left or excused:
        return over
    many = "1 task is" if left == 1 else f"{left} tasks are"
    return RunCompletion("incomplete", 6, f"{many} not done, and no agent works on them (awk task list)")


def exit_by_verdict(over: RunCompletion, answer: FinalAnswer) -> RunCompletion:
    """Return the completion ``over`` of a run, corrected by its deciding vote ``answer``.

    A yes changes no exit code. A no rejects the run, unless ``over`` is more severe. An undecided
    vote makes a successful run incomplete, so that it is never mistaken for a yes.
    """
    if answer.choice == "no":
        rejected = RunCompletion("rejected", REJECTED, f"the verdict ({answer.name}) is no")
        return max(rejected, over, key=lambda one: RUN_GRAVITY.index(one.exit_code))
    if over.exit_code:
        return over
    if answer.choice is None:
        return RunCompletion("incomplete", 6, f"no verdict: {answer.why}")
    return msgspec.structs.replace(over, reason=f"{over.reason}, and the verdict ({answer.name}) is yes")
