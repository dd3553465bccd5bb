"""Whether memory is short: then nothing more is started, and what runs goes on.

What counts is the tighter of two: the machine, and the control group we are in (a container's limit).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

FRESH_SECONDS: Final = 1.0
CGROUPS: Final = Path("/sys/fs/cgroup")
OWN: Final = Path("/proc/self/cgroup")


class Memory:
    """Asked before every lease, looks once a second. ``clock`` is in seconds."""

    def __init__(self, *, clock: Callable[[], float], look: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._look = look or free_part
        self._looked_at: float | None = None
        self._free = 1.0

    def pressed(self, reserve: float) -> bool:
        """Whether less than ``reserve`` (a fraction) of the memory is free."""
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= FRESH_SECONDS:
            self._looked_at = now
            self._free = self._look()
        return self._free < reserve


def free_part(cgroups: Path = CGROUPS, own: Path = OWN) -> float:
    """The fraction of the memory that is free, here or in the control group that has least. Reads /proc and /sys."""
    import psutil  # noqa: PLC0415  (only where somebody works already: a start does not wait for it)

    machine = psutil.virtual_memory()
    parts = [machine.available / machine.total if machine.total else 1.0]
    for group in _groups(cgroups, own):
        part = _free_in(group)
        if part is not None:
            parts.append(part)
    return min(parts)


def _groups(cgroups: Path, own: Path) -> tuple[Path, ...]:
    """Our control group and those above it (version 2); none where there are none."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return ()
    path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    if path is None:
        return ()
    group = cgroups / path.strip().lstrip("/")
    return tuple(one for one in (group, *group.parents) if one.is_relative_to(cgroups))


def _free_in(group: Path) -> float | None:
    """None where nothing is limited. What the page cache holds can be taken back, so it is free."""
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if not limit.isdecimal() or int(limit) == 0:
        return None
    cached = int(counts.get("inactive_file", 0)) + int(counts.get("active_file", 0))
    return max(0.0, 1 - max(0, used - cached) / int(limit))
