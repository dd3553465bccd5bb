"""Configuration files of programs that only this user reads (0600), their TOML, and MCP servers as they name them.

Values that an MCP server gets of the user's environment are secret: in a file that outlives the attempt there is only
the name of a variable of the program's own process. TOML is written here because the standard library only reads it.
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
    """Write a text or JSON to ``path``, from its first byte on readable by this user alone. Raises OSError."""
    text = content if isinstance(content, str) else as_json(content)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(open_new(path, MODE), "w", encoding="utf-8") as file:
        file.write(text)
    return path


def as_json(value: Mapping[str, Any]) -> str:
    """Return a configuration as JSON."""
    return msgspec.json.encode(value).decode()


def server_entry(server: McpServer, *, typed: bool) -> dict[str, Any]:
    """An MCP server as most programs configure it; ``typed``: with a word for its transport."""
    if server.url is not None:
        return {**({"type": "http"} if typed else {}), "url": server.url, "headers": server.headers}
    kind = {"type": "stdio"} if typed else {}
    return {**kind, "command": server.command, "args": list(server.args), "env": server.env}


def opened(path: Path) -> BinaryIO:
    """Open a file that lies where a program can write: follow no link, wait for no pipe. Raises OSError."""
    return os.fdopen(open_regular(path), "rb")


def folder(home: Path, *names: str) -> Path:
    """The folder of these ``names`` below ``home``, made where it is missing. Raises OSError.

    A program in a sandbox may write to its home: a link that it left there would lead us to where it may not write.
    """
    path = home
    for name in names:
        path = path / name
        if path.is_symlink():
            path.unlink()
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def own_skills(start: Start) -> str | None:
    """The folder with copies of its owner's skills, which is outside of where the program works; None: it has none."""
    folder = f"{start.session_dir}/{OWN_SKILLS}"
    return folder if any(skill.folder.startswith(f"{folder}/") for skill in start.skills) else None


Value = str | bool | int | float | Sequence["Value"] | Mapping[str, "Value"]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def document(values: Mapping[str, Value]) -> str:
    """Return a TOML document: one line for each key, tables as inline tables."""
    return "".join(f"{_key(name)} = {literal(value)}\n" for name, value in values.items())


def literal(value: Value) -> str:
    """Return one value as TOML."""
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
    """As JSON has it, which TOML's basic strings take; but TOML wants DEL escaped, and JSON does not."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


VARIABLE: Final = "AGENT_WORKER_PRIVATE_SERVER_{}"
"""Name of a value in codex's environment: no two servers share one, and none of them is codex's to follow."""
STARTUP_SECONDS: Final = 60
"""For an MCP server to come, ours and the agent's own."""
_SHELL: Final = "/bin/sh"
_RENAMED: Final = 'export {0}="${1}"; unset {1}; '


class CodexServers(NamedTuple):
    """``tables`` are entries of ``mcp_servers``; ``variables`` belong into codex's environment, and not its shells'."""

    tables: Mapping[str, Value]
    variables: Mapping[str, str]


def absent(servers: Mapping[str, McpServer], path: str, cwd: str) -> str | None:
    """The name of the first server whose program is not there, looked for as it will be started; None: all are."""
    for name, server in servers.items():
        command = server.command or ""
        # One with a slash is looked for in the directory that it is started in, others on the PATH.
        if server.url is None and which(str(Path(cwd, command)) if "/" in command else command, path=path) is None:
            return name
    return None


def codex_servers(servers: Mapping[str, McpServer], tool_seconds: float) -> CodexServers:
    """Return the tables of ``servers`` for codex's configuration, and the variables that hold their secrets."""
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
    """``servers`` as entries of ``mcp`` in opencode's configuration, which has to go with the attempt."""
    common = {"enabled": True, "timeout": round(tool_seconds * 1000)}
    entries: dict[str, dict[str, Any]] = {}
    for name, server in servers.items():
        if server.url is None:
            command = [server.command or "", *server.args]
            entries[name] = {"type": "local", "command": command, "environment": server.env, **common}
        else:
            entries[name] = {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False, **common}
    return entries
