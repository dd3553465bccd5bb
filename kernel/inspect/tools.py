"""Tools and skills that agents of a project can have, and whether a text would be its project file.

Files are read, and nothing is run.
"""

from pathlib import Path
from typing import Final

from kernel.agents.project import PROJECT_SHAPES, ProjectFile, check_tools, parse_project
from kernel.agents.skills import HOME, FoundSkill, home_skills, skills_of
from kernel.inspect.agents import PartialCatalog
from kernel.source.convert import Converter
from kernel.source.diagnostics import BadDefinition, fail
from kernel.source.files import tree_of
from kernel.source.yaml_tree import MapNode
from protocol.api.document import FileError
from protocol.project import ProjectDefinition
from protocol.tool_documents import SkillList, SkillRow, ToolList, ToolRow
from protocol.tools import BUILT_IN, ON_DEMAND, BuiltIn, ProjectTool

_ABOUT: Final = {
    "bash": "run command lines",
    "read": "read text files of the working directory",
    "write": "write files of the working directory",
    "edit": "replace a passage of a text file",
    "list": "list a folder, or find files by a glob",
    "grep": "find lines by a regular expression",
    "skill": "read up on a skill",
    "feedback_submit": "tell you what is in its way",
}


def tool_list(root: Path) -> ToolList:
    """Those that are built in, then the project's. Raises BadDefinition for the project file."""
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


def check_project_text(name: str, data: bytes) -> tuple[FileError, ...]:
    """Check ``data`` as if it were the project file ``name``, its agents included."""
    try:
        parsed = parse_project(ProjectFile(name, data))
    except BadDefinition as error:
        return error.errors
    return tuple(error for broken in parsed.broken.values() for error in broken)


def tools_in(name: str, data: bytes) -> dict[str, ProjectTool]:
    """The tools that the file ``name`` declares, as a project file would; its other keys are not looked at.

    Raises BadDefinition.
    """
    node, problems = tree_of(data, name)
    tools = MapNode((), node.place)
    if isinstance(node, MapNode):
        tools = node.without({key.text for key, _ in node.entries} - {"tools"})
    if not tools.entries:
        raise fail(name, "has no tools:", "it needs tools: with a name for each")
    definition = Converter(problems, PROJECT_SHAPES).struct(tools, ProjectDefinition, "")
    if definition is not None:
        check_tools(definition, tools, problems)
    problems.check()
    assert definition is not None
    return definition.tools


def skill_list(root: Path) -> SkillList:
    """Those in ``.agents/skills``, and those that agents name, each with its agents; a mistake hides no other."""
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
