"""What the outside sees without a story: help, completion, the OpenAPI document, and the refusals of every route."""

import argparse
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import trio

from interface.cli.command_parser import parser_for
from interface.cli.command_table import COMMANDS
from interface.cli.commands.help import TOPICS
from kernel.api.routes import ROUTES, route_of
from kernel.operations.operation import Operation
from tests.builders.api import ServedKernel, serve_kernel
from tests.interface.conftest import Cli
from tests.kernel.api.client import Answer
from tests.wire.normal import Normal, document
from tests.wire.story import FOLDER, REQUEST

_PLAIN: Final = Normal({})
_UNKNOWN: Final = {"no_such_field": 1}


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the parser of each command, and those of the commands under it."""
    for command in COMMANDS:
        yield from _below(command.word, parser_for(command, "awk", command.load()[0]))


def _below(words: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield words, parser
    for action in parser._actions:
        if isinstance(action.choices, Mapping):
            for word, one in cast("Mapping[str, argparse.ArgumentParser]", action.choices).items():
                yield from _below(f"{words} {word}", one)


def commands() -> str:
    """Return what each parser takes: the layout of ``--help`` differs between versions of Python, this does not."""
    parts = []
    for words, parser in parsers():
        lines = [f"## awk {words}", str(parser.description or ""), *([parser.epilog] if parser.epilog else ())]
        for action in parser._actions:
            name = "/".join(action.option_strings) or str(action.metavar or action.dest)
            kinds = {
                "metavar": action.metavar if action.option_strings else None,
                "nargs": action.nargs,
                "choices": None if action.choices is None else list(action.choices),
                "default": None if action.default is argparse.SUPPRESS else action.default,
                "required": action.required or None,
                "hidden": True if action.help is argparse.SUPPRESS else None,
            }
            told = {key: value for key, value in kinds.items() if value is not None}
            text = "" if action.help is argparse.SUPPRESS else action.help or ""
            lines.append(f"{name} {json.dumps(told, default=str)} {text}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def command(*words: str, root: Path) -> str:
    cli = Cli(root, root / "home")
    return _PLAIN.text(cli(*words).out)


def topics(root: Path) -> str:
    """Return the overview of all commands and what ``awk help`` explains besides commands."""
    return "\n".join(f"## awk help {word}\n{command('help', *word.split(), root=root)}" for word in ("", *TOPICS))


def openapi(root: Path) -> str:
    async def ask() -> Answer:
        async with serve_kernel(root) as kernel:
            return await kernel.ask("GET", "/openapi.json")

    return document(_PLAIN(json.loads(json.dumps(trio.run(ask).json, sort_keys=True)))) + "\n"


def refusals(root: Path) -> str:
    """Return what each route answers without a token, with too small a one, and to what does not exist."""
    return trio.run(_refusals, root)


async def _refusals(root: Path) -> str:
    parts = []
    async with serve_kernel(root) as kernel:
        reader = (await kernel.ask("POST", "/tokens", {"scope": "read"})).json["token"]
        await kernel.attempt()
        for route in sorted(ROUTES, key=lambda route: (route.path, route.method)):
            found = {name: _refusal(answer) async for name, answer in _wrong(kernel, route, reader)}
            parts.append(f"## {route.method} {route.path}\n{document(_PLAIN(found))}\n")
    return "\n".join(parts)


async def _wrong(kernel: ServedKernel, route: Operation, reader: str) -> AsyncGenerator[tuple[str, Answer], None]:
    path, body = re.sub(r"<[^>]*>", "absent", route.path), _bodies().get(route)
    ask = partial(kernel.ask, route.method, path)
    if not route.tokenless:
        yield "no token", await ask(body, headers=kernel.headers(None))
        yield "attempt", await ask(body, headers=kernel.headers("worker-token"))
        if route.needs != "read":
            yield "scope read", await ask(body, headers=kernel.headers(reader))
    if route.asks is not None:
        yield "unknown field", await ask(_UNKNOWN)
    if path != route.path:
        yield "absent", await ask(body)


def _bodies() -> dict[Operation, Any]:
    found: dict[Operation, Any] = {}
    for file in sorted(FOLDER.iterdir()):
        for line in file.read_text("utf-8").splitlines():
            match = REQUEST.fullmatch(line)
            if match and match[4] and (route := route_of(match[2], match[3])) is not None:
                found.setdefault(route, json.loads(match[4]))
    return found


def _refusal(answer: Answer) -> Any:
    body = answer.json if "json" in answer.headers.get("content-type", "") else {}
    return {"status": answer.status, **{key: body[key] for key in ("code", "detail", "hint") if key in body}}
