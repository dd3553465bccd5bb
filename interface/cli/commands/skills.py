"""``awk skills``: skills available to agents. Imported skills are files of the project. Starts no kernel.

Skills are imported from one commit of a repository and pinned to it. Agents can use them once they are trusted.
"""

import os
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from interface import offline
from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.cli.parsing import Arguments, argument, switch
from interface.failure import Failure
from interface.safe_dir import SafeDir
from interface.skill_folder import path_of, pins, put, remove
from protocol.inspection import FetchedSkills, SkillList, SkillPin

SKILLS_VERBS: Final = Subcommands(
    "skills",
    (
        Subcommand("list", "List the skills of the project and the agents that use them"),
        Subcommand("import", "Copy skills from a repository, pinned to a commit"),
        Subcommand("update", "Update imported skills from their repositories"),
        Subcommand("rm", "Delete imported skills"),
        Subcommand("install-self", "Install a skill that teaches coding agents to use agent-worker"),
    ),
)
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "skills import": (
        argument("source", metavar="SOURCE", help="skill or folder of skills as github:owner/repo@ref/path"),
        argument("names", metavar="NAME", nargs="*", help="only these skills"),
        switch("--force", about="replace existing skills"),
    ),
    "skills update": (
        argument("names", metavar="NAME", nargs="*", help="only these skills (default: all imported skills)"),
        switch("--force", about="also update changed skills; discard the changes"),
    ),
    "skills rm": (
        argument("names", metavar="NAME", nargs="+", help="names of imported skills"),
        switch("--force", about="also delete locally changed skills"),
    ),
}

_COMMIT: Final = 12
"""Characters of a commit that are shown."""


def run_skills_list(context: Context) -> int:
    return show_skills(context)


def show_skills(context: Context) -> int:
    found = installed_skills(context)
    for line in found.skipped:
        context.out.note(f"skipped: {one_line(line)}")
    return context.answer(found, skills_lines)


def installed_skills(context: Context) -> SkillList:
    """Return the skills of the project, and the sources of imported skills. Raises Failure."""
    root = context.project.root
    found = offline.agents.skill_list(Path(root))
    known = pins(root)
    rows = []
    for row in found.skills:
        pin = known.get(row.name) if row.path == path_of(row.name) else None
        if pin is not None:
            edited = row.digest != pin.digest
            row = msgspec.structs.replace(row, source=pin.source, commit=pin.commit, edited=edited)  # noqa: PLW2901
        rows.append(row)
    return msgspec.structs.replace(found, skills=tuple(rows))


def skills_lines(found: SkillList, screen: Screen) -> list[str]:
    rows: list[list[str]] = []
    for one in found.skills:
        edited = ", changed here" if one.edited else ""
        origin = "-" if one.source is None else f"{one.source} {(one.commit or '')[:_COMMIT]}{edited}"
        rows.append([one.name, one.path, origin, ", ".join(one.agents) or "-", one.description])
    return table(["NAME", "FOLDER", "FROM", "AGENTS", "WHAT FOR"], rows, screen) if rows else ["no skills"]


def run_skills_import(context: Context) -> int:
    root = context.project.root
    names: list[str] = context.args.names
    found = _fetch(context, context.args.source)
    unknown = [name for name in names if all(skill.name != name for skill in found.skills)]
    if unknown or not names:
        context.out.notes(f"skipped: {one_line(line)}" for line in found.skipped)
    if unknown:
        there = ", ".join(skill.name for skill in found.skills)
        raise Failure("not_found", f"{found.source} has no skill {unknown[0][:80]!r}", f"available: {there}")
    chosen = [skill for skill in found.skills if not names or skill.name in names]
    taken = [skill.name for skill in chosen if os.path.lexists(os.path.join(root, path_of(skill.name)))]
    if taken and not context.args.force:
        hint = "update it: awk skills update" if taken[0] in pins(root) else "repeat with --force"
        raise Failure("already_exists", f"{path_of(taken[0])} already exists", hint)
    for skill in chosen:
        put(root, found.source, found.commit, skill)
    return show_skills(context)


def _fetch(context: Context, source: str) -> FetchedSkills:
    return offline.programs.fetch_skills(source, offline.shell_environment(context.environ))


def run_skills_update(context: Context) -> int:
    wanted, edited = asked_for(context, "repeat with --force to lose the changes")
    sources: dict[str, FetchedSkills] = {}
    for name, pin in wanted.items():
        if pin.source not in sources:
            sources[pin.source] = _fetch(context, pin.source)
        found = sources[pin.source]
        new = next((skill for skill in found.skills if skill.name == name), None)
        if new is None:
            context.out.notes(f"skipped: {one_line(line)}" for line in found.skipped)
            context.out.note(f"note: {found.source} no longer contains {name}; the local copy was not changed")
        elif found.commit != pin.commit or name in edited or not is_there(context, name):
            put(context.project.root, found.source, found.commit, new)
            context.out.note(f"note: {name} was updated to {found.commit[:12]}")
    return show_skills(context)


def run_skills_rm(context: Context) -> int:
    wanted, _edited = asked_for(context, "repeat with --force")
    for name in wanted:
        remove(context.project.root, name)
    return show_skills(context)


def imported(context: Context, names: list[str]) -> dict[str, SkillPin]:
    """Return the imported skills ``names`` (default: all). Raises Failure (not_found)."""
    known = pins(context.project.root)
    unknown = [name for name in names if name not in known]
    if unknown:
        hint = f"imported skills: {', '.join(sorted(known))}" if known else "no skills are imported"
        raise Failure("not_found", f"{unknown[0][:80]!r} is not an imported skill", hint)
    return {name: known[name] for name in names or sorted(known)}


def asked_for(context: Context, hint: str) -> tuple[dict[str, SkillPin], list[str]]:
    """Return the named imported skills, and those with local changes.

    Raises Failure: not_found, or conflict for local changes without ``--force``.
    """
    wanted = imported(context, context.args.names)
    edited = changed_here(context, wanted)
    if edited and not context.args.force:
        raise Failure("conflict", f"{', '.join(edited)} was changed locally", hint)
    return wanted, edited


def is_there(context: Context, name: str) -> bool:
    return os.path.lexists(os.path.join(context.project.root, path_of(name)))


def changed_here(context: Context, names: Iterable[str]) -> list[str]:
    """Return the skills of ``names`` whose files differ from the imported version, or are no longer valid."""
    as_they_came = {row.path for row in installed_skills(context).skills if row.source is not None and not row.edited}
    return [name for name in names if path_of(name) not in as_they_came and is_there(context, name)]


_OWN: Final = "agent-worker"
_FOLDERS: Final = (".agents/skills", ".claude/skills")
"""Folders in which coding agents search: most of them in the first, Claude Code in the second."""


def run_skills_install_self(context: Context) -> int:
    text = files("interface").joinpath("SKILL.md").read_text("utf-8")
    written = [f"{folder}/{_OWN}/SKILL.md" for folder in _FOLDERS]
    try:
        for folder in _FOLDERS:
            top, name = folder.split("/")
            with (
                SafeDir.open(context.project.root, ".") as root,
                root.folder(top, make=True) as above,
                above.folder(name, make=True) as folder_of_skills,
                folder_of_skills.folder(_OWN, make=True) as own,
            ):
                own.write("SKILL.md", text)
    except OSError as error:
        raise Failure("failed", f"the skill cannot be written: {error}", "its parent must be a directory") from error
    document = msgspec.json.encode({"schema": "awk/skills-install-self/1", "files": written})
    return context.answer(document, installed_lines)


def installed_lines(found: dict[str, list[str]], _screen: Screen) -> list[str]:
    return found["files"]
