"""Agents, tools and skills of a project without a kernel: their lists, and checks of a file before it is written.

Files are read, and nothing is run. If the project file is invalid, its errors are stored, and agents are read anyway.
Before an agent is deleted, the workflows that refer to it are listed.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from kernel.agents.catalog import AGENTS, SUFFIX, Catalog
from kernel.agents.environment import sandbox_state
from kernel.agents.project import PROJECT_SHAPES, ProjectFileContent, check_tools, parse_project, place_of, read_project
from kernel.agents.skills import HOME, FoundSkill, home_skills, skills_of
from kernel.source.convert import Converter
from kernel.source.diagnostics import BadDefinition, fail, place_text
from kernel.source.files import tree_of
from kernel.source.yaml_tree import MapNode, Node, ScalarNode
from kernel.workflows.find import find_workflow, workflow_names
from protocol.agent import AgentDefinition
from protocol.agent_files import ContextCounts
from protocol.agent_memory import TIERS
from protocol.api.agents import AgentInfo, AgentList, AgentRow, as_written
from protocol.api.document import FileError
from protocol.errors import Refused, accepted
from protocol.inspection import CheckedFile, SkillList, SkillRow, ToolList, ToolRow
from protocol.names import check_name
from protocol.project import ProjectDefinition
from protocol.tools import BUILT_IN, ON_DEMAND, BuiltIn, ProjectTool

_NO_PROVIDER: Final = "unknown provider"
_NO_TOOL: Final = "unknown tool"
_NO_AGENT: Final = re.compile(r"agent '([^']*)' not found")
"""Starts of errors that may only be a consequence of an unreadable project file."""


class PartialCatalog(Catalog):
    """Catalog that treats an invalid project file as empty. ``broken``: the errors of the file."""

    broken: tuple[FileError, ...] = ()
    _empty = ProjectDefinition()

    def project(self) -> ProjectDefinition:
        """Return the definition in the project file, or the defaults if it is invalid."""
        if self.broken:
            return self._empty
        try:
            return super().project()
        except BadDefinition as error:
            self.broken = error.errors
            return self._empty

    def meant(self, errors: tuple[FileError, ...]) -> tuple[FileError, ...]:
        """Return ``errors`` except those that the invalid project file may have caused."""
        if not self.broken:
            return errors
        # The project file, if it is valid YAML.
        tree: Node | None
        try:
            file = read_project(self.root)
            tree = None if file is None else tree_of(file.data, file.name)[0]
        except BadDefinition:
            tree = None
        own: list[FileError] = []
        for error in errors:
            # Whether the project file would define the missing name; in doubt, yes.
            missed = _NO_AGENT.match(error.message)
            declared = missed is not None and (tree is None or place_of(tree, missed[1]) is not tree.place)
            if not declared and not error.message.startswith((_NO_PROVIDER, _NO_TOOL)):
                own.append(error)
        return tuple(own)


OFFLINE = "stopped"
"""The state of every agent without a kernel."""


def agent_list(root: Path) -> AgentList:
    """Return all agents of the project; an agent with an invalid file has the state error."""
    survey = PartialCatalog(root, Path.home()).survey()
    rows = [_row(loaded.definition, loaded.path) for loaded in survey.loaded]
    rows += [
        AgentRow(
            name=name,
            model="",
            backend="",
            file=errors[0].path,
            ephemeral=False,
            state="error",
            error=place_text(errors),
        )
        for name, errors in survey.broken
    ]
    return AgentList(agents=tuple(sorted(rows, key=lambda row: row.name)))


def agent_info(root: Path, name: str, environ: Mapping[str, str] = MappingProxyType({})) -> AgentInfo:
    """Return one agent as a kernel with ``environ`` would load it. Raises Refused (unknown_agent), BadDefinition."""
    loaded = Catalog(root, Path.home()).agent(name)
    row = _row(loaded.definition, loaded.path)
    return AgentInfo(
        name=row.name,
        model=row.model,
        backend=row.backend,
        file=row.file,
        ephemeral=False,
        state=OFFLINE,
        reason=None,
        definition=as_written(loaded.definition),
        sandbox=sandbox_state(loaded.definition, environ),
    )


def context_counts(root: Path, state: Path, name: str) -> ContextCounts:
    """Count the entries in the context files of the agent ``name``. Raises Refused, BadDefinition."""
    from kernel.agents.personal_context import PersonalContexts  # noqa: PLC0415  (the store)

    contexts = PersonalContexts(Catalog(root, Path.home()), state)
    place = contexts.place(name, None)
    kept = contexts.read(place)
    tiers = [one.entry.tier for one in kept.memory]
    done = [item.done for item in kept.todos]
    return ContextCounts(
        dir=place.shown,
        memory={tier: tiers.count(tier) for tier in TIERS},
        notes=len(kept.notes),
        todo={"open": done.count(False), "done": done.count(True)},
    )


def check_agent_text(root: Path, name: str, text: str, *, new: bool) -> CheckedFile:
    """Check ``text`` as the file of the agent ``name``; ``new``: the name must be unused.

    Raises Refused (bad_request for an invalid name, already_exists).
    """
    accepted(check_name, name)
    catalog = PartialCatalog(root, Path.home())
    if new and catalog.defines(name):
        raise Refused(
            "already_exists", f"agent {name} already exists", f"choose another name, or use: awk agent edit {name}"
        )
    path = f"{AGENTS}/{name}{SUFFIX}" if new else catalog.file_of(name)
    errors: tuple[FileError, ...] = ()
    try:
        catalog.parse(name, path, text.encode(), catalog.project())
    except BadDefinition as error:
        errors = catalog.meant(error.errors)
    return CheckedFile(path=path, kind="agent", ok=not errors, errors=errors)


def check_skill(root: Path, folder: str) -> None:
    """Raise BadDefinition unless ``folder`` is a valid skill."""
    skills_of((folder,), root)


def _row(definition: AgentDefinition, path: str) -> AgentRow:
    return AgentRow(
        name=definition.name,
        model=", ".join(definition.models),
        backend=definition.backend,
        file=path,
        ephemeral=False,
        state=OFFLINE,
    )


def workflows_using(root: Path, name: str) -> tuple[str, ...]:
    """Return the readable files of workflows that refer to the agent ``name``."""
    catalog = PartialCatalog(root, Path.home())
    project = catalog.project()
    found: list[str] = []
    for workflow in workflow_names(catalog, project):
        with suppress(Refused):
            file = find_workflow(catalog, workflow, project, None)
            agents = file.node.get("agents") if isinstance(file.node, MapNode) else None
            entries = [entry for _, entry in agents.entries] if isinstance(agents, MapNode) else []
            refs = [entry.get("ref") for entry in entries if isinstance(entry, MapNode)]
            if any(isinstance(ref, ScalarNode) and ref.text == name for ref in refs):
                found.append(file.shown)
    return tuple(found)


_ABOUT: Final = {
    "bash": "run command lines",
    "read": "read text files of the working directory",
    "write": "write files of the working directory",
    "edit": "replace a passage of a text file",
    "list": "list a folder, or find files by a glob",
    "grep": "find lines by a regular expression",
    "skill": "read the instructions of a skill",
    "feedback_submit": "report a problem to the user",
}


def tool_list(root: Path) -> ToolList:
    """Return the built-in tools, then the project's. Raises BadDefinition for the project file."""
    catalog = PartialCatalog(root, Path.home())
    project = catalog.project()
    if catalog.broken:
        raise BadDefinition(catalog.broken)
    named = {one.definition.name: frozenset(one.definition.tools) for one in catalog.survey().loaded}
    users = {
        switch: tuple(sorted(name for name, tools in named.items() if switch in tools))
        for switch in frozenset({*(row.switch for row in BUILT_IN.values()), *ON_DEMAND.values(), *project.tools})
    }
    on_demand = (BuiltIn(name, switch, read_only=False) for name, switch in ON_DEMAND.items())
    built_in = (
        ToolRow(
            name=row.name,
            switch=row.switch,
            kind="built in",
            description=_ABOUT[row.name],
            read_only=row.read_only,
            agents=users[row.switch],
        )
        for row in (*BUILT_IN.values(), *on_demand)
    )
    own = (
        ToolRow(
            name=name,
            switch=name,
            kind="command" if tool.mock is None else "mock",
            description=tool.description,
            read_only=tool.read_only,
            command=tool.command,
            agents=users[name],
        )
        for name, tool in project.tools.items()
    )
    return ToolList(tools=(*built_in, *own))


def check_project_text(name: str, text: str) -> tuple[FileError, ...]:
    """Check ``text`` as the project file ``name``, including its agents."""
    try:
        parsed = parse_project(ProjectFileContent(name, text.encode()))
    except BadDefinition as error:
        return error.errors
    return tuple(error for broken in parsed.broken.values() for error in broken)


def tools_in(name: str, text: str) -> dict[str, ProjectTool]:
    """Return the tools that the file ``name`` declares, ignoring other keys. Raises BadDefinition."""
    node, problems = tree_of(text.encode(), name)
    tools = MapNode((), node.place)
    if isinstance(node, MapNode):
        tools = node.without({key.text for key, _ in node.entries} - {"tools"})
    if not tools.entries:
        raise fail(name, "has no tools:", "add tools: with a name for each")
    definition = Converter(problems, PROJECT_SHAPES).struct(tools, ProjectDefinition, "")
    if definition is not None:
        check_tools(definition, tools, problems)
    problems.check()
    assert definition is not None
    return definition.tools


def skill_list(root: Path) -> SkillList:
    """Return the skills in ``.agents/skills`` and of agents, each with its agents. Errors do not stop the search."""
    named = {one.definition.name: one.definition for one in PartialCatalog(root, Path.home()).survey().loaded}
    skipped: list[str] = []
    found: dict[str, FoundSkill] = {}
    users: dict[str, set[str]] = {}
    folders = {HOME, *(folder for one in named.values() for folder in one.skills)}
    for folder in sorted(folders):
        try:
            here = home_skills(root) if folder == HOME else skills_of((folder,), root)
        except BadDefinition as error:
            skipped.append(error.text)
            continue
        for one in here:
            found[one.path] = one
            for name, definition in named.items():
                takes = folder in definition.skills or (
                    folder == HOME and "skills" in definition.tools and not definition.skills
                )
                users.setdefault(one.path, set()).update({name} if takes else ())
    rows = (
        SkillRow(
            name=one.skill.name,
            description=one.skill.description,
            path=one.path,
            digest=one.digest,
            agents=tuple(sorted(users.get(one.path, set()))),
        )
        for one in found.values()
    )
    return SkillList(skills=tuple(sorted(rows, key=lambda row: (row.name, row.path))), skipped=tuple(skipped))
