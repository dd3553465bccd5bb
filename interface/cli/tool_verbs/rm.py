"""``awk tool rm``: a tool of the project goes; not while an agent has it."""

import argparse
import json
from functools import partial

from interface.cli.context import Context
from interface.cli.tool_verbs.changing import KEY, require, written
from interface.failure import Failure
from interface.loader import ask
from interface.yaml_edit import without_value


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME."""
    parser.add_argument("name", metavar="NAME", help="a tool of the project")


def run(context: Context) -> int:
    """Remove it, and print the file."""
    name: str = context.args.name
    require(context, name)
    rows = json.loads(ask(None, "tools", "--project", context.project.root))["tools"]
    agents = [agent for row in rows if row["name"] == name for agent in row["agents"]]
    if agents:
        text = f"{', '.join(agents)} has {name} in tools:"
        raise Failure("conflict", text, f"take it out there first: {context.program} agent edit {agents[0]}")
    return written(context, (name,), partial(without_value, path=[KEY, name]))
