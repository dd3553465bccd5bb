"""The keys ``tools`` and ``mcp_servers``: validation, including tools of the project file, and the resulting servers.

Servers are defined by the key and by ``.mcp.json``. Values of the user's environment are only used in a server's
environment or headers: all users of the machine can read a command line.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from kernel.agents.environment import own_name_fault
from kernel.source.convert import Converter, TypeRules, model_of
from kernel.source.diagnostics import Diagnostics, fail, nearest, suggest
from kernel.source.files import FileMissing, inside, read_bytes, tree_of
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode
from protocol.agent import McpServer
from protocol.errors import Refused
from protocol.tools import (
    BUILT_IN,
    SWITCHES,
    ProjectTool,
    input_schema,
    part_placeholders,
    placeholders,
    server_and_tool,
    server_name_fault,
    tool_name_fault,
)


class KeyFault(NamedTuple):
    """An error in one key of an agent, without its file location. ``key`` is a path (``mcp_servers.github.url``)."""

    key: str
    message: str
    hint: str | None = None


def name_faults(names: tuple[str, ...], own: Mapping[str, ProjectTool]) -> Iterator[KeyFault]:
    """Yield the errors in an agent's ``tools``. ``own`` are the tools of the project file."""
    for name in names:
        if name in SWITCHES or name in own:
            continue
        if name in BUILT_IN:
            switch = BUILT_IN[name].switch
            yield KeyFault("tools", f"{name} is part of {switch}", f"write {switch}")
            continue
        known = {*SWITCHES, *own}
        close = nearest(name, known)
        make = f"available: {', '.join(sorted(known))}; add it with: awk tool add {name[:40]}"
        yield KeyFault("tools", f"unknown tool {name[:60]!r}", make if close is None else f"did you mean {close}?")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        yield KeyFault("tools", f"{twice} is listed twice", "remove one")


def tool_faults(name: str, tool: ProjectTool) -> Iterator[KeyFault]:
    """Yield the errors in the tool ``name`` of the project file."""
    at = f"tools.{name}"
    fault = tool_name_fault(name)
    if fault is not None:
        yield KeyFault(at, fault)
    if not tool.description.strip():
        yield KeyFault(f"{at}.description", "is empty", "describe what it does and when to use it")
    if tool.mock is None and not any(tool.command[:1]):
        yield KeyFault(f"{at}.command", "is missing", f"add command: [program, argument], or awk tool mock {name} TEXT")
    try:
        known: Mapping[str, object] = input_schema(tool.input)["properties"] if tool.input else {}
    except (ValueError, KeyError) as error:
        text = str(error) if isinstance(error, ValueError) else "has no properties"
        yield KeyFault(f"{at}.input", text, "write name: type for each argument, or a JSON Schema")
        return
    for word in tool.command:
        part = next(
            (name for name in part_placeholders(word) if name in known or not any(letter.isspace() for letter in word)),
            None,
        )
        if part is not None:
            message = f"{word[:60]!r} contains ${{{part}}} as a part of a word: an argument must be a whole word"
            yield KeyFault(f"{at}.command", message, f'write "${{{part}}}", or read it from standard input')
    for argument in placeholders(tool.command):
        if argument not in known:
            yield KeyFault(f"{at}.command", f"${{{argument}}} is not an argument", f"add {argument}: to input:")


MCP_FILE: Final = ".mcp.json"
"""The project's server file, which other programs read as well. An agent gets the servers that its key names."""
EVERY: Final = "*"
"""Stands for all servers of that file."""
PROJECT: Final = "project"
"""Type of a server that is defined in that file."""

_KEY: Final = "mcp_servers"
_FILE_KEY: Final = "mcpServers"
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", re.ASCII)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_OURS: Final = "AGENT_WORKER_"
"""Prefix of variables with the kernel's address and credentials."""
_FORMS: Final = f"write its name with command: or url:, a list of server names of {MCP_FILE}, or {MCP_FILE} for all"

Servers = Mapping[str, McpServer]


def full_servers(node: Node) -> Node:
    """Expand ``.mcp.json`` or a list of its server names to the equivalent mapping."""
    if isinstance(node, ScalarNode) and node.text == MCP_FILE:
        return _of_project([ScalarNode(EVERY, plain=False, place=node.place)], node)
    if isinstance(node, ListNode) and all(isinstance(item, ScalarNode) for item in node.items):
        return _of_project([item for item in node.items if isinstance(item, ScalarNode)], node)
    return node


def server_faults(servers: Servers) -> Iterator[KeyFault]:
    """Yield the errors in ``mcp_servers`` that can be found without reading other files."""
    for name, server in servers.items():
        at = f"{_KEY}.{name}"
        fault = None if name == EVERY and server.type == PROJECT else server_name_fault(name)
        if fault is not None:
            yield KeyFault(at, fault)
        yield from (KeyFault(f"{at}.{key}", message, hint) for key, message, hint in _faults(server))


def servers_of(servers: Servers, root: Path) -> dict[str, McpServer]:
    """Return ``servers`` with definitions from ``.mcp.json``. Raises BadDefinition for its errors.

    If the agent uses all servers, invalid servers are left out: another program may support these.
    """
    if not any(server.type == PROJECT for server in servers.values()):
        return dict(servers)
    entries, problems = _entries(root)
    there = {key.text: node for key, node in entries.entries}
    named = {name for name, server in servers.items() if server.type == PROJECT}
    for name in sorted(named - {EVERY}):
        if name not in there:
            raise fail(MCP_FILE, f"server {name[:60]} not found in {MCP_FILE}", suggest(name, there), where=_KEY)
    found = {name: _entry(name, there[name], problems) for name in there if name in named}
    problems.check()
    if EVERY in named:
        found |= {name: _judged(name, there[name], problems)[0] for name in there if name not in named}
    own = {name: server for name, server in servers.items() if server.type != PROJECT}
    return {**{name: server for name in there if (server := found.get(name)) is not None}, **own}


def left_out(servers: Servers, root: Path) -> Iterator[str]:
    """Yield why servers of ``.mcp.json`` are left out for an agent that uses all its servers."""
    if EVERY not in servers:
        return
    entries, problems = _entries(root)
    for key, node in entries.entries:
        fault = None if key.text in servers else _judged(key.text, node, problems)[1]
        if fault is not None:
            yield f"{key.text[:60]} of {MCP_FILE} is ignored: {fault}"


def _judged(name: str, node: Node, problems: Diagnostics) -> tuple[McpServer | None, str | None]:
    own = Diagnostics(problems.path, problems.text)
    server = _entry(name, node, own)
    fault = next((f"{error.where.rpartition('.')[2]} {error.message}" for error in own.errors), None)
    return (server, None) if fault is None else (None, fault)


def filled(servers: Servers, environ: Mapping[str, str]) -> dict[str, McpServer]:
    """Return ``servers`` with every ``${NAME}`` replaced. Raises Refused (no_credentials) if a variable is not set.

    The result is secret.
    """
    return {
        name: msgspec.structs.replace(
            server,
            env={key: _fill(value, environ, f"{name}.env") for key, value in server.env.items()},
            headers={key: _fill_header(value, environ, f"{name}.headers") for key, value in server.headers.items()},
        )
        for name, server in servers.items()
    }


def _fill(value: str, environ: Mapping[str, str], where: str) -> str:
    def of(match: re.Match[str]) -> str:
        held = environ.get(match[1]) or match[2]
        if held is None:
            text = f"{_KEY}.{where} needs ${match[1]}, which is not set"
            raise Refused("no_credentials", text, "set it in the environment of the kernel")
        return held

    return _VARIABLE.sub(of, value)


def _fill_header(value: str, environ: Mapping[str, str], where: str) -> str:
    filled = _fill(value, environ, where).strip()  # a value from a file ends in a line feed
    if any(ord(letter) < 32 for letter in filled):
        names = ", ".join(f"${match[1]}" for match in _VARIABLE.finditer(value)) or "it"
        raise Refused("no_credentials", f"{_KEY}.{where} cannot be sent: {names} contains line breaks", "remove them")
    return filled


def _of_project(names: Iterable[ScalarNode], node: Node) -> MapNode:
    kind = MapNode(
        ((ScalarNode("type", plain=True, place=node.place), ScalarNode(PROJECT, plain=False, place=node.place)),),
        node.place,
    )
    return MapNode(tuple((name, kind) for name in names), node.place)


def read_only_faults(words: Iterable[str], servers: Collection[str]) -> Iterator[KeyFault]:
    """Yield the errors in ``read_only`` of an agent with the MCP servers ``servers``."""
    for word in words:
        server, _tool = server_and_tool(word)
        if not server:
            hint = "write mcp__SERVER__TOOL, or mcp__SERVER__* for all tools of a server"
            yield KeyFault("read_only", f"{word[:80]!r} is not a tool of an MCP server", hint)
        elif server not in servers and EVERY not in servers:
            hint = suggest(server, servers, what="its mcp_servers") if servers else "the agent has no mcp_servers"
            yield KeyFault("read_only", f"MCP server {server[:40]!r} of {word[:80]!r} not found", hint)


def _faults(server: McpServer) -> Iterator[tuple[str, str, str | None]]:
    own = (server.command, server.url, server.args, server.env, server.headers)
    if server.type == PROJECT:
        if any(own):
            yield "type", f"is set by {MCP_FILE} for its servers", "remove the other keys, or type:"
        return
    if (server.command is None) == (server.url is None):
        yield "command", "needs exactly one of command and url", _FORMS
    elif server.type is not None and (server.type == "stdio") != (server.url is None):
        yield (
            "type",
            f"{server.type} cannot be used with {'command' if server.url is None else 'url'}",
            "remove type:",
        )
    if server.url is not None:
        yield from _url_faults(server)
    elif server.headers:
        yield "headers", "needs url", "pass values to a program with env:"
    yield from _value_faults(server)


def _url_faults(server: McpServer) -> Iterator[tuple[str, str, str | None]]:
    url = server.url or ""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        sound = sound and parts.username is None and url == "".join(url.split())
    except ValueError:
        sound = False
    if not sound:
        yield "url", "is not an http:// or https:// address", "put secrets into headers:, as ${NAME}"
    if server.args or server.env:
        yield (
            ("args" if server.args else "env"),
            "can only be combined with command",
            "pass values to an address with headers:",
        )


def _value_faults(server: McpServer) -> Iterator[tuple[str, str, str | None]]:
    for key, values in (("command", [server.command or ""]), ("args", server.args), ("url", [server.url or ""])):
        if any(_VARIABLE.search(value) for value in values):
            yield key, "must not contain a variable: other users could read its value", "use env: or headers:"
        if any("\0" in value for value in values):
            yield key, "contains a NUL character", None
    # Names of the user's variables that the server receives.
    variables_values = (*server.env.values(), *server.headers.values())
    for name in sorted(
        frozenset(match[1] for variables_value in variables_values for match in _VARIABLE.finditer(variables_value))
    ):
        if name.startswith(_OURS):
            yield ("env" if server.env else "headers"), f"${name} is internal to the kernel and cannot be passed", None
    for name in server.headers:
        if not _HEADER.fullmatch(name):
            yield "headers", f"{name[:60]!r} is not a valid header name", "for example Authorization"
    for name in server.env:
        fault = own_name_fault(name)
        if fault is not None:
            yield f"env.{name}", fault, "use the path of the program, and pass files to load as arguments"


def _entries(root: Path) -> tuple[MapNode, Diagnostics]:
    try:
        data = read_bytes(inside(root, MCP_FILE, MCP_FILE), MCP_FILE)
    except FileMissing:
        raise fail(MCP_FILE, f"{MCP_FILE} not found", "define the server, or create the file", where=_KEY) from None
    node, problems = tree_of(data, MCP_FILE)
    entries = node.get(_FILE_KEY) if isinstance(node, MapNode) else None
    if not isinstance(entries, MapNode):
        raise fail(MCP_FILE, f"has no {_FILE_KEY}", where=_FILE_KEY)
    return entries, problems


def _entry(name: str, node: Node, problems: Diagnostics) -> McpServer | None:
    where = f"{_FILE_KEY}.{name[:60]}"
    known = model_of(McpServer).by_key
    if isinstance(node, MapNode):
        node = MapNode(tuple(pair for pair in node.entries if pair[0].text in known), node.place)
    server = Converter(problems, TypeRules()).struct(node, McpServer, where)
    if server is None:
        return None
    fault = server_name_fault(name)
    if fault is not None:
        problems.add(node.place, where, fault)
    for key, message, hint in _faults(server):
        place = node.place_of(key) if isinstance(node, MapNode) else node.place
        problems.add(place, f"{where}.{key}", message, hint)
    return server
