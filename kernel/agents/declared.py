"""The key ``agents`` of the project file: agents written there, and files that lie outside ``.agents/``.

A map of names, or a list of paths and of agents that say their own name. Whether files are there is not looked at.
What is wrong with one of them is that agent's, and keeps nobody from the others.
"""

import os
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from kernel.agents.definition import AGENT_SHAPES, Named, check_agent, convert_agent
from kernel.agents.partial import check_partial
from kernel.source.located import Converter
from kernel.source.nodes import ListNode, MapNode, Node, ScalarNode
from kernel.source.problems import Place, Problems
from protocol.agent import AgentDefinition
from protocol.api.problem import FileError
from protocol.names import NameRejected, check_name
from protocol.project import ProjectDefinition

_FORMS = "write <name>: with a path or an agent under it, or a list of paths and of agents with name:"


class _Entry(NamedTuple):
    """One agent as it was written: the name, where that stands, and a path or the agent itself."""

    name: str
    place: Place
    node: Node
    where: str


class Parsed(NamedTuple):
    """What a project file says. ``broken`` has the agents that cannot be had, by name, with their mistakes."""

    definition: ProjectDefinition
    broken: Mapping[str, tuple[FileError, ...]] = MappingProxyType({})


def with_agents(definition: ProjectDefinition, node: Node | None, problems: Problems) -> Parsed:
    """``definition`` with what ``node``, its key ``agents``, declares; ``problems`` gets what is wrong with the key."""
    if node is None:
        return Parsed(definition)
    found: dict[str, str | AgentDefinition] = {}
    broken: dict[str, tuple[FileError, ...]] = {}
    places: dict[str, Place] = {}
    for entry in _entries(node, problems):
        own = Problems(problems.path, problems.text)
        first = places.setdefault(entry.name, entry.place)
        if first is not entry.place:
            message = f"{entry.name} is defined twice in {problems.path}: in line {first.line} too"
            own.add(entry.place, entry.where, message, "keep one of them, or take another name")
        value = _value(entry, definition, own) if _is_sound(entry, own) else None
        if value is not None:
            found[entry.name] = value
        if own.errors:
            broken[entry.name or entry.where] = own.errors
    sound = {name: value for name, value in found.items() if name not in broken}
    return Parsed(msgspec.structs.replace(definition, agents=sound), MappingProxyType(broken))


def place_of(node: Node, name: str) -> Place:
    """Where the project file, as the tree ``node``, declares the agent ``name``; its beginning where it does not."""
    agents = node.get("agents") if isinstance(node, MapNode) else None
    entries = () if agents is None else _entries(agents, Problems(""))
    return next((entry.place for entry in entries if entry.name == name), node.place)


def _entries(node: Node, problems: Problems) -> list[_Entry]:
    if isinstance(node, MapNode):
        return [_Entry(key.text, key.place, child, f"agents.{key.text[:60]}") for key, child in node.entries]
    if isinstance(node, ListNode):
        return [_item(item, f"agents[{index}]") for index, item in enumerate(node.items)]
    problems.add(node.place, "agents", "needs names, or a list", _FORMS)
    return []


def _item(node: Node, where: str) -> _Entry:
    if isinstance(node, MapNode):
        own = node.get("name")
        if isinstance(own, ScalarNode):
            return _Entry(own.text, own.place, node, where)
    elif isinstance(node, ScalarNode):
        return _Entry(PurePath(node.text).stem, node.place, node, where)
    return _Entry("", node.place, node, where)


def _is_sound(entry: _Entry, problems: Problems) -> bool:
    if isinstance(entry.node, MapNode | ListNode) and not entry.name:
        problems.add(entry.place, entry.where, "needs a path, or an agent with a name:", _FORMS)
        return False
    try:
        check_name(entry.name)
    except NameRejected as error:
        problems.add(entry.place, entry.where, str(error), "an agent is called by its name, or by its file's")
        return False
    return True


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
