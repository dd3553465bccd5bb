"""``awk new``: an agent without a file, kept until the kernel is stopped."""

import argparse
import json
from collections.abc import Mapping

from interface.cli.context import Context
from interface.client import new_key


def configure(parser: argparse.ArgumentParser) -> None:
    """[NAME] and what to run."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="its name (default: the kernel picks one)")
    parser.add_argument("-m", "--model", metavar="MODEL", required=True, help="provider/name, or an alias")
    parser.add_argument("-b", "--backend", metavar="BACKEND", help="what runs it (default: sdk)")
    parser.add_argument("-s", "--system", metavar="TEXT", help="its system prompt (default: a short one)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(context: Context) -> int:
    """Make it, and print its name."""
    given = {name: getattr(context.args, name) for name in ("name", "model", "backend", "system")}
    body = {name: value for name, value in given.items() if value is not None}
    answer = context.started_kernel().post("/agents", _completed(body), key=new_key())
    if context.args.json:
        context.out.document(answer)
    else:
        context.out.lines([str(json.loads(answer)["name"])])
    return 0


def _completed(body: Mapping[str, object]) -> dict[str, object]:
    """``body`` with what the kernel asks for and nobody gave: a prompt, or the script of a mock."""
    if body.get("backend") == "mock" or str(body["model"]).startswith("mock/"):
        return {"mock": [{"text": "You said: ${{ message.text }}"}], **body}
    return {"system": "You are a helpful assistant.", **body}
