"""``awk validate``, ``config`` and ``schema``: definitions as the kernel would take them; needs no kernel, starts none.

``validate`` says every mistake at once, ``config`` where each value came from. ``schema`` writes what an editor needs
to check files while they are written: JSON Schemas that are part of the project, so that they work without a network,
for everybody who has the project.
"""

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from interface.agent_dir import open_agents
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, escape, one_line, width
from interface.cli.parsing import json_flag
from interface.failure import Failure
from interface.offline import mistake, places_of, resolution, schema_text, validation
from interface.safe_dir import Unusable
from protocol.inspection import Kind, Resolution, Validation
from protocol.yaml_writer import entry

KINDS: Final[tuple[Kind, ...]] = ("agent", "workflow", "project")
_NAME: Final = ".schema"
FOLDER: Final = f".agents/{_NAME}"
_MODELINE: Final = "# yaml-language-server: $schema="
_KIND_OF: Final = {".agents": "agent", ".workflows": "workflow", "": "project"}
_COLUMN: Final = 48
"""Where the origins stand, if the value leaves room."""
_STEP: Final = 2


def configure_validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", help="agent, workflow or project files (default: all)")
    json_flag(parser)


def run_validate(context: Context) -> int:
    checked = validation(context.project, context.cwd or context.project.root, context.args.files, context.environ)
    if not context.args.json:
        for place in places_of(error for file in checked.files for error in file.errors):
            context.out.error(mistake(place))
        for place in places_of(warning for file in checked.files for warning in file.warnings):
            context.out.warning(mistake(place))
    context.answer(checked, validation_lines)
    return Exit.OK if all(file.ok for file in checked.files) else Exit.BAD_CONFIGURATION


def validation_lines(checked: Validation, screen: Screen) -> list[str]:
    lines: list[str] = []
    for file in checked.files:
        name, count = one_line(file.path), len(file.errors)
        wrong = f"{screen.style('wrong', 'red')}  {name}: {count} {'error' if count == 1 else 'errors'}"
        lines.append(wrong if count else f"{screen.style('ok', 'green')}     {name}")
    return lines or ["there is nothing to check: no .agents, no .workflows, no project file"]


def configure_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "asked",
        metavar="FILE|NAME",
        nargs="?",
        help="a file, an agent, a workflow, @workflow or agent@workflow (default: the project)",
    )
    json_flag(parser)


def run_config(context: Context) -> int:
    root = context.project.root
    return context.answer(resolution(root, context.cwd or root, context.args.asked), resolution_lines)


def resolution_lines(found: Resolution, screen: Screen) -> list[str]:
    head = f"# {found.kind} {one_line(found.name or found.path or 'no project file: all defaults')}"
    return [head, *_mapping(found.definition, "", found.origins, 0, screen)]


def _mapping(
    values: Mapping[str, Any], where: str, origins: Mapping[str, str], indent: int, screen: Screen
) -> Iterator[str]:
    """The keys of a mapping at the path ``where``, each with its origin, or with those of what is in it."""
    margin = " " * indent
    for key, value in values.items():
        at = f"{where}.{key}" if where else key
        origin = origins.get(at)
        if origin is not None:
            first, *rest = entry(key, value, indent)
            text = escape(first)
            gap = " " * max(2, _COLUMN - width(text))
            yield f"{text}{gap}{screen.style(f'# {one_line(origin)}', 'dim')}"
            yield from (escape(line) for line in rest)
            continue
        yield f"{margin}{escape(key)}:"
        if isinstance(value, Mapping):
            yield from _mapping(cast("Mapping[str, Any]", value), at, origins, indent + _STEP, screen)
            continue
        for index, item in enumerate(value):  # a list of things with keys: the first line of each carries the dash
            lines = _mapping(item, f"{at}[{index}]", origins, indent + 2 * _STEP, screen)
            for number, line in enumerate(lines):
                yield line if number else f"{margin}  - {line[indent + 2 * _STEP :]}"


def configure_schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, nargs="?", help="print the JSON Schema of this file")
    parser.add_argument("--write", action="store_true", help="write all of them where the files' headers look")


def run_schema(context: Context) -> int:
    if context.args.write:
        context.out.lines(write_schemas(context.project.root))
    if context.args.kind is not None:
        context.out.document(schema_text(context.args.kind))
    elif not context.args.write:
        raise Failure("usage", "which file? agent, workflow or project", f"see {context.program} schema --help")
    return Exit.OK


def write_schemas(root: str) -> list[str]:
    """Write the schemas into the project, where they are not there as they are now. Returns what was written.

    No link is followed: what is checked out need not be ours. Raises Failure.
    """
    written: list[str] = []
    try:
        with open_agents(root, make=True) as agents, agents.folder(_NAME, make=True) as folder:
            for name, text in ((f"{kind}.json", schema_text(kind)) for kind in KINDS):
                with suppress(FileNotFoundError, Unusable):
                    if folder.read(name) == text:
                        continue
                folder.write(name, text)
                written.append(f"{FOLDER}/{name}")
    except OSError as error:
        raise Failure("failed", f"{FOLDER} cannot be written: {error.strerror or error}") from error
    return written


def header(path: str) -> str:
    """The first line of a new YAML file at ``path`` (from the project's root), by which editors find its schema.

    Empty for a file that has none.
    """
    folder, name = os.path.split(path)
    kind = _KIND_OF.get(folder) if name.endswith(".yaml") else None
    if kind is None:
        return ""
    return f"{_MODELINE}{os.path.relpath(f'{FOLDER}/{kind}.json', folder or '.')}\n"
