"""One agent from a tree of nodes: conversion, and the rules between its keys. Where the tree came from is not known.

Used for ``.agents/<name>.yaml``, for inline agents of workflows and for agents made over REST.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from kernel.agents.environment import name_fault
from kernel.agents.later import REFUSED_KEYS, REFUSED_VALUES
from kernel.agents.mock_script import check_script, full_exit, full_rules, plain_exit
from kernel.agents.providers import MOCK, ModelRejected, check_backend, route
from kernel.agents.schedule import faults
from kernel.source.located import Converter, Shapes
from kernel.source.nodes import MapNode, Node, ScalarNode
from kernel.source.problems import Place, Problems
from protocol.agent import Action, AgentDefinition, Rule
from protocol.project import ProjectDefinition

AGENT_SHAPES: Final = Shapes(
    short_forms=MappingProxyType({(AgentDefinition, "mock"): full_rules, (Action, "exit"): full_exit}),
    refused=REFUSED_KEYS,
    refused_values=REFUSED_VALUES,
)


@dataclass(frozen=True, slots=True)
class Named:
    """The name an agent must have, and what gives it: the file's name, or a key of a workflow."""

    name: str
    by: str


def convert_agent(
    node: Node, named: Named, converter: Converter, problems: Problems, where: str = ""
) -> AgentDefinition | None:
    """The agent that ``node`` describes; None where it was wrong (``problems`` says why). Not yet checked."""
    own, rest = _without_name(node)
    if own is not None and (not isinstance(own, ScalarNode) or own.text != named.name):
        said = repr(own.text[:60]) if isinstance(own, ScalarNode) else "no name"
        hint = f"write name: {named.name}, or leave it out"
        problems.add(own.place, _join(where, "name"), f"must be {named.name}, as {named.by}; it is {said}", hint)
    definition = converter.struct(rest, AgentDefinition, where, {"name": named.name})
    return None if definition is None else msgspec.structs.replace(definition, mock=plain_rules(definition.mock))


def check_agent(
    definition: AgentDefinition, node: Node, project: ProjectDefinition, problems: Problems, where: str = ""
) -> None:
    """Note what is wrong between the keys of ``definition``: model, prompt, mock, env, schedule."""
    check = _Check(definition, node, problems, where)
    check.model(project)
    check.prompt()
    check.mock()
    check.env()
    check.schedule()


def plain_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Mock rules with one spelling for each thing."""
    return tuple(Rule(when=rule.when, do=tuple(plain_exit(action) for action in rule.do)) for rule in rules)


class _Check:
    """One agent under examination."""

    def __init__(self, definition: AgentDefinition, node: Node, problems: Problems, where: str) -> None:
        self._agent = definition
        self._node = node
        self._problems = problems
        self._where = where

    def model(self, project: ProjectDefinition) -> None:
        if self._agent.backend == MOCK:
            return
        if not self._agent.model:
            self._bad("model", "is missing", "add model: provider/name (backend mock needs none)")
            return
        try:
            found = route(self._agent, project)
        except ModelRejected as error:
            key = "provider" if "provider" in self._keys() and "is not a model" not in error.message else "model"
            self._bad(key, error.message, error.hint)
            return
        try:
            check_backend(self._agent, found)
        except ModelRejected as error:
            self._bad("backend", error.message, error.hint)

    def prompt(self) -> None:
        prompt = self._agent.prompt
        if prompt.system is not None and prompt.system_file is not None:
            self._bad("prompt.system_file", "system and system_file exclude each other", "keep one of them")
        needed = self._agent.backend != MOCK and not self._agent.model.startswith(f"{MOCK}/")
        if needed and prompt.system is None and prompt.system_file is None:
            self._bad("prompt", "is missing", "add prompt: with system: or system_file:")

    def mock(self) -> None:
        script = _get(self._node, "mock")
        plays = self._agent.backend == MOCK or self._agent.model.startswith(f"{MOCK}/")
        if plays and not self._agent.mock:
            self._bad("mock", "is missing: a mock needs a script", "for example mock: [{text: done}]")
        if script is not None:
            check_script(self._agent.mock, script, _join(self._where, "mock"), self._problems)

    def env(self) -> None:
        for index, name in enumerate(self._agent.env):
            fault = name_fault(name)
            if fault is not None:
                self._bad("env", fault, None, f"[{index}]")

    def schedule(self) -> None:
        if self._agent.schedule is not None:
            for fault in faults(self._agent.schedule):
                self._bad(f"schedule.{fault.key}", fault.message, fault.hint)

    def _keys(self) -> frozenset[str]:
        return frozenset(key.text for key, _ in self._node.entries) if isinstance(self._node, MapNode) else frozenset()

    def _bad(self, key: str, message: str, hint: str | None, suffix: str = "") -> None:
        self._problems.add(place_at(self._node, key), _join(self._where, key) + suffix, message, hint)


def place_at(node: Node, path: str) -> Place:
    """The place of the key at the end of ``path`` (``prompt.system_file``), or of the nearest key above it."""
    place = node.place
    current: Node | None = node
    for key in path.split("."):
        if not isinstance(current, MapNode) or current.get(key) is None:
            break
        place = current.place_of(key)
        current = current.get(key)
    return place


def _get(node: Node, key: str) -> Node | None:
    return node.get(key) if isinstance(node, MapNode) else None


def _without_name(node: Node) -> tuple[Node | None, Node]:
    if not isinstance(node, MapNode) or node.get("name") is None:
        return None, node
    return node.get("name"), MapNode(tuple(pair for pair in node.entries if pair[0].text != "name"), node.place)


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
