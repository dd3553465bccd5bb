"""``awk promote``: an instruction is done before those of other lanes."""

from interface.cli.changing import change_instructions
from interface.cli.changing import ids_argument as configure
from interface.cli.context import Context

__all__ = ["configure", "run"]


def run(context: Context) -> int:
    """Move each of them to the most urgent lane."""
    return change_instructions(context, "promote")
