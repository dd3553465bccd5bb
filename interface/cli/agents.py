"""How the kernel calls the agent that a target means: one that lives inside a workflow has a key of its own."""

import json
from typing import Any

from interface.cli.targets import target
from interface.client import Client, quoted
from interface.failure import Failure
from protocol.target import Target


def agent_target(text: str) -> Target:
    """``text`` as a target that names an agent. Raises Failure (bad_target)."""
    asked = target(text)
    if asked.agent is None:
        raise Failure("bad_target", f"{text!r} names no agent", f"name one: alice{text}")
    return asked


def agent_path(client: Client, asked: Target, what: str) -> str:
    """The path of ``what`` (queue, reset, ...) of the agent. Raises Failure where it is no participant."""
    return f"/agents/{quoted(_key(client, asked))}/{what}"


def _key(client: Client, asked: Target) -> str:
    """An agent that a workflow refers to has one queue for all its spaces, an inline one a queue of its own."""
    if asked.workflow is None:
        return str(asked.agent)
    members: list[dict[str, Any]] = json.loads(client.get(f"/spaces/{quoted(asked.space)}/members"))["members"]
    found = next((row for row in members if row["name"] == asked.agent), None)
    if found is None:
        names = ", ".join(str(row["name"]) for row in members)
        raise Failure("not_a_participant", f"{asked.agent} is not in {asked.space}", f"there are: {names}")
    return str(found.get("agent") or asked.agent)
