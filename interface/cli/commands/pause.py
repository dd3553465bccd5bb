"""``awk pause``: an agent or a workflow begins nothing; what runs gives way after its next entry."""

from interface.cli.changing import change_target
from interface.cli.changing import target_change as configure
from interface.cli.context import Context

__all__ = ["configure", "run"]


def run(context: Context) -> int:
    """Hold its work back."""
    return change_target(context, "pause")
