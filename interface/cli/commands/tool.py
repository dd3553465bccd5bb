"""``awk tool``: the tools available to agents. Own tools are defined in the project file. Starts no kernel."""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from interface import offline
from interface.agent_dir import change_project_file, file_name, read_project_file
from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.commands.agent import agent_file_lines
from interface.cli.context import Context
from interface.cli.output import Screen, table
from interface.cli.parsing import Arguments, argument, switch
from interface.failure import Failure
from interface.safe_dir import SafeDir
from protocol.inspection import ProjectWritten, ToolList
from protocol.yaml_edit import NotYaml, read, with_value, without_value

TOOL_VERBS: Final = Subcommands(
    "tool",
    (
        Subcommand("list", "List the available tools and the agents that use them"),
        Subcommand("add", "Add a command as a tool of the project"),
        Subcommand("import", "Import tools from a file of another project"),
        Subcommand("mock", "Mock a tool: return a fixed result and run no command"),
        Subcommand("rm", "Delete a tool of the project"),
    ),
)
_NAME: Final = argument("name", metavar="NAME", help="name of a project tool")
_TYPED: Final = (
    "argument NAME:TYPE, with ? if optional (path:string, limit:integer?); ${path} in the command: its value"
)
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "tool add": (
        argument("name", metavar="NAME", help="name of the tool"),
        argument("-d", "--description", metavar="TEXT", required=True, help="description of the tool for models"),
        argument("-a", "--argument", metavar="NAME:TYPE", dest="arguments", action="append", default=[], help=_TYPED),
        switch("--read-only", about="the tool only reads; calls need no approval"),
        argument("--timeout", metavar="D", help="timeout of a call (default: 120s)"),
        argument("--mock", metavar="TEXT", help="fixed result instead of a command"),
    ),
    "tool import": (
        argument("file", metavar="FILE", help="YAML or JSON file with the key tools:, such as a project file"),
        argument("names", metavar="NAME", nargs="*", help="only these tools"),
        switch("--replace", about="replace tools of the same name"),
    ),
    "tool mock": (
        _NAME,
        argument("message", metavar="TEXT", nargs="?", help="fixed result, or - to read standard input"),
        switch("--off", about="remove the mock and run the command again"),
    ),
    "tool rm": (_NAME,),
}


KEY: Final = "tools"
MOCK: Final = "mock"
_FLAGS: Final = {
    "": "NAME",
    "description": "--description",
    "input": "--argument",
    "command": "the command after --",
} | {key: f"--{key}" for key in ("timeout", "mock")}
"""Key of a tool in the file -> the flag that it comes from."""
_WORDS: Final = {("command", "is missing"): ("is missing", "end with -- PROGRAM ARGUMENT..., or give --mock TEXT")}
_ARGUMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::([a-z]+\??))?", re.ASCII)


def run_tool_list(context: Context) -> int:
    return context.answer(offline.agents.tool_list(Path(context.project.root)), tools_lines)


def tools_lines(found: ToolList, screen: Screen) -> list[str]:
    rows = [
        [
            one.name,
            one.switch,
            one.kind,
            ("nothing" if one.read_only else "yes"),
            ", ".join(one.agents) or "-",
            (
                f"{one.description} ({shlex.join(one.command)})"
                if one.command and one.kind == "command"
                else one.description
            ),
        ]
        for one in found.tools
    ]
    return table(["NAME", "IN TOOLS:", "KIND", "CHANGES", "AGENTS", "DESCRIPTION"], rows, screen)


def run_tool_add(context: Context) -> int:
    args = context.args
    name: str = args.name
    if name in own_tools(context):
        hint = f"remove it first: {context.program} tool rm {name}"
        raise Failure("already_exists", f"tool {name} already exists in the project", hint)
    arguments: dict[str, str] = {}
    for text in args.arguments:
        match = _ARGUMENT.fullmatch(text)
        if match is None:
            raise Failure("usage", f"{text[:60]!r} is not NAME:TYPE", "for example: path:string or limit:integer?")
        arguments[match[1]] = match[2] or "string"
    given: dict[str, Any] = {
        "description": args.description,
        "command": list(context.params),
        "input": arguments,
        "read_only": args.read_only,
        "timeout": args.timeout,
        "mock": args.mock,
    }
    tool = {key: value for key, value in given.items() if value not in (None, False, [], {})}
    try:
        code = change_tools(context, (name,), partial(with_value, path=[KEY, name], value=tool))
    except Failure as failure:
        raise failure_of_flag(failure, name) from failure
    trust = "" if args.mock is not None else "; what it runs needs trust"
    context.out.note(f"note: agents that have {name} in tools: can call it{trust}")
    return code


def failure_of_flag(failure: Failure, name: str) -> Failure:
    """Return a mistake in arguments as a Failure that names the flag, because the file lacks the tool yet."""
    own = [place for place in failure.places if f"{place.where}.".startswith(f"{KEY}.{name}.")]
    if not own or own != list(failure.places):
        return failure
    key = own[0].where.removeprefix(f"{KEY}.{name}").lstrip(".").partition(".")[0]
    message, hint = _WORDS.get((key, own[0].message), (own[0].message, own[0].hint))
    return Failure("usage", f"{_FLAGS.get(key, key)}: {message}", hint)


def run_tool_import(context: Context) -> int:
    shown: str = context.args.file
    path = os.path.join(context.cwd, shown)
    try:
        with SafeDir.open(os.path.dirname(path) or ".", os.path.dirname(shown) or ".") as folder:
            text = folder.read(os.path.basename(path))
    except OSError as error:
        raise Failure("not_found", f"{shown}: {error.strerror or error}") from error
    found: dict[str, dict[str, Any]] = msgspec.to_builtins(offline.agents.tools_in(shown, text))
    names: list[str] = context.args.names
    unknown = [name for name in names if name not in found]
    if unknown:
        raise Failure("not_found", f"{shown} has no tool {unknown[0][:60]!r}", f"available tools: {', '.join(found)}")
    found = {name: tool for name, tool in found.items() if not names or name in names}
    taken = [name for name in found if name in own_tools(context)]
    if taken and not context.args.replace:
        hint = "repeat with --replace"
        raise Failure("already_exists", f"tools already exist in the project: {', '.join(taken)}", hint)

    def change(text: str) -> str:
        for name, tool in found.items():
            text = with_value(text, [KEY, name], tool)
        return text

    return change_tools(context, tuple(found), change)


def run_tool_mock(context: Context) -> int:
    args = context.args
    if args.off == (args.message is not None):
        raise Failure("usage", "TEXT or --off is required")
    name: str = args.name
    require_tool(context, name)
    path = [KEY, name, MOCK]
    before = own_tools(context)[name]
    message = None if args.message is None else context.message()

    def change(text: str) -> str:
        if message is not None:
            return with_value(text, path, message)
        try:
            return without_value(text, path)
        except KeyError:
            return text

    code = change_tools(context, (name,), change)
    if before.get("command") and (MOCK in before) == args.off:
        again = f"trust is for exactly what they run, so it is asked for again ({context.program} trust)"
        context.out.note(f"note: agents that have {name} in tools: run something else now; {again}")
    return code


def run_tool_rm(context: Context) -> int:
    name: str = context.args.name
    require_tool(context, name)
    rows = offline.agents.tool_list(Path(context.project.root)).tools
    agents = [agent for row in rows if row.name == name for agent in row.agents]
    if agents:
        text = f"{', '.join(agents)} has {name} in tools:"
        raise Failure("conflict", text, f"remove it there first: {context.program} agent edit {agents[0]}")
    return change_tools(context, (name,), partial(without_value, path=[KEY, name]))


def change_tools(context: Context, names: tuple[str, ...], change: Callable[[str], str]) -> int:
    """Edit the project file and print its name. Raises Failure."""
    root = context.project.root
    changed = change_project_file(root, change)
    if not changed:
        context.out.note("note: nothing changed")
    document = ProjectWritten(file=file_name(root), tools=names, changed=changed)
    return context.answer(document, agent_file_lines)


def tools_of(text: str, shown: str) -> dict[str, dict[str, Any]]:
    try:
        data = read(text)
    except NotYaml as error:
        raise Failure("bad_definition", f"{shown} is not valid YAML: {error}") from error
    found = cast("dict[str, object]", data).get(KEY) if isinstance(data, dict) else None
    tools = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    return {name: cast("dict[str, Any]", tool) for name, tool in tools.items() if isinstance(tool, dict)}


def own_tools(context: Context) -> dict[str, dict[str, Any]]:
    root = context.project.root
    return tools_of(read_project_file(root), file_name(root))


def require_tool(context: Context, name: str) -> None:
    own = own_tools(context)
    if name not in own:
        hint = f"defined tools: {', '.join(own)}" if own else f"add one: {context.program} tool add"
        raise Failure("not_found", f"tool {name[:60]!r} is not defined in the project file", hint)
