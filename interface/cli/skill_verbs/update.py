"""``awk skills update``: what imported skills come from is looked up again, and pinned anew."""

import argparse

from interface.cli.context import Context
from interface.cli.escape import one_line
from interface.cli.skill_verbs.report import changed_here, fetch, imported, is_there, show
from interface.failure import Failure
from interface.skill_folder import put
from protocol.toolbox import FetchedSkills


def configure(parser: argparse.ArgumentParser) -> None:
    """[NAME...]."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these (default: all that were imported)")
    parser.add_argument("--force", action="store_true", help="also what was changed here: the changes are lost")


def run(context: Context) -> int:
    """Copy what is new, and show what there is."""
    wanted = imported(context, context.args.names)
    edited = changed_here(context, wanted)
    if edited and not context.args.force:
        raise Failure("conflict", f"{', '.join(edited)} was changed here", "repeat with --force to lose the changes")
    sources: dict[str, FetchedSkills] = {}
    for name, pin in wanted.items():
        if pin.source not in sources:
            sources[pin.source] = fetch(context, pin.source)
        found = sources[pin.source]
        new = next((skill for skill in found.skills if skill.name == name), None)
        if new is None:
            context.out.notes(f"skipped: {one_line(line)}" for line in found.skipped)
            context.out.note(f"note: {found.source} has no {name} any more; it is kept as it is")
        elif found.commit != pin.commit or name in edited or not is_there(context, name):
            put(context.project.root, found.source, found.commit, new)
            context.out.note(f"note: {name} is that of {found.commit[:12]} now")
    return show(context)
