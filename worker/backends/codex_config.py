"""What codex is told about one attempt: its ``config.toml``. Pure.

It is written anew for each attempt into a home of codex's own, and holds no secret: those are in variables of codex's
own process, under names that its shells never get (``shell_environment_policy``). Nothing of the project configures or
instructs it: codex leaves ``.codex/`` alone where its user has not said that a project is to be trusted, and nobody
says that here; skills and ``AGENTS.md``, which it would read all the same, are off.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from protocol.agent import Approval
from protocol.ipc import Provider, Start
from protocol.tools import EVERY_TOOL, OFFERED_TO, TO_MODEL, server_and_tool
from worker.backends import toml
from worker.backends.servers import STARTUP_SECONDS, codex_servers
from worker.models.errors import Failed

KEY: Final = "AGENT_WORKER_PRIVATE_KEY"
TOKEN: Final = "AGENT_WORKER_PRIVATE_TOKEN"
PRIVATE: Final = "AGENT_WORKER_PRIVATE_*"
"""What codex keeps from the commands it runs."""
OPENAI: Final = "https://api.openai.com/v1"
DAEMON: Final = "daemon"
_PROVIDER: Final = "agent-worker"
"""A name of our own: those that codex knows bring settings along, and a login."""

SANDBOXES: Final[Mapping[Approval, str]] = MappingProxyType(
    {"auto": "danger-full-access", "ask": "read-only", "all": "read-only", "deny": "read-only"}
)
"""``codex exec`` has nobody to ask (``approval_policy`` is never): what would be asked about, its sandbox refuses.
``auto`` runs everything, as it does in every backend; what confines that is the agent's ``sandbox``."""
SERVERS: Final[Mapping[Approval, str]] = MappingProxyType(
    {"auto": "approve", "ask": "prompt", "all": "prompt", "deny": "prompt"}
)
"""Of the agent's own MCP servers: all tools run, or none but those of ``read_only``. Its "writes" would believe what a
server says of itself."""


_EFFORTS: Final[Mapping[str, str]] = MappingProxyType({"max": "xhigh"})
"""Our words for effort that it has others for."""


def config(start: Start, endpoint: str | None = None) -> str:
    """The document; requests go to ``endpoint``, the provider's own address unless given.

    Raises Failed where there is no provider to name.
    """
    if start.provider is None:
        raise Failed("invalid", f"no provider for model {start.model!r}; name one in the agent's file")
    values: dict[str, toml.Value] = {
        "model": start.model,
        "model_provider": _PROVIDER,
        "model_providers": {_PROVIDER: _provider(start.provider, endpoint)},
        "developer_instructions": start.system,
        "approval_policy": "never",
        "sandbox_mode": SANDBOXES[start.approval],
        "mcp_servers": {**_servers(start), DAEMON: _daemon(start)},
        "shell_environment_policy": {"inherit": "all", "ignore_default_excludes": True, "exclude": [PRIVATE]},
        "features": _features(start),
        "agents": {"enabled": False},
        "project_doc_max_bytes": 0,
        "skills": {"bundled": {"enabled": False}, "include_instructions": False},
        "history": {"persistence": "none"},
        "analytics": {"enabled": False},
        "check_for_update_on_startup": False,
    }
    if start.effort is not None:
        values["model_reasoning_effort"] = _EFFORTS.get(start.effort, start.effort)
    if start.provider.base_url is not None:
        values["web_search"] = "disabled"
    return toml.document(values)


def secrets(start: Start) -> dict[str, str]:
    """Variables of codex's own process."""
    key = start.provider.api_key if start.provider is not None else None
    servers = codex_servers(start.mcp_servers, start.limits.tool_seconds).variables
    return {**servers, TOKEN: start.token, **({KEY: key} if key else {})}


def _provider(provider: Provider, endpoint: str | None) -> dict[str, toml.Value]:
    """Retries are the kernel's: it knows who else asks this provider, and shows that it waits."""
    values: dict[str, toml.Value] = {
        "name": provider.name,
        "base_url": endpoint or provider.base_url or OPENAI,
        "wire_api": "responses",
        "request_max_retries": 0,
        "stream_max_retries": 0,
    }
    return {**values, "env_key": KEY} if provider.api_key else values


def _daemon(start: Start) -> dict[str, toml.Value]:
    """Without ``required`` codex would go on without the kernel's tools, and say that all went well."""
    return {
        "url": start.mcp.url,
        "bearer_token_env_var": TOKEN,
        "http_headers": {OFFERED_TO: TO_MODEL},
        "required": True,
        "default_tools_approval_mode": "approve",
        "startup_timeout_sec": STARTUP_SECONDS,
        "tool_timeout_sec": start.limits.tool_seconds,
    }


def _servers(start: Start) -> dict[str, toml.Value]:
    """Required, for what is not it does not wait for: a server that takes a second to start is left out of the work."""
    mode: dict[str, toml.Value] = {
        "required": True,
        "startup_timeout_sec": STARTUP_SECONDS,
        "default_tools_approval_mode": SERVERS[start.approval],
    }
    tables = codex_servers(start.mcp_servers, start.limits.tool_seconds).tables
    return {
        name: {**table, **mode, **_reading(start, name)} for name, table in tables.items() if isinstance(table, Mapping)
    }


def _reading(start: Start, server: str) -> dict[str, toml.Value]:
    """What of ``server`` runs unasked. It takes names of tools only: a pattern counts where it is for all of them."""
    if start.approval not in {"ask", "deny"}:
        return {}
    tools = [tool for name, tool in map(server_and_tool, start.read_only) if name == server]
    if EVERY_TOOL in tools:
        return {"default_tools_approval_mode": "approve"}
    named = [tool for tool in tools if not tool.endswith(EVERY_TOOL)]
    return {"tools": {tool: {"approval_mode": "approve"} for tool in named}} if named else {}


def _features(start: Start) -> dict[str, toml.Value]:
    """Off: what needs an account, what costs tokens that are told nowhere, what would wait for a provider for ever."""
    off = ["apps", "plugins", "goals", "shell_snapshot", "unbounded_connection_retries"]
    if start.approval == "all":
        off += ["shell_tool", "unified_exec"]
    return dict.fromkeys(off, False)
