"""Commands that are generated from interface/verbs.json, the list of the kernel's operations with a command.

Each command sends one request, or one for each named object, and prints the answer with a view from the command's
module.
"""

import json
import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import interface
from interface.cli.command_table import BY_WORD, Configure, Run
from interface.cli.context import Context
from interface.cli.requests import Listing, act, count_flag, show_list
from interface.client import new_key, quoted

if TYPE_CHECKING:
    import argparse

Verb = dict[str, Any]
RULES: Final = "/spaces/<space>/rules"
"""Rules may also be in a personal space."""
GENERATED: Final = "generated"
"""This module, which replaces the module of a command."""


@cache
def verbs() -> dict[str, Verb]:
    """Return the generated commands by their words."""
    with open(os.path.join(os.path.dirname(interface.__file__), "verbs.json"), "rb") as file:
        found: dict[str, Verb] = json.load(file)
    return found


def load_verb(words: str) -> tuple[Configure, Run]:
    """Return the functions that declare the arguments of a command and run the command."""
    verb = verbs()[words]
    module = BY_WORD[words.partition(" ")[0]].module
    return partial(_configure, verb), partial(_run, verb, getattr(module, verb["view"]))


def _configure(verb: Verb, parser: "argparse.ArgumentParser") -> None:
    for one in verb["arguments"]:
        how = dict(one["how"])
        if how.get("type") == "int":
            how["type"] = int
        parser.add_argument(*one["names"], **how)
    if "lists" in verb:
        count_flag(parser)


def _run(verb: Verb, view: Callable[..., list[str]], context: Context) -> int:
    path: str = verb["path"]
    ids: Sequence[str] = ()
    fields: dict[str, Any] = {}
    for one in verb["arguments"]:
        field: str = one["field"]
        value: Any = getattr(context.args, one["how"].get("dest", one["names"][0]))
        if one["how"].get("nargs") == "+":
            ids = value
            path = path.replace(f"<{field}>", "{}")
        elif field == "space":
            from interface.cli.targets import target, workflow_target  # noqa: PLC0415  (takes msgspec)

            found = (target if path.startswith(RULES) else workflow_target)(value)
            path = path.replace("<space>", quoted(str(found.space)))
        elif f"<{field}>" in path:
            path = path.replace(f"<{field}>", quoted(value))
        elif value is not None:
            fields[field] = value
    query = {name: str(value).lower() for name, value in fields.items() if value is not False}
    match verb["method"]:
        case "GET" if "lists" in verb:
            field, parameter = verb["lists"].split()
            return show_list(context, path, Listing(field, parameter), view, fields)
        case "GET":
            return context.answer(context.kernel().get(path, query), view)
        case "POST" if ids:
            return act(context, path, ids, view, fields)
        case "POST":
            return context.answer(context.kernel().post(path, fields, key=new_key()), view)
        case _:
            return context.answer(context.kernel().delete(path, query), view)
