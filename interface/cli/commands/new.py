"""``awk new``: an agent without a file, kept until the kernel is stopped."""

import argparse
import json

from interface.cli.context import Context
from interface.client import new_key


def configure(parser: argparse.ArgumentParser) -> None:
    """[NAME] and what to run."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="its name (default: the kernel picks one)")
    parser.add_argument("-m", "--model", metavar="MODEL", required=True, help="provider/name, or an alias")
    parser.add_argument("-b", "--backend", metavar="BACKEND", help="what runs it (default: sdk)")
    parser.add_argument("-s", "--system", metavar="TEXT", help="its system prompt")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(context: Context) -> int:
    """Make it, and print its name."""
    given = {name: getattr(context.args, name) for name in ("name", "model", "backend", "system")}
    body = {name: value for name, value in given.items() if value is not None}
    answer = context.started_kernel().post("/agents", body, key=new_key())
    if context.args.json:
        context.out.document(answer)
    else:
        context.out.lines([str(json.loads(answer)["name"])])
    return 0
