"""Schedules of agents: their intervals and cron lines, the mistakes in them, and the demands they make."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from kernel.source.scalars import GRAMMAR, DurationRejected, parse_duration, show_duration
from protocol.agent import Schedule
from protocol.budget import AgentBudget
from protocol.message import TEXT_LIMIT_BYTES
from protocol.names import NameRejected, check_tag, check_workflow_name

if TYPE_CHECKING:
    from kernel.source.cron import Cron

SHORTEST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30 * 86_400.0
DEFAULT_PROMPT: Final = (
    "Your schedule woke you. See what was said since you last worked and what you left unfinished. "
    "Do what needs doing now; where nothing does, say so in one line."
)


class Every(msgspec.Struct, frozen=True):
    """An interval."""

    period_ms: int


class ScheduleRejected(ValueError):
    """A schedule that cannot be kept. ``key`` is what is wrong in it."""

    def __init__(self, key: str, message: str, hint: str | None) -> None:
        super().__init__(message)
        self.key = key
        self.message = message
        self.hint = hint


def parse_wakeup(schedule: Schedule, local: str | None) -> "Every | Cron":
    """Read the interval or cron line of ``schedule``. Raises ScheduleRejected.

    A cron line that names no time zone is read in that of the machine; ``local`` is its variable TZ.
    """
    try:
        seconds = parse_duration(schedule.wakeup)
    except DurationRejected:
        return _cron(schedule, local)
    if schedule.timezone is not None:
        raise ScheduleRejected("timezone", "is for a cron line; an interval needs none", "remove it")
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        bounds = f"from {show_duration(SHORTEST_SECONDS)} to {show_duration(LONGEST_SECONDS)}"
        raise ScheduleRejected("wakeup", f"must be {bounds}, is {schedule.wakeup.strip()[:40]}", GRAMMAR)
    return Every(round(seconds * 1000))


def _cron(schedule: Schedule, local: str | None) -> "Cron":
    from kernel.source import cron  # noqa: PLC0415  (only who uses one pays for the import)

    if len(schedule.wakeup.split()) < 2:
        message = f"{schedule.wakeup[:40]!r} is neither a duration nor a cron line"
        raise ScheduleRejected("wakeup", message, f"{GRAMMAR}, or as cron: 0 9 * * 1-5")
    try:
        zone = cron.local_zone(local) if schedule.timezone is None else cron.find_zone(schedule.timezone)
        return cron.Cron(schedule.wakeup, zone)
    except cron.CronRejected as error:
        raise ScheduleRejected("wakeup", str(error), cron.HINT) from error
    except cron.ZoneRejected as error:
        raise ScheduleRejected("timezone", str(error), error.hint) from error


def faults(schedule: Schedule) -> Iterator[ScheduleRejected]:
    """Everything that is wrong with ``schedule``."""
    try:
        parse_wakeup(schedule, "UTC")
    except ScheduleRejected as error:
        yield error
    if schedule.workspace is not None:
        try:
            split_workspace(schedule.workspace)
        except NameRejected as error:
            yield ScheduleRejected("workspace", str(error), "write workspace: review, or review:tag")
    if schedule.prompt is not None and len(schedule.prompt.encode("utf-8", "replace")) > TEXT_LIMIT_BYTES:
        yield ScheduleRejected("prompt", f"can have at most {TEXT_LIMIT_BYTES} bytes", "put the text into a file")


def split_workspace(text: str) -> tuple[str, str | None]:
    """``review:pr-1`` as the workflow's name and its tag; None for any. Raises NameRejected."""
    name, colon, tag = text.partition(":")
    return check_workflow_name(name), check_tag(tag) if colon else None


def wakes_text(name: str, schedule: Schedule) -> str:
    """The wakeups that ``schedule`` gives the agent ``name`` do, as it is agreed to: all of it, verbatim."""
    is_cron = len(schedule.wakeup.split()) > 1
    zone = f" ({schedule.timezone or 'local time'})" if is_cron else ""
    when = f"{'at' if is_cron else 'every'} {schedule.wakeup}{zone}"
    where = f" in {schedule.workspace}" if schedule.workspace is not None else ""
    told = schedule.prompt if (schedule.prompt or "").strip() else "what a wakeup is for"
    return f"{name} wakes by itself {when}{where}, and is told: {told}"


def spends_text(name: str, budget: AgentBudget) -> str:
    """The bound on the cost of wakeups that nobody asks for."""
    limits = [f"{budget.tokens} tokens"] if budget.tokens is not None else []
    limits += [f"{budget.usd:g} USD"] if budget.usd is not None else []
    if not limits:
        return f"{name} has no budget: nothing bounds what it spends when it wakes"
    return f"{name} may spend {' and '.join(limits)} within {show_duration(budget.window)}, awake or asked"
