"""An agent's own MCP servers, as codex and opencode are told of them.

What they get of the user's environment is secret: in a file that outlives the attempt there is only the name of a
variable of the program's own process.
"""

from collections.abc import Mapping
from pathlib import Path
from shutil import which
from typing import Any, Final, NamedTuple

from protocol.agent import McpServer
from worker.backends import toml

VARIABLE: Final = "AGENT_WORKER_PRIVATE_SERVER_{}"
"""Name of a value in codex's environment: no two servers share one, and none of them is codex's to follow."""
STARTUP_SECONDS: Final = 60
"""For an MCP server to come, ours and the agent's own."""
_SHELL: Final = "/bin/sh"
_RENAMED: Final = 'export {0}="${1}"; unset {1}; '


class CodexServers(NamedTuple):
    """``tables`` are entries of ``mcp_servers``; ``variables`` belong into codex's environment, and not its shells'."""

    tables: Mapping[str, toml.Value]
    variables: Mapping[str, str]


def absent(servers: Mapping[str, McpServer], path: str, cwd: str) -> str | None:
    """The name of the first server whose program is not there, looked for as it will be started; None: all are."""
    for name, server in servers.items():
        if server.url is None and which(_placed(server.command or "", cwd), path=path) is None:
            return name
    return None


def _placed(command: str, cwd: str) -> str:
    """A command with a slash is looked for in the directory that it is started in, others on the PATH."""
    return str(Path(cwd, command)) if "/" in command else command


def codex_servers(servers: Mapping[str, McpServer], tool_seconds: float) -> CodexServers:
    """``servers`` for codex."""
    tables: dict[str, toml.Value] = {}
    variables: dict[str, str] = {}
    for name, server in servers.items():
        table: dict[str, toml.Value] = {"tool_timeout_sec": tool_seconds}
        if server.url is None:
            own = {VARIABLE.format(len(variables) + number): key for number, key in enumerate(server.env)}
            variables |= {variable: server.env[key] for variable, key in own.items()}
            program, *args = _renaming(own, (server.command or "", *server.args))
            table |= {"command": program, "args": args, "env_vars": list(own)}
        else:
            headers: dict[str, toml.Value] = {}
            for header, value in server.headers.items():
                variable = VARIABLE.format(len(variables))
                headers[header], variables[variable] = variable, value
            table |= {"url": server.url, "env_http_headers": headers}
        tables[name] = table
    return CodexServers(tables, variables)


def _renaming(names: Mapping[str, str], words: tuple[str, ...]) -> tuple[str, ...]:
    """``words`` with variables under other names: codex hands them on under their own. Names alone are in the argv."""
    if not names:
        return words
    renamed = "".join(_RENAMED.format(name, variable) for variable, name in names.items())
    return (_SHELL, "-c", f'{renamed}exec "$@"', _SHELL, *words)


def opencode_servers(servers: Mapping[str, McpServer], tool_seconds: float) -> dict[str, dict[str, Any]]:
    """``servers`` as entries of ``mcp`` in opencode's configuration, which has to go with the attempt."""
    return {name: _opencode_server(server, tool_seconds) for name, server in servers.items()}


def _opencode_server(server: McpServer, tool_seconds: float) -> dict[str, Any]:
    common = {"enabled": True, "timeout": round(tool_seconds * 1000)}
    if server.url is None:
        command = [server.command or "", *server.args]
        return {"type": "local", "command": command, "environment": server.env, **common}
    return {"type": "remote", "url": server.url, "headers": server.headers, "oauth": False, **common}
