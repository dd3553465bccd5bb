"""Loading of one workflow file, checked as a whole: all errors are found before any start (CF10).

Known keys that are not supported (of later versions, or not allowed for a ref) are rejected with a
reason. ``definitions`` returns the current definitions of a project with their errors; the last
valid version of an invalid file stays in effect.
"""

import logging
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from kernel.agents.catalog import AGENTS, AgentScan, Catalog
from kernel.agents.definition import (
    AGENT_SHAPES,
    NameSource,
    check_agent,
    check_partial,
    convert_agent,
    full_approval,
    place_at,
)
from kernel.agents.mock_script import full_rules
from kernel.policy.creation import effective
from kernel.source.convert import Converter, TypeRules
from kernel.source.diagnostics import BadDefinition, Diagnostics, Location
from kernel.source.files import folder_errors
from kernel.source.yaml_tree import MapNode, Node, ScalarNode
from kernel.workflows.find import SUFFIXES, WORKFLOWS, Checkout, WorkflowFile, find_workflow, workflow_names
from kernel.workflows.members import WorkflowMember, with_instances
from kernel.workflows.variables import check_params, check_texts, text_defaults
from kernel.workflows.workspace import check_deliver, check_output, check_rules, check_tasks, check_workspace
from protocol.agent import AgentDefinition
from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.names import NAME, RESERVED, NameRejected, check_name, check_workflow_name
from protocol.project import GuardSettings, ProjectDefinition
from protocol.workflow import Ref, RefPrompt, WorkflowDefinition, Workspace

_OWN: Final = "change the file of the agent, or write an inline agent"

_REF_OWN: Final = (
    "soul",
    "context",
    "retry",
    "env",
    "name",
    "memory",
    "tools",
    "scopes",
    "mcp_servers",
    "skills",
    "sandbox",
    "limits",
    "command",
)
_REFUSED: Final[Mapping[tuple[type, str], tuple[str, str]]] = {
    (WorkflowDefinition, "context"): ("unknown key 'context'", "write workspace"),
    **{(Ref, key): (f"a ref cannot override {key}", _OWN) for key in _REF_OWN},
    (RefPrompt, "system"): ("a ref cannot override prompt.system", "write append: to add to the agent's prompt"),
    (RefPrompt, "system_file"): ("a ref cannot override prompt.system_file", "write append: to add to it"),
}

WORKFLOW_SHAPES: Final = TypeRules(
    short_forms=MappingProxyType(
        {
            **AGENT_SHAPES.short_forms,
            (Ref, "approval"): full_approval,
            (Ref, "mock"): full_rules,
            (GuardSettings, "mock"): full_rules,
            (WorkflowDefinition, "params"): text_defaults,
        }
    ),
    refused=MappingProxyType({**AGENT_SHAPES.refused, **_REFUSED}),
    refused_values=AGENT_SHAPES.refused_values,
)


_WHERE: Final = "verdict"
_OTHER: Final = re.compile(r"[^a-z0-9_-]+")


def check_verdict(definition: WorkflowDefinition, node: Node, problems: Diagnostics) -> None:
    """Report errors in the ``verdict`` of ``definition`` in ``problems``."""
    terms = definition.verdict_terms
    if terms is None:
        return
    place = place_at(node, _WHERE)
    where = _WHERE if isinstance(definition.verdict, str) else f"{_WHERE}.id"
    try:
        check_name(terms.id)
    except NameRejected as error:
        # The most similar name.
        near = _OTHER.sub("-", terms.id.lower()).strip("-_0123456789")[:32].rstrip("-")
        hint = f"did you mean {near}?" if NAME.fullmatch(near) and near not in RESERVED else None
        problems.add(place_at(node, where), where, str(error), hint)
        return
    members = definition.workers
    where = f"{_WHERE}.electors"
    for name in terms.electors:
        if name not in members:
            hint = f"the agents of the workflow are {', '.join(members)}"
            problems.add(place_at(node, where), where, f"{name[:60]!r} is not an agent of this workflow", hint)
        elif terms.electors.count(name) > 1:
            hint = "list each elector once: every member has one vote"
            problems.add(place_at(node, where), where, f"{name} is listed twice", hint)
            break
    voters = len(terms.electors or members)
    if terms.quorum is not None and terms.quorum > voters:
        where = f"{_WHERE}.quorum"
        problems.add(place_at(node, where), where, f"only {voters} can vote", "lower it, or remove it to wait for all")
    if terms.tie_breaker is not None and terms.type == "unanimous":
        where = f"{_WHERE}.tie_breaker"
        problems.add(place_at(node, where), where, "a unanimous vote has no ties", "remove it")
    if definition.workspace is False:
        message = "cannot be used with workspace: false: the agents have no channel to vote in"
        problems.add(place, _WHERE, message, "remove workspace: false, or verdict:")


_GIVEN: Final = frozenset({"name", "agents"})
_BRINGING: Final = frozenset({"params", "setup"})
"""Keys that define variables."""


class LoadedWorkflow(msgspec.Struct, frozen=True):
    """A valid workflow, with each member's current definition. ``path`` is the displayed path of the file."""

    definition: WorkflowDefinition
    path: str
    members: tuple[WorkflowMember, ...]
    project: ProjectDefinition
    root: Path
    kickoff_place: Location
    source: Mapping[str, str] = MappingProxyType({})
    """Variables about the origin of the file, and their values."""
    checkout: Checkout | None = None


def load_workflow(
    catalog: Catalog, asked: str, cwd: Path | None = None, checkout: Checkout | None = None, *, confined: bool = False
) -> LoadedWorkflow:
    """Return the workflow for ``asked`` with its agents; a ``confined`` path stays inside the project.

    Raises Refused(unknown_workflow), BadDefinition.
    """
    project = catalog.project()
    found = find_workflow(catalog, asked, project, cwd, checkout, confined=confined)
    return _Reading(catalog, project, found).load()


class _Reading:
    def __init__(self, catalog: Catalog, project: ProjectDefinition, found: WorkflowFile) -> None:
        self._catalog = catalog
        self._project = project
        self._found = found
        self._problems = found.problems
        self._converter = Converter(found.problems, WORKFLOW_SHAPES)
        self._elsewhere: list[FileError] = []

    def load(self) -> LoadedWorkflow:
        node = self._found.node
        entries: dict[str, Ref | AgentDefinition] = {}
        members: list[WorkflowMember] = []
        if isinstance(node, MapNode):
            first: dict[str, str] = {}
            for key, entry, child in self._agents(node):
                member = self._member(key.text, entry, child)
                entries[key.text] = entry
                for entry_of, one in () if member is None else with_instances(member, entry):
                    entries[one.name] = entry_of
                    members.append(one)
                    other = key.text if one.ref is None else first.setdefault(one.ref.ref, key.text)
                    if other != key.text:
                        message = f"{other} and {key.text} refer to the same agent {one.ref and one.ref.ref}"
                        hint = "use each agent only once in a workflow"
                        self._problems.add(_ref_place(child), f"agents.{key.text}.ref", message, hint)
        name, shown = self._found.default_name, self._found.shown
        file = f"{WORKFLOWS}/{name}{SUFFIXES[0]}"
        if self._found.bound and os.path.normpath(shown) != file and os.path.lexists(self._catalog.root / file):
            # The project file assigns the name to one file, and another in .workflows/ has it (CF09).
            message = f"workflow {name} is defined twice: here, according to the project file, and in {file}"
            self._problems.add(node.place, "", message, "keep one of them, or choose another name")
        given = {"name": self._name(node), "agents": entries}
        rest = node.without(given) if isinstance(node, MapNode) else node
        definition = self._converter.struct(rest, WorkflowDefinition, "", given)
        if isinstance(node, MapNode):
            self._check_between(definition, node, entries)
        workspace = None if definition is None else definition.workspace
        if isinstance(workspace, Workspace) and workspace.git == "shared":
            confined = {member.definition.sandbox for member in members}
            if len(confined) > 1:
                message = "all agents that share a working tree need the same sandbox setting"
                hint = "set the same sandbox: for all agents, or write git: worktree"
                self._problems.add(place_at(node, "workspace.git"), "workspace.git", message, hint)
        errors = (*self._problems.errors, *self._elsewhere)
        if errors:
            raise BadDefinition(errors)
        assert definition is not None
        place = place_at(node, "kickoff")
        source, found = self._found.source, self._found.checkout
        project, root = self._project, self._catalog.root
        return LoadedWorkflow(definition, self._found.shown, tuple(members), project, root, place, source, found)

    def _check_between(
        self, whole: WorkflowDefinition | None, node: MapNode, entries: dict[str, Ref | AgentDefinition]
    ) -> None:
        wrong = {error.where.partition(".")[0].partition("[")[0] for error in self._problems.errors}
        definition = whole
        if definition is None:
            # Keys without errors are checked too.
            given = {"name": self._found.default_name, "agents": entries}
            converter = Converter(Diagnostics(self._problems.path), WORKFLOW_SHAPES)
            definition = converter.struct(node.without(wrong | _GIVEN), WorkflowDefinition, "", given)
        if definition is not None:
            check_params(definition.params, node.get("params") or node, self._problems)
            if not wrong & _BRINGING:  # otherwise the set of variables is unknown
                check_texts(definition, node, self._problems, self._found.source)
            check_workspace(definition, node, self._project, self._catalog.root, self._problems)
            check_output(definition, node, self._problems)
            check_verdict(definition, node, self._problems)
            check_deliver(definition, node, self._problems)
            check_tasks(definition, node, self._problems)
            check_rules(definition, node, self._problems)

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
            message = f"must be {self._found.default_name}, because runs start it by that name; found {name[:60]!r}"
            self._problems.add(place, "name", message, "rename the file, or remove name:")
        return name

    def _agents(self, node: MapNode) -> list[tuple[ScalarNode, Ref | AgentDefinition, Node]]:
        agents = node.get("agents")
        if not isinstance(agents, MapNode) or not agents.entries:
            place = node.place_of("agents") if agents is not None else node.place
            hint = "add agents: with ref: or an inline agent under each name"
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
            hint = f"write {key.text}: {{ref: <agent of the project>}}, or set model: and prompt:"
            self._problems.add(key.place, where, "needs ref: or an inline agent", hint)
            return None
        if not node.entries:
            hint = f"write {key.text}: {{ref: {key.text}}} for the agent of the project, or set model: and prompt:"
            self._problems.add(key.place, where, "is empty", hint)
            return None
        if node.get("ref") is not None:
            return self._converter.struct(node, Ref, where)
        named = NameSource(key.text, "the workflow names it so")
        definition = convert_agent(node, named, self._converter, self._problems, where)
        if definition is None:
            check_partial(node, named, self._project, self._problems, where)
        return definition

    def _member(self, name: str, entry: Ref | AgentDefinition, node: Node) -> WorkflowMember | None:
        where = f"agents.{name}"
        if isinstance(entry, Ref):
            try:
                base = self._catalog.agent(entry.ref, self._project).definition
            except BadDefinition as error:
                self._elsewhere += [fault for fault in error.errors if fault not in self._elsewhere]
                return None
            except Refused as error:
                self._problems.add(_ref_place(node), f"{where}.ref", error.text, error.hint)
                return None
            member = WorkflowMember(name, effective(base, entry), entry, base)
        else:
            if self._catalog.defines(name):
                message = f"{name} is defined twice: here in {self._found.shown} and in {self._catalog.file_of(name)}"
                place = place_at(self._found.node, where)
                self._problems.add(place, where, message, f"write ref: {name}, or choose another name")
            if entry.context.dir is not None:
                message = "inline agents cannot have a context folder: they end with the workflow"
                hint = f"remove dir:, or move the agent to a file: .agents/{entry.name}.yaml"
                self._problems.add(place_at(node, "context.dir"), f"{where}.context.dir", message, hint)
            entry = msgspec.structs.replace(entry, worktree=None)  # set by the workflow, and checked there
            own: AgentDefinition
            checkout = self._found.checkout
            texts = self._catalog if checkout is None else Catalog(checkout.folder)
            before = len(self._problems.errors)
            texts.check_system_file(entry, node, self._problems, where)
            if checkout is None or entry.prompt.system_file is None or len(self._problems.errors) > before:
                own = entry
            else:
                prompt = msgspec.structs.replace(
                    entry.prompt, system=texts.system_text(entry, self._found.shown), system_file=None
                )
                own = msgspec.structs.replace(entry, prompt=prompt)
            member = WorkflowMember(name, own)
        check_agent(member.definition, node, self._project, self._problems, where)
        if not isinstance(entry, Ref):
            self._elsewhere += self._catalog.check_resources(entry, node, self._project, self._problems, where)
        if entry.schedule is not None and entry.schedule.workspace is not None:
            message = "a schedule in a workflow wakes the agent in that workflow"
            place = place_at(node, "schedule.workspace")
            self._problems.add(place, f"{where}.schedule.workspace", message, "remove workspace:")
        return member


def _ref_place(node: Node) -> Location:
    value = node.get("ref") if isinstance(node, MapNode) else None
    return node.place if value is None else value.place


logger = logging.getLogger(__name__)


class Definitions(msgspec.Struct, frozen=True):
    """The definitions of a project according to its files, with their errors."""

    scan: AgentScan | None
    """None while the project file is invalid; no agent file is registered then."""
    errors: tuple[FileError, ...] = ()
    """Errors in the project file; if that is valid, in agent files and workflows."""


def definitions(catalog: Catalog, names: Collection[str] | None = None) -> Definitions:
    """Return all current definitions. Blocks, because every file is read, or those of ``names`` (see ``survey``)."""
    try:
        scan = catalog.survey(names=names)
    except BadDefinition as error:
        return Definitions(None, error.errors)
    return Definitions(scan, (*scan.errors, *broken_workflows(catalog)))


def broken_workflows(catalog: Catalog) -> tuple[FileError, ...]:
    """Return errors in workflow files; running workflows keep their definition. Blocks."""
    found = list(folder_errors(catalog.root, WORKFLOWS))
    for name in workflow_names(catalog, catalog.kept_project()):
        try:
            load_workflow(catalog, name)
        except BadDefinition as error:
            found += (one for one in error.errors if not one.path.startswith(f"{AGENTS}/"))
        except Refused as refused:
            logger.debug("broken.unread %s: %s", name, refused.text)
    return tuple(found)
