"""The project file: ``.agents.yaml`` or ``moniro.yaml``. Optional; read anew whenever it is asked for."""

import re
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from kernel.agents.declared import Parsed, with_agents
from kernel.agents.definition import place_at
from kernel.agents.providers import PROVIDERS, ModelRejected, check_endpoint
from kernel.agents.tools import tool_faults
from kernel.source.beneath import folder_fault
from kernel.source.files import FileMissing, read_bytes, tree_of
from kernel.source.located import Converter, Shapes
from kernel.source.nodes import MapNode, Node, ScalarNode
from kernel.source.problems import Problems, fail
from kernel.source.spelling import suggest
from protocol.names import NameRejected, check_name, check_workflow_name
from protocol.project import ProjectDefinition, ProjectLimits

PROJECT_FILES: Final = (".agents.yaml", "moniro.yaml")

_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)[ ]?%", re.ASCII)


def _fraction(node: Node) -> Node:
    """``10%`` as the number 0.1 that it stands for."""
    match = _PERCENT.fullmatch(node.text) if isinstance(node, ScalarNode) else None
    return node if match is None else ScalarNode(f"{float(match[1]) / 100:.6g}", plain=True, place=node.place)


PROJECT_SHAPES: Final = Shapes(short_forms=MappingProxyType({(ProjectLimits, "memory_reserve"): _fraction}))


class ProjectFile(NamedTuple):
    """The file as it is now: its name, as seen from the root, and all of it."""

    name: str
    data: bytes


def read_project(root: Path) -> ProjectFile | None:
    """The project file, if there is one. Raises BadDefinition."""
    present = [name for name in PROJECT_FILES if (root / name).exists()]
    if len(present) > 1:
        raise fail(
            present[1], f"{present[0]} and {present[1]} are both there, and either is the project file", "keep one"
        )
    if not present:
        return None
    try:
        return ProjectFile(present[0], read_bytes(root / present[0], present[0]))
    except FileMissing:
        return None


def parse_project(file: ProjectFile) -> Parsed:
    """What ``file`` says. Raises BadDefinition; but what is wrong with one of its agents is that agent's alone."""
    node, problems = tree_of(file.data, file.name)
    rest = _without_agents(node)
    definition = Converter(problems, PROJECT_SHAPES).struct(rest, ProjectDefinition, "")
    if definition is None:
        rest = _sound_part(rest, problems)
        definition = Converter(Problems(file.name), PROJECT_SHAPES).struct(rest, ProjectDefinition, "")
    parsed = None if definition is None else Parsed(definition)
    if definition is not None and isinstance(node, MapNode) and isinstance(rest, MapNode):
        _check_providers(definition, rest, problems)
        _check_workflows(definition, rest, problems)
        _check_limits(definition, rest, problems)
        _check_workspace(definition, rest, problems)
        check_tools(definition, rest, problems)
        parsed = with_agents(definition, node.get("agents"), problems)
    problems.check()
    assert parsed is not None
    return parsed


def _sound_part(node: Node, problems: Problems) -> Node:
    """Those keys that nothing is wrong with: what they say is checked beside the mistakes of the others."""
    wrong = {error.where.partition(".")[0].partition("[")[0] for error in problems.errors}
    if not isinstance(node, MapNode):
        return node
    return MapNode(tuple(pair for pair in node.entries if pair[0].text not in wrong), node.place)


def _without_agents(node: Node) -> Node:
    """They take several shapes, and are converted by themselves."""
    if not isinstance(node, MapNode):
        return node
    return MapNode(tuple(pair for pair in node.entries if pair[0].text != "agents"), node.place)


def _check_providers(definition: ProjectDefinition, node: MapNode, problems: Problems) -> None:
    entries = node.get("providers")
    assert entries is None or isinstance(entries, MapNode)
    for name, entry in definition.providers.items():
        assert entries is not None
        try:
            check_name(name)
            check_endpoint(name, entry.base_url, entry.api_key)
        except NameRejected as error:
            problems.add(entries.place_of(name), f"providers.{name}", str(error))
        except ModelRejected as error:
            problems.add(entries.place_of(name), f"providers.{name}", error.message, error.hint)


def _check_workflows(definition: ProjectDefinition, node: MapNode, problems: Problems) -> None:
    entries = node.get("workflows")
    for name in definition.workflows:
        assert isinstance(entries, MapNode)
        try:
            check_workflow_name(name)
        except NameRejected as error:
            problems.add(entries.place_of(name), f"workflows.{name}", str(error))


def _check_workspace(definition: ProjectDefinition, node: MapNode, problems: Problems) -> None:
    fault = folder_fault(definition.workspace.base)
    workspace = node.get("workspace")
    if fault is not None and isinstance(workspace, MapNode):
        place = workspace.place_of("base")
        problems.add(place, "workspace.base", fault, "write a folder as seen from the project's root")


def check_tools(definition: ProjectDefinition, node: MapNode, problems: Problems) -> None:
    """Note what is wrong with the tools of ``definition``, which was converted from ``node``."""
    for name, tool in definition.tools.items():
        for fault in tool_faults(name, tool):
            problems.add(place_at(node, fault.key), fault.key, fault.message, fault.hint)


def _check_limits(definition: ProjectDefinition, node: MapNode, problems: Problems) -> None:
    """A limit for a provider that nobody can mean would hold nothing back."""
    limits = node.get("limits")
    entries = limits.get("per_provider") if isinstance(limits, MapNode) else None
    if not isinstance(entries, MapNode):
        return
    known = {*PROVIDERS, *definition.providers}
    for key, _ in entries.entries:
        if key.text not in known:
            where = f"limits.per_provider.{key.text[:60]}"
            problems.add(key.place, where, f"unknown provider {key.text[:60]!r}", suggest(key.text, known))
