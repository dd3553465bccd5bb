"""When a run is over, and what its exit code is. Pure (promise P26, contracts.md section 7)."""

from dataclasses import dataclass
from typing import Final, Literal

RunStatus = Literal["done", "failed", "incomplete", "timeout"]

FOREVER_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Progress:
    """One snapshot of a run. Counts are of its instructions; times are wall milliseconds."""

    run: int
    space: str
    open: int
    failed: int
    incomplete: int
    limited: bool
    """A limit of the workflow (hops, instructions) kept somebody asleep."""
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The run is over. ``reason`` is for people."""

    status: RunStatus
    exit_code: int
    reason: str


def verdict(progress: Progress, now_ms: int) -> Verdict | int:
    """The verdict, or the milliseconds after which to look again though nothing happened.

    The worst reason wins: a failure tells more than a limit.
    """
    if progress.open:
        return _going_on(progress, now_ms)
    reasons = (
        (progress.failed > 0, Verdict("failed", 1, f"{progress.failed} instructions failed")),
        (progress.incomplete > 0, Verdict("incomplete", 6, f"{progress.incomplete} instructions ended incomplete")),
        (progress.limited, Verdict("incomplete", 6, "a limit of the workflow was reached")),
    )
    return next((over for holds, over in reasons if holds), Verdict("done", 0, "nothing is left to do"))


def _going_on(progress: Progress, now_ms: int) -> Verdict | int:
    if progress.deadline_ms is None:
        return FOREVER_MS
    if now_ms < progress.deadline_ms:
        return progress.deadline_ms - now_ms
    return Verdict("timeout", 124, f"{progress.open} instructions were still open when the time was up")
