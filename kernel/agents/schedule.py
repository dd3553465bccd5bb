"""Schedules of agents: intervals and cron expressions, their validation, and the demands they make.

Cron expressions have five fields (minute, hour, day of month, month, day of week), interpreted in a time zone by
cronsim. Daylight saving changes (fault TF02) are handled like Debian's cron: an expression with a fixed hour and minute
fires once a day, after the gap if its time was skipped, and the first time if it occurs twice. An expression with ``*``
in either field follows real time.
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
"""An expression without a match in the fifty years after this date never matches."""


class CronRejected(ValueError):
    """Text that is not a cron expression, or one that never matches."""


class ZoneRejected(ValueError):
    """An unknown time zone. ``hint`` names the most similar one."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Cron:
    """A cron expression in a time zone. Raises CronRejected."""

    def __init__(self, line: str, zone: tzinfo) -> None:
        if len(line) > _LONGEST or len(line.split()) != FIELDS:
            raise CronRejected(f"{line[:40]!r} is not a cron expression: it needs {FIELDS} fields")
        self._line = line
        self._zone = zone
        try:
            found = next(CronSim(line, _PROBE), None)
        except (CronSimError, ValueError, AssertionError) as error:
            raise CronRejected(f"{line[:40]!r} is not a cron expression: {str(error) or 'invalid field'}") from error
        if found is None:
            raise CronRejected(f"{line[:40]!r} never matches")

    def next_after(self, wall_ms: int) -> int:
        """Return the first match after ``wall_ms`` in ms since 1970; NEVER_MS without a match."""
        start = datetime.fromtimestamp(wall_ms // _PER_SECOND, self._zone)
        times = (int(found.timestamp()) * _PER_SECOND for found in CronSim(self._line, start))
        # In an hour that occurs twice, matches may start before wall_ms: skip the first occurrence.
        return next((found for found in times if found > wall_ms), NEVER_MS)


def find_zone(name: str) -> tzinfo:
    """Return the IANA time zone ``name``. Raises ZoneRejected."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # the name may be that of a folder, or lead outside of it
        close = nearest(name, available_timezones())
        hint = "use a name such as Europe/Berlin or UTC" if close is None else f"did you mean {close}?"
        raise ZoneRejected(f"{name[:60]!r} is not a known time zone", hint) from error


def local_zone(named: str | None, file: Path = LOCAL_TIME) -> tzinfo:
    """Return the zone of this machine: ``named`` (the variable TZ) if valid, else the one in ``file``, else UTC."""
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
    "Your schedule woke you. Check the messages since your last work, and what you left unfinished. "
    "Do the work that is due now; if there is none, say so in one line."
)


class Every(msgspec.Struct, frozen=True):
    """Schedule with a fixed interval."""

    period_ms: int


class ScheduleRejected(ValueError):
    """An invalid schedule. ``key`` is the key with the error."""

    def __init__(self, key: str, message: str, hint: str | None) -> None:
        super().__init__(message)
        self.key = key
        self.message = message
        self.hint = hint


def parse_wakeup(schedule: Schedule, local: str | None) -> Every | Cron:
    """Parse the interval or cron expression of ``schedule``. Raises ScheduleRejected.

    A cron expression without a time zone uses the machine's; ``local`` is the variable TZ.
    """
    try:
        seconds = parse_duration(schedule.wakeup)
    except DurationRejected:
        return _cron(schedule, local)
    if schedule.timezone is not None:
        raise ScheduleRejected("timezone", "is only for a cron expression; remove it from an interval", "remove it")
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        bounds = f"from {show_duration(SHORTEST_SECONDS)} to {show_duration(LONGEST_SECONDS)}"
        raise ScheduleRejected("wakeup", f"must be {bounds}, is {schedule.wakeup.strip()[:40]}", GRAMMAR)
    return Every(round(seconds * 1000))


def _cron(schedule: Schedule, local: str | None) -> Cron:
    if len(schedule.wakeup.split()) < 2:
        message = f"{schedule.wakeup[:40]!r} is neither a duration nor a cron expression"
        raise ScheduleRejected("wakeup", message, f"{GRAMMAR}, or a cron expression: 0 9 * * 1-5")
    try:
        zone = local_zone(local) if schedule.timezone is None else find_zone(schedule.timezone)
        return Cron(schedule.wakeup, zone)
    except CronRejected as error:
        raise ScheduleRejected("wakeup", str(error), HINT) from error
    except ZoneRejected as error:
        raise ScheduleRejected("timezone", str(error), error.hint) from error


def faults(schedule: Schedule) -> Iterator[ScheduleRejected]:
    """Yield all errors in ``schedule``."""
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
    """Split ``review:pr-1`` into the workflow's name and its tag; None for any tag. Raises NameRejected."""
    name, colon, tag = text.partition(":")
    return check_workflow_name(name), check_tag(tag) if colon else None


def wakes_text(name: str, schedule: Schedule) -> str:
    """Return the full text of the demand for the wakeups that ``schedule`` gives the agent ``name``."""
    is_cron = len(schedule.wakeup.split()) > 1
    zone = f" ({schedule.timezone or 'local time'})" if is_cron else ""
    when = f"{'at' if is_cron else 'every'} {schedule.wakeup}{zone}"
    where = f" in {schedule.workspace}" if schedule.workspace is not None else ""
    told = schedule.prompt if (schedule.prompt or "").strip() else "what a wakeup is for"
    return f"{name} wakes by itself {when}{where}, and is told: {told}"


def spends_text(name: str, budget: AgentBudget) -> str:
    """Return the text of the demand for the cost limit of scheduled wakeups."""
    limits = [f"{budget.tokens} tokens"] if budget.tokens is not None else []
    limits += [f"{budget.usd:g} USD"] if budget.usd is not None else []
    if not limits:
        return f"{name} has no budget: nothing bounds what it spends when it wakes"
    return f"{name} may spend {' and '.join(limits)} within {show_duration(budget.window)}, awake or asked"
