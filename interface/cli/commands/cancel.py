"""``awk cancel``: instructions are taken back, also those that run."""

from interface.cli.changing import change_instructions
from interface.cli.changing import ids_argument as configure
from interface.cli.context import Context

__all__ = ["configure", "run"]


def run(context: Context) -> int:
    """End each of them."""
    return change_instructions(context, "cancel")
