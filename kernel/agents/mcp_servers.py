"""The keys ``tools`` and ``mcp_servers``: mistakes in them and in tools of the project file, and the servers of an
agent as the keys and ``.mcp.json`` define them.

Values of the user's environment go into a server's environment or its headers and nowhere else: a command line can be
read by everybody on the machine.
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
    """A mistake in one key of an agent, before its place in a file is known. ``key`` is a path
    (``mcp_servers.github.url``).
    """

    key: str
    message: str
    hint: str | None = None


def name_faults(names: tuple[str, ...], own: Mapping[str, ProjectTool]) -> Iterator[KeyFault]:
    """The mistakes in an agent's ``tools``. ``own`` are those of the project file."""
    for name in names:
        if name in SWITCHES or name in own:
            continue
        if name in BUILT_IN:
            switch = BUILT_IN[name].switch
            yield KeyFault("tools", f"{name} comes with {switch}", f"write {switch}")
            continue
        known = {*SWITCHES, *own}
        close = nearest(name, known)
        make = f"there are {', '.join(sorted(known))}; awk tool add {name[:40]} makes one"
        yield KeyFault("tools", f"unknown tool {name[:60]!r}", make if close is None else f"did you mean {close}?")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        yield KeyFault("tools", f"{twice} is there twice", "keep one")


def tool_faults(name: str, tool: ProjectTool) -> Iterator[KeyFault]:
    """The mistakes in the tool ``name`` of the project file."""
    at = f"tools.{name}"
    fault = tool_name_fault(name)
    if fault is not None:
        yield KeyFault(at, fault)
    if not tool.description.strip():
        yield KeyFault(f"{at}.description", "is empty", "say what it does, and when to use it")
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
            message = f"{word[:60]!r} holds ${{{part}}}: an argument is a word of its own, and no part of one"
            yield KeyFault(f"{at}.command", message, f'write "${{{part}}}", or read it from standard input')
    for argument in placeholders(tool.command):
        if argument not in known:
            yield KeyFault(
                f"{at}.command", f"${{{argument}}} is no argument of it", f"add {argument}: string to input:"
            )


MCP_FILE: Final = ".mcp.json"
"""The project's file, which other programs read too. An agent has of it what its key names."""
EVERY: Final = "*"
"""All servers of that file."""
PROJECT: Final = "project"
"""The type of a server that is in that file."""

_KEY: Final = "mcp_servers"
_FILE_KEY: Final = "mcpServers"
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", re.ASCII)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_OURS: Final = "AGENT_WORKER_"
"""How variables begin that say where the kernel is, and what lets one in."""
_FORMS: Final = f"write its name with command: or url: under it, a list of names of {MCP_FILE}, or {MCP_FILE} for all"

Servers = Mapping[str, McpServer]


def full_servers(node: Node) -> Node:
    """``.mcp.json``, or a list of names of its servers, as the mapping it stands for."""
    if isinstance(node, ScalarNode) and node.text == MCP_FILE:
        return _of_project([ScalarNode(EVERY, plain=False, place=node.place)], node)
    if isinstance(node, ListNode) and all(isinstance(item, ScalarNode) for item in node.items):
        return _of_project([item for item in node.items if isinstance(item, ScalarNode)], node)
    return node


def server_faults(servers: Servers) -> Iterator[KeyFault]:
    """The mistakes in the key that show without any other file."""
    for name, server in servers.items():
        at = f"{_KEY}.{name}"
        fault = None if name == EVERY and server.type == PROJECT else server_name_fault(name)
        if fault is not None:
            yield KeyFault(at, fault)
        yield from (KeyFault(f"{at}.{key}", message, hint) for key, message, hint in _faults(server))


def servers_of(servers: Servers, root: Path) -> dict[str, McpServer]:
    """``servers`` with those of the project's file in full. Raises BadDefinition for that file.

    Of all of them, which nobody named, one that is written for another program is left out.
    """
    if not any(server.type == PROJECT for server in servers.values()):
        return dict(servers)
    entries, problems = _entries(root)
    there = {key.text: node for key, node in entries.entries}
    named = {name for name, server in servers.items() if server.type == PROJECT}
    for name in sorted(named - {EVERY}):
        if name not in there:
            raise fail(MCP_FILE, f"{MCP_FILE} has no server {name[:60]}", suggest(name, there), where=_KEY)
    found = {name: _entry(name, there[name], problems) for name in there if name in named}
    problems.check()
    if EVERY in named:
        found |= {name: _judged(name, there[name], problems)[0] for name in there if name not in named}
    own = {name: server for name, server in servers.items() if server.type != PROJECT}
    return {**{name: server for name in there if (server := found.get(name)) is not None}, **own}


def left_out(servers: Servers, root: Path) -> Iterator[str]:
    """Messages about servers of the project's file that an agent with all of them does not get, with the reason."""
    if EVERY not in servers:
        return
    entries, problems = _entries(root)
    for key, node in entries.entries:
        fault = None if key.text in servers else _judged(key.text, node, problems)[1]
        if fault is not None:
            yield f"{key.text[:60]} of {MCP_FILE} is left out: {fault}"


def _judged(name: str, node: Node, problems: Diagnostics) -> tuple[McpServer | None, str | None]:
    own = Diagnostics(problems.path, problems.text)
    server = _entry(name, node, own)
    fault = next((f"{error.where.rpartition('.')[2]} {error.message}" for error in own.errors), None)
    return (server, None) if fault is None else (None, fault)


def filled(servers: Servers, environ: Mapping[str, str]) -> dict[str, McpServer]:
    """``servers`` with every ``${NAME}`` replaced. Raises Refused (no_credentials) where one is not set.

    What comes out is secret.
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
            raise Refused("no_credentials", text, "set it where the kernel starts")
        return held

    return _VARIABLE.sub(of, value)


def _fill_header(value: str, environ: Mapping[str, str], where: str) -> str:
    """As ``_fill``, without the line's end that a value out of a file has. Raises Refused for more than one line."""
    filled = _fill(value, environ, where).strip()
    if any(ord(letter) < 32 for letter in filled):
        names = ", ".join(f"${match[1]}" for match in _VARIABLE.finditer(value)) or "it"
        raise Refused("no_credentials", f"{_KEY}.{where} cannot be sent: {names} has more than one line", "correct it")
    return filled


def _of_project(names: Iterable[ScalarNode], node: Node) -> MapNode:
    kind = MapNode(
        ((ScalarNode("type", plain=True, place=node.place), ScalarNode(PROJECT, plain=False, place=node.place)),),
        node.place,
    )
    return MapNode(tuple((name, kind) for name in names), node.place)


def read_only_faults(words: Iterable[str], servers: Collection[str]) -> Iterator[KeyFault]:
    """The mistakes in ``read_only`` of an agent that has ``servers``, by name."""
    for word in words:
        server, _tool = server_and_tool(word)
        if not server:
            hint = "write mcp__SERVER__TOOL, or mcp__SERVER__* for all of a server"
            yield KeyFault("read_only", f"{word[:80]!r} names no tool of an MCP server", hint)
        elif server not in servers and EVERY not in servers:
            hint = suggest(server, servers, what="its mcp_servers") if servers else "it has no mcp_servers"
            yield KeyFault("read_only", f"there is no MCP server {server[:40]!r} for {word[:80]!r}", hint)


def _faults(server: McpServer) -> Iterator[tuple[str, str, str | None]]:
    own = (server.command, server.url, server.args, server.env, server.headers)
    if server.type == PROJECT:
        if any(own):
            yield "type", f"what a server of {MCP_FILE} is, that file says", "remove the other keys, or type:"
        return
    if (server.command is None) == (server.url is None):
        yield "command", "needs exactly one of command and url", _FORMS
    elif server.type is not None and (server.type == "stdio") != (server.url is None):
        yield "type", f"{server.type} does not go with {'command' if server.url is None else 'url'}", "leave type: out"
    if server.url is not None:
        yield from _url_faults(server)
    elif server.headers:
        yield "headers", "go with url", "a program gets its values by env:"
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
        yield "url", "is not an http:// or https:// address", "a secret goes into headers:, as ${NAME}"
    if server.args or server.env:
        yield ("args" if server.args else "env"), "goes with command", "an address gets its values by headers:"


def _value_faults(server: McpServer) -> Iterator[tuple[str, str, str | None]]:
    for key, values in (("command", [server.command or ""]), ("args", server.args), ("url", [server.url or ""])):
        if any(_VARIABLE.search(value) for value in values):
            yield key, "cannot hold a variable: everybody could read it there", "use env: or headers:"
        if any("\0" in value for value in values):
            yield key, "holds a NUL character", None
    # Names of the user's variables that it gets.
    variables_values = (*server.env.values(), *server.headers.values())
    for name in sorted(
        frozenset(match[1] for variables_value in variables_values for match in _VARIABLE.finditer(variables_value))
    ):
        if name.startswith(_OURS):
            yield ("env" if server.env else "headers"), f"${name} is the kernel's own, and is not handed on", None
    for name in server.headers:
        if not _HEADER.fullmatch(name):
            yield "headers", f"{name[:60]!r} is no name for a header", "for example Authorization"
    for name in server.env:
        fault = own_name_fault(name)
        if fault is not None:
            yield f"env.{name}", fault, "name the program by its path, and what it is to load as its arguments"


def _entries(root: Path) -> tuple[MapNode, Diagnostics]:
    """The servers of the file, and the diagnostics of it. Raises BadDefinition."""
    try:
        data = read_bytes(inside(root, MCP_FILE, MCP_FILE), MCP_FILE)
    except FileMissing:
        raise fail(MCP_FILE, f"there is no {MCP_FILE}", "write the server in full, or the file", where=_KEY) from None
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
