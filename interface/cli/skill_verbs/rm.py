"""``awk skills rm``: imported skills go."""

import argparse

from interface.cli.context import Context
from interface.cli.skill_verbs.report import changed_here, imported, show
from interface.failure import Failure
from interface.skill_folder import remove


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME..."""
    parser.add_argument("names", metavar="NAME", nargs="+", help="skills that were imported")
    parser.add_argument("--force", action="store_true", help="also what was changed here")


def run(context: Context) -> int:
    """Remove them, and show what is left."""
    wanted = imported(context, context.args.names)
    edited = changed_here(context, wanted)
    if edited and not context.args.force:
        raise Failure("conflict", f"{', '.join(edited)} was changed here", "repeat with --force")
    for name in wanted:
        remove(context.project.root, name)
    return show(context)
