"""``awk continue``: the limits of a workflow, or the budget of an agent, once more."""

from interface.cli.changing import change_target
from interface.cli.changing import target_change as configure
from interface.cli.context import Context

__all__ = ["configure", "run"]


def run(context: Context) -> int:
    """Let go on what a limit held back."""
    return change_target(context, "continue")
