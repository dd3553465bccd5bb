"""The skills of a project."""

import msgspec

from interface.cli.output import Screen
from interface.cli.plain_table import table
from protocol.toolbox import SkillList, SkillRow

_COMMIT = 12
"""Characters of a commit that are shown."""


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each."""
    skills = msgspec.json.decode(body, type=SkillList).skills
    if not skills:
        return ["no skills"]
    rows = [[one.name, one.path, _origin(one), ", ".join(one.agents) or "-", one.description] for one in skills]
    return table(["NAME", "FOLDER", "FROM", "AGENTS", "WHAT FOR"], rows, screen)


def _origin(one: SkillRow) -> str:
    if one.source is None:
        return "-"
    return f"{one.source} {(one.commit or '')[:_COMMIT]}{', changed here' if one.edited else ''}"
