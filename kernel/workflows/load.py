"""One workflow file, checked as a whole: everything that can be wrong is found before anything starts (CF10)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.definition import Named, check_agent, convert_agent, place_at
from kernel.agents.partial import check_partial
from kernel.source.located import Converter
from kernel.source.nodes import MapNode, Node, ScalarNode
from kernel.source.problems import BadDefinition, Place, Problems
from kernel.workflows.checkout import Checkout
from kernel.workflows.find import SUFFIXES, WORKFLOWS, Found, find_workflow
from kernel.workflows.later import WORKFLOW_SHAPES
from kernel.workflows.members import Member, effective
from kernel.workflows.output import check_output
from kernel.workflows.params import check_params
from kernel.workflows.scope import check_texts
from kernel.workflows.verdict_terms import check_verdict
from kernel.workflows.workplace import check_workspace
from protocol.agent import AgentDefinition
from protocol.api.problem import FileError
from protocol.errors import Refused
from protocol.names import NameRejected, check_name, check_workflow_name
from protocol.project import ProjectDefinition
from protocol.workflow import Ref, WorkflowDefinition

_GIVEN: Final = frozenset({"name", "agents"})
_BRINGING: Final = frozenset({"params", "setup"})
"""Keys that bring variables along."""


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """A sound workflow, with each member's definition as it is now. ``path`` is how to name the file."""

    definition: WorkflowDefinition
    path: str
    members: tuple[Member, ...]
    project: ProjectDefinition
    root: Path
    kickoff_place: Place
    source: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Variables that tell where the file came from, and their values."""
    checkout: Checkout | None = None


def load_workflow(
    catalog: Catalog, asked: str, cwd: Path | None = None, checkout: Checkout | None = None
) -> LoadedWorkflow:
    """The workflow that ``asked`` names, and its agents. Raises Refused(unknown_workflow), BadDefinition."""
    project = catalog.project()
    return _Reading(catalog, project, find_workflow(catalog, asked, project, cwd, checkout)).load()


class _Reading:
    """One file being read, and what is wrong with it and with the agents it refers to."""

    def __init__(self, catalog: Catalog, project: ProjectDefinition, found: Found) -> None:
        self._catalog = catalog
        self._project = project
        self._found = found
        self._problems = found.problems
        self._converter = Converter(found.problems, WORKFLOW_SHAPES)
        self._elsewhere: list[FileError] = []

    def load(self) -> LoadedWorkflow:
        node = self._found.node
        entries: dict[str, Ref | AgentDefinition] = {}
        members: list[Member] = []
        if isinstance(node, MapNode):
            agents = self._agents(node)
            entries = {key.text: entry for key, entry, _ in agents}
            members = [member for key, entry, child in agents if (member := self._member(key.text, entry, child))]
            self._check_distinct(agents)
        self._check_single()
        definition = self._definition(node, entries)
        if isinstance(node, MapNode):
            self._check_between(definition, node, entries)
        self._check()
        assert definition is not None
        place = place_at(node, "kickoff")
        source, found = self._found.source, self._found.checkout
        project, root = self._project, self._catalog.root
        return LoadedWorkflow(definition, self._found.shown, tuple(members), project, root, place, source, found)

    def _check_between(
        self, whole: WorkflowDefinition | None, node: MapNode, entries: dict[str, Ref | AgentDefinition]
    ) -> None:
        wrong = {error.where.partition(".")[0].partition("[")[0] for error in self._problems.errors}
        definition = whole or self._partial(node, entries, wrong)
        if definition is not None:
            check_params(definition.params, node.get("params") or node, self._problems)
            if not wrong & _BRINGING:  # else nobody knows which variables there are
                check_texts(definition, node, self._problems, self._found.source)
            check_workspace(definition, node, self._project, self._catalog.root, self._problems)
            check_output(definition, node, self._problems)
            check_verdict(definition, node, self._problems)

    def _partial(
        self, node: MapNode, entries: dict[str, Ref | AgentDefinition], wrong: set[str]
    ) -> WorkflowDefinition | None:
        """Those keys that nothing is ``wrong`` with, to be checked too."""
        sound = tuple(pair for pair in node.entries if pair[0].text not in wrong | _GIVEN)
        given = {"name": self._found.default_name, "agents": entries}
        converter = Converter(Problems(self._problems.path), WORKFLOW_SHAPES)
        return converter.struct(MapNode(sound, node.place), WorkflowDefinition, "", given)

    def _check(self) -> None:
        errors = (*self._problems.errors, *self._elsewhere)
        if errors:
            raise BadDefinition(errors)

    def _definition(self, node: Node, entries: dict[str, Ref | AgentDefinition]) -> WorkflowDefinition | None:
        given = {"name": self._name(node), "agents": entries}
        rest = node
        if isinstance(node, MapNode):
            rest = MapNode(tuple(pair for pair in node.entries if pair[0].text not in given), node.place)
        return self._converter.struct(rest, WorkflowDefinition, "", given)

    def _name(self, node: Node) -> str:
        own = node.get("name") if isinstance(node, MapNode) else None
        if own is not None and not isinstance(own, ScalarNode):
            self._problems.add(own.place, "name", "needs a name")
            return self._found.default_name
        name = self._found.default_name if own is None else own.text
        place = node.place if own is None else own.place
        try:
            check_workflow_name(name)
        except NameRejected as error:
            hint = "add name: to the file, or rename it" if own is None else None
            self._problems.add(place, "name", str(error), hint)
        if self._found.bound and name != self._found.default_name:
            message = f"must be {self._found.default_name}, as it is started by that name; it is {name[:60]!r}"
            self._problems.add(place, "name", message, "rename the file, or leave name: out")
        return name

    def _agents(self, node: MapNode) -> list[tuple[ScalarNode, Ref | AgentDefinition, Node]]:
        """The entries of ``agents`` that could be converted."""
        agents = node.get("agents")
        if not isinstance(agents, MapNode) or not agents.entries:
            place = node.place_of("agents") if agents is not None else node.place
            hint = "add agents: with a name for each, and under it ref: or an inline agent"
            self._problems.add(place, "agents", "is missing" if agents is None else "needs at least one agent", hint)
            return []
        converted = ((key, self._entry(key, child), child) for key, child in agents.entries)
        return [(key, entry, child) for key, entry, child in converted if entry is not None]

    def _entry(self, key: ScalarNode, node: Node) -> Ref | AgentDefinition | None:
        where = f"agents.{key.text[:60]}"
        try:
            check_name(key.text)
        except NameRejected as error:
            self._problems.add(key.place, where, str(error))
            return None
        if not isinstance(node, MapNode):
            hint = f"write {key.text}: {{ref: <agent of the project>}}, or model: and prompt: under it"
            self._problems.add(key.place, where, "needs ref: or an inline agent", hint)
            return None
        if not node.entries:
            hint = f"write {key.text}: {{ref: {key.text}}} for the agent of the project, or model: and prompt: under it"
            self._problems.add(key.place, where, "is empty", hint)
            return None
        if node.get("ref") is not None:
            return self._converter.struct(node, Ref, where)
        named = Named(key.text, "it is called in this workflow")
        definition = convert_agent(node, named, self._converter, self._problems, where)
        if definition is None:
            check_partial(node, named, self._project, self._problems, where)
        return definition

    def _member(self, name: str, entry: Ref | AgentDefinition, node: Node) -> Member | None:
        """The member ``name`` with its definition checked; None where its agent cannot be had."""
        where = f"agents.{name}"
        if isinstance(entry, Ref):
            base = self._referred(entry, node, where)
            if base is None:
                return None
            member = Member(name, effective(base, entry), entry, base)
        else:
            self._check_shadow(name, where)
            self._check_homeless(entry, node, where)
            member = Member(name, self._own(entry, node, where))
        check_agent(member.definition, node, self._project, self._problems, where)
        if not isinstance(entry, Ref):
            self._elsewhere += self._catalog.check_belongings(entry, node, self._project, self._problems, where)
        if entry.schedule is not None and entry.schedule.workspace is not None:
            message = "a schedule in a workflow wakes the agent in that workflow"
            place = place_at(node, "schedule.workspace")
            self._problems.add(place, f"{where}.schedule.workspace", message, "remove workspace:")
        return member

    def _own(self, entry: AgentDefinition, node: Node, where: str) -> AgentDefinition:
        """An inline agent. One that came from elsewhere brings its prompt with it: its file is not in this project."""
        checkout = self._found.checkout
        texts = self._catalog if checkout is None else Catalog(checkout.folder)
        before = len(self._problems.errors)
        texts.check_system_file(entry, node, self._problems, where)
        if checkout is None or entry.prompt.system_file is None or len(self._problems.errors) > before:
            return entry
        prompt = msgspec.structs.replace(
            entry.prompt, system=texts.system_text(entry, self._found.shown), system_file=None
        )
        return msgspec.structs.replace(entry, prompt=prompt)

    def _referred(self, ref: Ref, node: Node, where: str) -> AgentDefinition | None:
        place = _ref_place(node)
        try:
            return self._catalog.agent(ref.ref, self._project).definition
        except BadDefinition as error:
            self._elsewhere += [fault for fault in error.errors if fault not in self._elsewhere]
        except Refused as error:
            self._problems.add(place, f"{where}.ref", error.text, error.hint)
        return None

    def _check_shadow(self, name: str, where: str) -> None:
        if name in self._catalog.names():
            message = f"{name} is defined twice: here in {self._found.shown} and in {self._catalog.file_of(name)}"
            place = place_at(self._found.node, where)
            self._problems.add(place, where, message, f"write ref: {name}, or take another name")

    def _check_homeless(self, entry: AgentDefinition, node: Node, where: str) -> None:
        if entry.context.dir is not None:
            message = "an agent of a workflow has no folder of its own: it ends with the workflow"
            hint = f"remove dir:, or make it an agent of the project: .agents/{entry.name}.yaml"
            self._problems.add(place_at(node, "context.dir"), f"{where}.context.dir", message, hint)

    def _check_single(self) -> None:
        """Note where the project file gives a name to one file, and another in ``.workflows/`` bears it (CF09)."""
        name, shown = self._found.default_name, self._found.shown
        own = f"{WORKFLOWS}/{name}{SUFFIXES[0]}"
        if self._found.bound and os.path.normpath(shown) != own and os.path.lexists(self._catalog.root / own):
            message = f"the workflow {name} is defined twice: here, as the project file says, and in {own}"
            self._problems.add(self._found.node.place, "", message, "keep one of them, or take another name")

    def _check_distinct(self, agents: list[tuple[ScalarNode, Ref | AgentDefinition, Node]]) -> None:
        first: dict[str, str] = {}
        for key, entry, node in agents:
            if not isinstance(entry, Ref):
                continue
            other = first.setdefault(entry.ref, key.text)
            if other != key.text:
                message = f"{other} and {key.text} are both the agent {entry.ref}"
                hint = "one agent has one name in a workflow"
                self._problems.add(_ref_place(node), f"agents.{key.text}.ref", message, hint)


def _ref_place(node: Node) -> Place:
    value = node.get("ref") if isinstance(node, MapNode) else None
    return node.place if value is None else value.place
