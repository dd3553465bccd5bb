"""The tools that agents of a project can have."""

import shlex

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.toolbox import ToolList, ToolRow


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each."""
    tools = msgspec.json.decode(body, type=ToolList).tools
    rows = [[one.name, one.switch, one.kind, _changes(one), ", ".join(one.agents) or "-", _about(one)] for one in tools]
    return table(["NAME", "IN TOOLS:", "KIND", "CHANGES", "AGENTS", "WHAT IT DOES"], rows, screen)


def _changes(one: ToolRow) -> str:
    return "nothing" if one.read_only else "yes"


def _about(one: ToolRow) -> str:
    return (
        f"{one.description} ({shlex.join(one.command)})" if one.command and one.kind == "command" else one.description
    )
