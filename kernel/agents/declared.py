"""The key ``agents`` of the project file: agents written there, and files that lie outside ``.agents/``.

A map of names, or a list of paths and of agents that say their own name. Whether files are there is not looked at.
"""

import os
from pathlib import PurePath
from typing import NamedTuple

import msgspec

from kernel.agents.definition import AGENT_SHAPES, Named, check_agent, convert_agent
from kernel.agents.partial import check_partial
from kernel.source.located import Converter
from kernel.source.nodes import ListNode, MapNode, Node, ScalarNode
from kernel.source.problems import Place, Problems
from protocol.agent import AgentDefinition
from protocol.names import NameRejected, check_name
from protocol.project import ProjectDefinition

_FORMS = "write <name>: with a path or an agent under it, or a list of paths and of agents with name:"


class _Entry(NamedTuple):
    """One agent as it was written: the name, where that stands, and a path or the agent itself."""

    name: str
    place: Place
    node: Node
    where: str


def with_agents(definition: ProjectDefinition, node: Node | None, problems: Problems) -> ProjectDefinition:
    """``definition`` with what ``node``, its key ``agents``, declares. Mistakes are noted in ``problems``."""
    if node is None:
        return definition
    found: dict[str, str | AgentDefinition] = {}
    places: dict[str, Place] = {}
    for entry in _entries(node, problems):
        first = places.setdefault(entry.name, entry.place)
        if first is not entry.place:
            message = f"{entry.name} is defined twice in {problems.path}: in line {first.line} too"
            problems.add(entry.place, entry.where, message, "keep one of them, or take another name")
            continue
        value = _value(entry, definition, problems)
        if value is not None:
            found[entry.name] = value
    return msgspec.structs.replace(definition, agents=found)


def place_of(node: Node, name: str) -> Place:
    """Where the project file, as the tree ``node``, declares the agent ``name``; its beginning where it does not."""
    agents = node.get("agents") if isinstance(node, MapNode) else None
    entries = () if agents is None else _entries(agents, Problems(""))
    return next((entry.place for entry in entries if entry.name == name), node.place)


def _entries(node: Node, problems: Problems) -> list[_Entry]:
    if isinstance(node, MapNode):
        named = [_Entry(key.text, key.place, child, f"agents.{key.text[:60]}") for key, child in node.entries]
    elif isinstance(node, ListNode):
        named = [_item(item, f"agents[{index}]", problems) for index, item in enumerate(node.items)]
    else:
        problems.add(node.place, "agents", "needs names, or a list", _FORMS)
        named = []
    return [entry for entry in named if _is_sound(entry, problems)]


def _item(node: Node, where: str, problems: Problems) -> _Entry:
    if isinstance(node, MapNode):
        own = node.get("name")
        if isinstance(own, ScalarNode):
            return _Entry(own.text, own.place, node, where)
    elif isinstance(node, ScalarNode):
        return _Entry(PurePath(node.text).stem, node.place, node, where)
    problems.add(node.place, where, "needs a path, or an agent with a name:", _FORMS)
    return _Entry("", node.place, node, where)


def _is_sound(entry: _Entry, problems: Problems) -> bool:
    if not entry.name and problems.errors and entry.place in _noted(problems):
        return False
    try:
        check_name(entry.name)
    except NameRejected as error:
        problems.add(entry.place, entry.where, str(error), "an agent is called by its name, or by its file's")
        return False
    return True


def _noted(problems: Problems) -> set[Place]:
    return {Place(error.line, error.column) for error in problems.errors}


def _value(entry: _Entry, project: ProjectDefinition, problems: Problems) -> str | AgentDefinition | None:
    node = entry.node
    if isinstance(node, ScalarNode) and not node.is_null and node.text:
        return os.path.normpath(node.text)
    if not isinstance(node, MapNode):
        problems.add(entry.place, entry.where, "needs a path, or an agent", _FORMS)
        return None
    named = Named(entry.name, f"{problems.path} calls it so")
    definition = convert_agent(node, named, Converter(problems, AGENT_SHAPES), problems, entry.where)
    if definition is None:
        check_partial(node, named, project, problems, entry.where)
    else:
        check_agent(definition, node, project, problems, entry.where)
    return definition
