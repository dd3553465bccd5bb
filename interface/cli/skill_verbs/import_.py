"""``awk skills import``: skills out of a repository, as one commit has them. Agents read them once that is trusted."""

import argparse
import os

from interface.cli.context import Context
from interface.cli.escape import one_line
from interface.cli.skill_verbs.report import fetch, show
from interface.failure import Failure
from interface.skill_folder import path_of, pins, put


def configure(parser: argparse.ArgumentParser) -> None:
    """SOURCE [NAME...]."""
    parser.add_argument("source", metavar="SOURCE", help="github:owner/repo@ref/path: a skill, or a folder of skills")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these")
    parser.add_argument("--force", action="store_true", help="in place of what is there")


def run(context: Context) -> int:
    """Copy them into the project, pin them, and show what there is."""
    root = context.project.root
    names: list[str] = context.args.names
    found = fetch(context, context.args.source)
    unknown = [name for name in names if all(skill.name != name for skill in found.skills)]
    if unknown or not names:
        context.out.notes(f"skipped: {one_line(line)}" for line in found.skipped)
    if unknown:
        there = ", ".join(skill.name for skill in found.skills)
        raise Failure("not_found", f"{found.source} has no skill {unknown[0][:80]!r}", f"it has {there}")
    chosen = [skill for skill in found.skills if not names or skill.name in names]
    taken = [skill.name for skill in chosen if os.path.lexists(os.path.join(root, path_of(skill.name)))]
    if taken and not context.args.force:
        hint = "bring it up to date: awk skills update" if taken[0] in pins(root) else "repeat with --force"
        raise Failure("already_exists", f"{path_of(taken[0])} is there already", hint)
    for skill in chosen:
        put(root, found.source, found.commit, skill)
    return show(context)
