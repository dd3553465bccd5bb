"""``awk resume``: after a pause or a stop, or where an agent waits for its provider or a key."""

from interface.cli.changing import change_target
from interface.cli.changing import target_change as configure
from interface.cli.context import Context

__all__ = ["configure", "run"]


def run(context: Context) -> int:
    """Let its work go on."""
    return change_target(context, "resume")
