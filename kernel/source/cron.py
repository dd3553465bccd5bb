"""Cron lines: five fields (minute, hour, day of month, month, day of week), read in a time zone. cronsim does the sums.

Where clocks are put forward or back (fault TF02), as Debian's cron does it: a line with fixed hours and minutes fires
once a day, after the gap where its time was skipped, the first time where it comes twice. A line with ``*`` in either
follows real time.
"""

from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from kernel.source.diagnostics import nearest

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
