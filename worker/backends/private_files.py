"""Private configuration files of programs (0600), TOML encoding, and MCP server entries in each program's format.

Values that an MCP server gets from the user's environment are secret: a file that outlives the attempt names only a
variable of the program's process. TOML is written here, because the standard library only reads it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from osfiles.atomic_write import open_new
from osfiles.safe_open import open_regular
from protocol.agent import McpServer
from protocol.backends import OWN_SKILLS
from protocol.ipc import Start

MODE: Final = 0o600


def write(path: Path, content: str | Mapping[str, Any]) -> Path:
    """Write a text or JSON to ``path``; no other user can read it at any time. Raises OSError."""
    text = content if isinstance(content, str) else as_json(content)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(open_new(path, MODE), "w", encoding="utf-8") as file:
        file.write(text)
    return path


def as_json(value: Mapping[str, Any]) -> str:
    """Return a configuration as JSON."""
    return msgspec.json.encode(value).decode()


def server_entry(server: McpServer, *, typed: bool) -> dict[str, Any]:
    """Return an MCP server in the common JSON format; with its transport type if ``typed``."""
    if server.url is not None:
        return {**({"type": "http"} if typed else {}), "url": server.url, "headers": server.headers}
    kind = {"type": "stdio"} if typed else {}
    return {**kind, "command": server.command, "args": list(server.args), "env": server.env}


def opened(path: Path) -> BinaryIO:
    """Open a file in a directory that a program can write: do not follow links or block on pipes. Raises OSError."""
    return os.fdopen(open_regular(path), "rb")


def folder(home: Path, *names: str) -> Path:
    """Return the folder ``names`` below ``home``; create it if it is missing. Raises OSError.

    Links are removed: a program in a sandbox could use one to make us write outside of its home.
    """
    path = home
    for name in names:
        path = path / name
        if path.is_symlink():
            path.unlink()
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def own_skills(start: Start) -> str | None:
    """Return the folder outside of the working directory with copies of the owner's skills; None without skills."""
    folder = f"{start.session_dir}/{OWN_SKILLS}"
    return folder if any(skill.folder.startswith(f"{folder}/") for skill in start.skills) else None


Value = str | bool | int | float | Sequence["Value"] | Mapping[str, "Value"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def document(values: Mapping[str, Value]) -> str:
    """Return a TOML document: one line per key, with tables as inline tables."""
    return "".join(f"{_key(name)} = {literal(value)}\n" for name, value in values.items())


def literal(value: Value) -> str:
    """Return ``value`` in TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _string(value)
        case Mapping():
            return "{" + ", ".join(f"{_key(name)} = {literal(inner)}" for name, inner in value.items()) + "}"
        case _:
            return "[" + ", ".join(map(literal, value)) + "]"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """Return ``text`` as a JSON string, which is valid TOML except for DEL, which TOML requires to be escaped."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


VARIABLE: Final = "AGENT_WORKER_PRIVATE_SERVER_{}"
"""Name of a secret's variable in codex's environment: unique for each server, and not used by codex."""
STARTUP_SECONDS: Final = 60
"""Time for an MCP server to connect, including Daemon MCP."""
_SHELL: Final = "/bin/sh"
_RENAMED: Final = 'export {0}="${1}"; unset {1}; '


class CodexServers(NamedTuple):
    """MCP servers in codex's format. ``tables``: entries of ``mcp_servers``; ``variables``: codex's environment."""

    tables: Mapping[str, Value]
    variables: Mapping[str, str]


def missing_server(servers: Mapping[str, McpServer], path: str, cwd: str) -> str | None:
    """Return the name of the first server whose program cannot be found, or None."""
    for name, server in servers.items():
        command = server.command or ""
        # A path with a slash is relative to the working directory of the server; others are searched on the PATH.
        if server.url is None and which(str(Path(cwd, command)) if "/" in command else command, path=path) is None:
            return name
    return None


def codex_servers(servers: Mapping[str, McpServer], tool_seconds: float) -> CodexServers:
    """Return the tables of ``servers`` for codex's configuration, and the variables with their secrets."""
    tables: dict[str, Value] = {}
    variables: dict[str, str] = {}
    for name, server in servers.items():
        table: dict[str, Value] = {"tool_timeout_sec": tool_seconds}
        if server.url is None:
            own = {VARIABLE.format(len(variables) + number): key for number, key in enumerate(server.env)}
            variables |= {variable: server.env[key] for variable, key in own.items()}
            words = (server.command or "", *server.args)
            if not own:
                program, *args = words
            else:
                renamed = "".join(_RENAMED.format(key, variable) for variable, key in own.items())
                program, *args = (_SHELL, "-c", f'{renamed}exec "$@"', _SHELL, *words)
            table |= {"command": program, "args": args, "env_vars": list(own)}
        else:
            headers: dict[str, Value] = {}
            for header, value in server.headers.items():
                variable = VARIABLE.format(len(variables))
                headers[header], variables[variable] = variable, value
            table |= {"url": server.url, "env_http_headers": headers}
        tables[name] = table
    return CodexServers(tables, variables)


def opencode_servers(servers: Mapping[str, McpServer], tool_seconds: float) -> dict[str, dict[str, Any]]:
    """Return ``servers`` as opencode's ``mcp`` entries. They contain secrets: delete them with the attempt."""
    common = {"enabled": True, "timeout": round(tool_seconds * 1000)}
    entries: dict[str, dict[str, Any]] = {}
    for name, server in servers.items():
        if server.url is None:
            command = [server.command or "", *server.args]
            entries[name] = {"type": "local", "command": command, "environment": server.env, **common}
        else:
            entries[name] = {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False, **common}
    return entries
