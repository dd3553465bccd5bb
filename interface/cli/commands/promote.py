"""``awk promote``: an instruction is done before those of other lanes; within a lane the oldest is first."""

import json

from interface.cli.agents import agent_path
from interface.cli.changing import Row, change_instructions
from interface.cli.changing import ids_argument as configure
from interface.cli.context import Context
from interface.cli.targets import target
from interface.client import Client
from interface.failure import Failure

__all__ = ["configure", "run"]


def run(context: Context) -> int:
    """Move each of them to the most urgent lane, and say what is before it there."""
    return change_instructions(context, "promote", remark=_behind)


def _behind(client: Client, row: Row) -> str | None:
    """What is done before it all the same. That it cannot be said is no failure."""
    space = str(row["space"])
    named = row["agent"] if space.startswith("dm:") else f"{row['agent']}@{space}"
    try:
        queue = json.loads(client.get(agent_path(client, target(named), "queue")))["instructions"]
    except Failure:
        return None
    older = [one["id"] for one in queue if one["lane"] == "immediate" and _number(one["id"]) < _number(row["id"])]
    return f"{row['id']} comes after {', '.join(older)}: they are as urgent, and older" if older else None


def _number(name: str) -> int:
    return int(name[1:])
