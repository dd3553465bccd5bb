"""``awk validate``: every mistake in the project's files at once; needs no kernel and starts none."""

import argparse
import json

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.parsing import json_flag
from interface.loader import ask, mistake, place_of


def configure(parser: argparse.ArgumentParser) -> None:
    """[FILE...]."""
    parser.add_argument("files", metavar="FILE", nargs="*", help="agent, workflow or project files (default: all)")
    json_flag(parser)


def run(context: Context) -> int:
    """Say of every file whether it is sound; what is wrong goes to stderr."""
    root = context.project.root
    where = ("--project", root, "--state", context.project.state, "--cwd", context.cwd or root)
    document = ask(context.environ, "validate", *where, "--", *context.args.files)
    files = json.loads(document)["files"]
    if context.args.json:
        context.out.document(document)
    else:
        for place in (place_of(error) for file in files for error in file["errors"]):
            context.out.error(mistake(place))
        for place in (place_of(warning) for file in files for warning in file["warnings"]):
            context.out.warning(mistake(place))
        from interface.cli.views.validation import lines  # noqa: PLC0415  (JSON needs no view)

        context.out.lines(lines(files, context.out.screen))
    return Exit.OK if all(file["ok"] for file in files) else Exit.BAD_CONFIGURATION
