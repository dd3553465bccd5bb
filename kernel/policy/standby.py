"""Judges a copy of the log: when people have to know of it. Pure."""

from typing import Final

from protocol.standby import StandbyState

STALE_SECONDS: Final = 60.0
"""Behind by more than this it is told to people."""


def standby_notice(found: StandbyState) -> str | None:
    """Say what a person should know and do; None: nothing."""
    if found.lag_seconds < STALE_SECONDS and found.state in ("following", "copying"):
        return None
    why = found.why or "the place takes nothing"
    behind = f"is {found.lag_seconds:.0f} s behind" if found.state != "untrusted" else "is not made"
    return f"the standby at {found.to} {behind}: {why} ({found.fix or 'see to it'})"
