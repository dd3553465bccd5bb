"""Schedules of agents: their intervals and cron lines, the mistakes in them, and the demands they make.

Cron lines: five fields (minute, hour, day of month, month, day of week), read in a time zone. cronsim does the sums.

Where clocks are put forward or back (fault TF02), as Debian's cron does it: a line with fixed hours and minutes fires
once a day, after the gap where its time was skipped, the first time where it comes twice. A line with ``*`` in either
follows real time.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from cronsim import CronSim, CronSimError

from kernel.source.diagnostics import nearest
from kernel.source.scalars import GRAMMAR, DurationRejected, parse_duration, show_duration
from protocol.agent import Schedule
from protocol.limits import AgentBudget
from protocol.message import TEXT_LIMIT_BYTES
from protocol.names import NameRejected, check_tag, check_workflow_name

FIELDS: Final = 5
HINT: Final = "write five fields: minute hour day-of-month month day-of-week, for example 0 9 * * 1-5"
LOCAL_TIME: Final = Path("/etc/localtime")
NEVER_MS: Final = 2**62
_LONGEST: Final = 200
_PER_SECOND: Final = 1000
_PROBE: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""A line that has nothing to say in the fifty years after it never has."""


class CronRejected(ValueError):
    """Text that is no cron line, or one that never comes."""


class ZoneRejected(ValueError):
    """A name that is no time zone here. ``hint`` names the nearest one that is."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Cron:
    """A cron line in a time zone. Raises CronRejected."""

    def __init__(self, line: str, zone: tzinfo) -> None:
        if len(line) > _LONGEST or len(line.split()) != FIELDS:
            raise CronRejected(f"{line[:40]!r} is not a cron line: it needs {FIELDS} fields")
        self._line = line
        self._zone = zone
        try:
            found = next(CronSim(line, _PROBE), None)
        except (CronSimError, ValueError, AssertionError) as error:
            raise CronRejected(f"{line[:40]!r} is not a cron line: {str(error) or 'a field is wrong'}") from error
        if found is None:
            raise CronRejected(f"{line[:40]!r} never comes")

    def next_after(self, wall_ms: int) -> int:
        """The first time later than ``wall_ms``, in milliseconds since 1970."""
        start = datetime.fromtimestamp(wall_ms // _PER_SECOND, self._zone)
        times = (int(found.timestamp()) * _PER_SECOND for found in CronSim(self._line, start))
        # Inside an hour that comes twice they may begin before wall_ms: its first time over.
        return next((found for found in times if found > wall_ms), NEVER_MS)


def find_zone(name: str) -> tzinfo:
    """The IANA time zone ``name``. Raises ZoneRejected."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # also the name of a folder, or one that leads out of it
        close = nearest(name, available_timezones())
        hint = "name it as in Europe/Berlin, or UTC" if close is None else f"did you mean {close}?"
        raise ZoneRejected(f"{name[:60]!r} is not a time zone known here", hint) from error


def local_zone(named: str | None, file: Path = LOCAL_TIME) -> tzinfo:
    """The zone of this machine: ``named`` (the variable TZ) if that is one, else what ``file`` holds, else UTC."""
    try:
        if named:
            return find_zone(named.removeprefix(":"))
        with file.open("rb") as data:
            return ZoneInfo.from_file(data)
    except (ZoneRejected, ValueError, OSError):
        return UTC


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


def parse_wakeup(schedule: Schedule, local: str | None) -> Every | Cron:
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


def _cron(schedule: Schedule, local: str | None) -> Cron:
    if len(schedule.wakeup.split()) < 2:
        message = f"{schedule.wakeup[:40]!r} is neither a duration nor a cron line"
        raise ScheduleRejected("wakeup", message, f"{GRAMMAR}, or as cron: 0 9 * * 1-5")
    try:
        zone = local_zone(local) if schedule.timezone is None else find_zone(schedule.timezone)
        return Cron(schedule.wakeup, zone)
    except CronRejected as error:
        raise ScheduleRejected("wakeup", str(error), HINT) from error
    except ZoneRejected as error:
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
