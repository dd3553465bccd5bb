"""What commands under ``awk skills`` look at, and show in the end."""

import os
from collections.abc import Iterable, Mapping

import msgspec

from interface.cli.context import Context
from interface.cli.escape import one_line
from interface.failure import Failure
from interface.loader import ask
from interface.skill_folder import path_of, pins
from protocol.toolbox import FetchedSkills, SkillList, SkillPin, SkillRow

FETCH_SECONDS = 300.0


def look(context: Context) -> SkillList:
    """The skills of the project, with where imported ones come from. Raises Failure."""
    root = context.project.root
    found = msgspec.json.decode(ask(None, "skills", "--project", root), type=SkillList)
    known = pins(root)
    return msgspec.structs.replace(found, skills=tuple(_told(row, known) for row in found.skills))


def show(context: Context) -> int:
    """Print them."""
    found = look(context)
    for line in found.skipped:
        context.out.note(f"skipped: {one_line(line)}")
    return context.answer(msgspec.json.encode(found), "skills")


def fetch(context: Context, source: str) -> FetchedSkills:
    """What ``source`` holds now. Raises Failure."""
    document = ask(context.environ, "fetch-skills", "--", source, seconds=FETCH_SECONDS)
    return msgspec.json.decode(document, type=FetchedSkills)


def imported(context: Context, names: list[str]) -> dict[str, SkillPin]:
    """The imported skills called ``names``; all of them without any. Raises Failure (not_found)."""
    known = pins(context.project.root)
    unknown = [name for name in names if name not in known]
    if unknown:
        hint = f"imported are {', '.join(sorted(known))}" if known else "nothing is"
        raise Failure("not_found", f"{unknown[0][:80]!r} was not imported", hint)
    return {name: known[name] for name in names or sorted(known)}


def is_there(context: Context, name: str) -> bool:
    """Whether there is anything in place of the imported skill."""
    return os.path.lexists(os.path.join(context.project.root, path_of(name)))


def changed_here(context: Context, names: Iterable[str]) -> list[str]:
    """Those of the imported skills ``names`` that are not what came; also one that is no skill any more."""
    as_they_came = {row.path for row in look(context).skills if row.source is not None and not row.edited}
    return [name for name in names if path_of(name) not in as_they_came and is_there(context, name)]


def _told(row: SkillRow, known: Mapping[str, SkillPin]) -> SkillRow:
    pin = known.get(row.name)
    if pin is None or row.path != path_of(row.name):
        return row
    return msgspec.structs.replace(row, source=pin.source, commit=pin.commit, edited=row.digest != pin.digest)
