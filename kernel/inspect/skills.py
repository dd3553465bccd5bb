"""``skills``: the skills of a project, as they are in its folders now. A mistake in one hides none of the others."""

from pathlib import Path

from kernel.agents.skills import HOME, FoundSkill, home_skills, skills_of
from kernel.inspect.agents import PartialCatalog
from kernel.source.diagnostics import BadDefinition
from protocol.tool_documents import SkillList, SkillRow


def skill_list(root: Path) -> SkillList:
    """Those in ``.agents/skills``, and those that agents name, each with its agents."""
    named = {one.definition.name: one.definition for one in PartialCatalog(root).survey().loaded}
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
