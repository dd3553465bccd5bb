"""The project file: ``.agents.yaml`` or ``moniro.yaml``. Optional; read whenever it is needed.

Its key ``agents`` contains inline agents and paths of files outside ``.agents/``: a map by name, or a list of paths and
of agents with a name. The existence of the files is not checked here. An error in one agent makes only that agent
unavailable.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from kernel.agents.definition import AGENT_SHAPES, NameSource, check_agent, check_partial, convert_agent, place_at
from kernel.agents.mcp_servers import tool_faults
from kernel.agents.mock_script import full_rules
from kernel.agents.providers import PROVIDERS, ModelRejected, check_endpoint, endpoint_named, split_model
from kernel.agents.sections import check_embeddings, check_hooks, check_nodes, check_otel, check_standby_key
from kernel.source.convert import Converter, TypeRules
from kernel.source.diagnostics import Diagnostics, Location, fail, suggest
from kernel.source.files import FileMissing, read_bytes, tree_of
from kernel.source.safe_paths import folder_fault
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode
from protocol.agent import AgentDefinition, model_names
from protocol.api.document import FileError
from protocol.names import NameRejected, check_name, check_workflow_name
from protocol.project import GuardSettings, ProjectDefinition, ProjectLimits

_FORMS = "write <name>: with a path or an agent, or a list of paths and of agents with name:"


class _Entry(NamedTuple):
    name: str
    place: Location
    node: Node
    where: str


class Parsed(NamedTuple):
    """The contents of a project file. ``broken`` contains the errors of unavailable agents by name."""

    definition: ProjectDefinition
    broken: Mapping[str, tuple[FileError, ...]] = MappingProxyType({})


def with_agents(definition: ProjectDefinition, node: Node | None, problems: Diagnostics) -> Parsed:
    """Return ``definition`` with the agents of ``node``, the value of the key ``agents``."""
    if node is None:
        return Parsed(definition)
    found: dict[str, str | AgentDefinition] = {}
    broken: dict[str, tuple[FileError, ...]] = {}
    places: dict[str, Location] = {}
    for entry in _entries(node, problems):
        own = Diagnostics(problems.path, problems.text)
        first = places.setdefault(entry.name, entry.place)
        if first is not entry.place:
            message = f"{entry.name} is defined twice in {problems.path}: also in line {first.line}"
            own.add(entry.place, entry.where, message, "keep one of them, or choose another name")
        if isinstance(entry.node, MapNode | ListNode) and not entry.name:
            own.add(entry.place, entry.where, "needs a path, or an agent with a name:", _FORMS)
        else:
            try:
                check_name(entry.name)
            except NameRejected as error:
                own.add(entry.place, entry.where, str(error), "the name of an agent is its key, or its file name")
            else:
                value = _value(entry, definition, own)
                if value is not None:
                    found[entry.name] = value
        if own.errors:
            broken[entry.name or entry.where] = own.errors
    sound = {name: value for name, value in found.items() if name not in broken}
    return Parsed(msgspec.structs.replace(definition, agents=sound), MappingProxyType(broken))


def place_of(node: Node, name: str) -> Location:
    """Return the location of the agent ``name`` in the project file ``node``, or of its start."""
    agents = node.get("agents") if isinstance(node, MapNode) else None
    entries = () if agents is None else _entries(agents, Diagnostics(""))
    return next((entry.place for entry in entries if entry.name == name), node.place)


def _entries(node: Node, problems: Diagnostics) -> list[_Entry]:
    if isinstance(node, MapNode):
        return [_Entry(key.text, key.place, child, f"agents.{key.text[:60]}") for key, child in node.entries]
    if isinstance(node, ListNode):
        entries: list[_Entry] = []
        for index, item in enumerate(node.items):
            own = item.get("name") if isinstance(item, MapNode) else None
            if isinstance(own, ScalarNode):
                entry = _Entry(own.text, own.place, item, f"agents[{index}]")
            else:
                name = PurePath(item.text).stem if isinstance(item, ScalarNode) else ""
                entry = _Entry(name, item.place, item, f"agents[{index}]")
            entries.append(entry)
        return entries
    problems.add(node.place, "agents", "must be a map of names, or a list", _FORMS)
    return []


def _value(entry: _Entry, project: ProjectDefinition, problems: Diagnostics) -> str | AgentDefinition | None:
    node = entry.node
    if isinstance(node, ScalarNode) and not node.is_null and node.text:
        return os.path.normpath(node.text)
    if not isinstance(node, MapNode):
        problems.add(entry.place, entry.where, "needs a path, or an agent", _FORMS)
        return None
    named = NameSource(entry.name, f"{problems.path} names it so")
    definition = convert_agent(node, named, Converter(problems, AGENT_SHAPES), problems, entry.where)
    if definition is None:
        check_partial(node, named, project, problems, entry.where)
    else:
        check_agent(definition, node, project, problems, entry.where)
    return definition


PROJECT_FILES: Final = (".agents.yaml", "moniro.yaml")

_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)[ ]?%", re.ASCII)


def _fraction(node: Node) -> Node:
    match = _PERCENT.fullmatch(node.text) if isinstance(node, ScalarNode) else None
    return node if match is None else ScalarNode(f"{float(match[1]) / 100:.6g}", plain=True, place=node.place)


PROJECT_SHAPES: Final = TypeRules(
    short_forms={(ProjectLimits, "memory_reserve"): _fraction, (GuardSettings, "mock"): full_rules}
)


class ProjectFileContent(NamedTuple):
    """The current file: its name relative to the root, and its content."""

    name: str
    data: bytes


def read_project(root: Path) -> ProjectFileContent | None:
    """Return the project file, or None. Raises BadDefinition."""
    present = [name for name in PROJECT_FILES if (root / name).exists()]
    if len(present) > 1:
        raise fail(present[1], f"{present[0]} and {present[1]} both exist: two project files", "delete one")
    if not present:
        return None
    try:
        return ProjectFileContent(present[0], read_bytes(root / present[0], present[0]))
    except FileMissing:
        return None


def parse_project(file: ProjectFileContent) -> Parsed:
    """Parse ``file``. Raises BadDefinition; errors of an agent are only in ``broken``."""
    node, problems = tree_of(file.data, file.name)
    # Agents have several forms and are converted separately.
    rest = node.without({"agents"}) if isinstance(node, MapNode) else node
    definition = Converter(problems, PROJECT_SHAPES).struct(rest, ProjectDefinition, "")
    if definition is None:
        # Valid keys are checked even if others have errors.
        wrong = {error.where.partition(".")[0].partition("[")[0] for error in problems.errors}
        rest = rest.without(wrong) if isinstance(rest, MapNode) else rest
        definition = Converter(Diagnostics(file.name), PROJECT_SHAPES).struct(rest, ProjectDefinition, "")
    parsed = None if definition is None else Parsed(definition)
    if definition is not None and isinstance(node, MapNode) and isinstance(rest, MapNode):
        _check_providers(definition, rest, problems)
        _check_models(definition, rest, problems)
        workflows = rest.get("workflows")
        for name in definition.workflows:
            assert isinstance(workflows, MapNode)
            try:
                check_workflow_name(name)
            except NameRejected as error:
                problems.add(workflows.place_of(name), f"workflows.{name}", str(error))
        fault = folder_fault(definition.workspace.base)
        if fault is not None:
            place = place_at(rest, "workspace.base")
            problems.add(place, "workspace.base", fault, "write a folder relative to the project root")
        check_tools(definition, rest, problems)
        check_hooks(definition, rest, problems)
        check_otel(definition, rest, problems)
        check_nodes(definition, rest, problems)
        check_standby_key(definition, rest, problems)
        check_embeddings(definition, rest, problems)
        parsed = with_agents(definition, node.get("agents"), problems)
    problems.check()
    assert parsed is not None
    return parsed


def _check_providers(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
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
    # A limit for an unknown provider would have no effect.
    limits = node.get("limits")
    limited = limits.get("per_provider") if isinstance(limits, MapNode) else None
    known = {*PROVIDERS, *definition.providers}
    for key, _ in limited.entries if isinstance(limited, MapNode) else ():
        if key.text not in known:
            where = f"limits.per_provider.{key.text[:60]}"
            problems.add(key.place, where, f"unknown provider {key.text[:60]!r}", suggest(key.text, known))


def _check_models(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    models = definition.models
    for key, written in (
        ("default", models.default),
        *((f"aliases.{one}", its) for one, its in models.aliases.items()),
    ):
        if written == ():
            where = f"models.{key}"
            problems.add(place_at(node, where), where, "is an empty list", "name a model, or remove the key")
        for index, name in enumerate(model_names(written)):
            where = f"models.{key}" if isinstance(written, str) else f"models.{key}[{index}]"
            try:
                if name not in models.aliases:
                    endpoint_named(split_model(name)[0], definition)
                elif key != "default":
                    raise ModelRejected(f"{name} is an alias", "write its models: an alias cannot contain another one")
            except ModelRejected as error:
                problems.add(place_at(node, where), where, error.message, error.hint)


def check_tools(definition: ProjectDefinition, node: MapNode, problems: Diagnostics) -> None:
    """Report errors in the tools of ``definition``, which was converted from ``node``."""
    for name, tool in definition.tools.items():
        for fault in tool_faults(name, tool):
            problems.add(place_at(node, fault.key), fault.key, fault.message, fault.hint)
