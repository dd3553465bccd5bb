"""``awk tool import``: tools of another project's file become tools of this one."""

import argparse
import json
import os
from collections.abc import Mapping
from typing import Any

from interface.cli.context import Context
from interface.cli.tool_verbs.changing import KEY, own_tools, written
from interface.context.folder import Folder
from interface.failure import Failure
from interface.loader import ask
from interface.yaml_edit import with_value


def configure(parser: argparse.ArgumentParser) -> None:
    """FILE [NAME...]."""
    parser.add_argument("file", metavar="FILE", help="YAML or JSON with the key tools:, such as a project file")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these")
    parser.add_argument("--replace", action="store_true", help="in place of tools of the same name")


def run(context: Context) -> int:
    """Write them, and print the file."""
    found = _chosen(context)
    taken = [name for name in found if name in own_tools(context)]
    if taken and not context.args.replace:
        raise Failure("already_exists", f"the project has {', '.join(taken)} already", "repeat with --replace")

    def change(text: str) -> str:
        for name, tool in found.items():
            text = with_value(text, [KEY, name], tool)
        return text

    return written(context, tuple(found), change)


def _chosen(context: Context) -> Mapping[str, Mapping[str, Any]]:
    shown: str = context.args.file
    path = os.path.join(context.cwd, shown)
    try:
        with Folder.open(os.path.dirname(path) or ".", os.path.dirname(shown) or ".") as folder:
            text = folder.read(os.path.basename(path))
    except OSError as error:
        raise Failure("not_found", f"{shown}: {error.strerror or error}") from error
    found: dict[str, dict[str, Any]] = json.loads(ask(None, "tools-in", "--", shown, given=text.encode()))
    names: list[str] = context.args.names
    unknown = [name for name in names if name not in found]
    if unknown:
        raise Failure("not_found", f"{shown} has no tool {unknown[0][:60]!r}", f"it has {', '.join(found)}")
    return {name: tool for name, tool in found.items() if not names or name in names}
