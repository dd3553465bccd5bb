"""``awk schema``: what an editor needs to check the files while they are written; needs no kernel."""

import argparse

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.schemas import KINDS, schema, write_schemas


def configure(parser: argparse.ArgumentParser) -> None:
    """Which file, or --write."""
    parser.add_argument("kind", choices=KINDS, nargs="?", help="print the JSON Schema of this file")
    parser.add_argument("--write", action="store_true", help="write all of them where the files' headers look")


def run(context: Context) -> int:
    """Print one schema, or the names of those that were written."""
    if context.args.write:
        context.out.lines(write_schemas(context.environ, context.project.root))
    if context.args.kind is not None:
        context.out.document(schema(context.environ, context.args.kind))
    elif not context.args.write:
        from interface.failure import Failure  # noqa: PLC0415  (only who asks for nothing needs it)

        raise Failure("usage", "which file? agent, workflow or project", f"see {context.program} schema --help")
    return Exit.OK
