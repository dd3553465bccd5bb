"""What opencode is told about one attempt: its configuration, its environment. Pure.

Key and token are files (0600) that the configuration names, so no environment holds them. Nothing of the user or of the
project configures it; what it cannot be told to leave alone is ``opencode_project``'s business.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from protocol.agent import Approval
from protocol.ipc import Provider, Start
from protocol.tools import server_and_tool
from worker.backends.servers import opencode_servers
from worker.models.errors import Failed

DAEMON: Final = "daemon"
PROVIDER: Final = "agent-worker"
"""A name of our own: those that opencode knows bring models and addresses along."""
CONTEXT_TOKENS: Final = 200_000
"""Where it begins to compact. A smaller model refuses before, and that is a cause of its own."""
_SPOKEN: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "anthropic": ("@ai-sdk/anthropic", "https://api.anthropic.com", "/v1"),
        "openai": ("@ai-sdk/openai", "https://api.openai.com/v1", ""),
    }
)
"""Dialect -> the client for it, where the provider itself is, and what the client wants behind a base URL."""
OFFICIAL: Final[Mapping[str, str]] = {dialect: official for dialect, (_, official, _) in _SPOKEN.items()}
"""Dialect -> where the provider itself is."""
_COMPATIBLE: Final = "@ai-sdk/openai-compatible"
"""The client for whoever speaks as OpenAI did. All three are built in: nothing is fetched."""

_READS: Final = ("read", "glob", "grep", "list", "lsp", "todoread", "todowrite")
_ALWAYS: Final[Mapping[str, str]] = MappingProxyType({"task": "deny", "question": "deny", f"{DAEMON}_*": "allow"})
"""Whatever the approval: agents below it spend tokens that are told nowhere, nobody can be asked; and the kernel's own
tools are always there."""
PERMISSIONS: Final[Mapping[Approval, Mapping[str, str]]] = MappingProxyType(
    {
        "auto": {"*": "allow", **_ALWAYS},
        "ask": {"*": "deny", **dict.fromkeys(_READS, "allow"), **_ALWAYS},
        "all": {"*": "deny", **_ALWAYS},
        "deny": {"*": "deny", **dict.fromkeys(_READS, "allow"), **_ALWAYS},
    }
)
"""In ``run`` there is nobody to ask: what would be asked about is not offered to the model at all. Of rules that fit a
tool the last one counts."""
_SWITCHES: Final = (
    "OPENCODE_PURE",
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_CLAUDE_CODE",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_PROJECT_CONFIG",
)
"""What it is told to leave alone."""


def config(
    start: Start, *, bridge: tuple[str, ...], key: Path | None, system: Path, endpoint: str | None = None
) -> dict[str, Any]:
    """The configuration; requests go to ``endpoint``, the provider's own address unless given.

    ``bridge`` runs Daemon MCP, ``key`` holds the provider's key. Raises Failed.
    """
    if start.provider is None:
        raise Failed("invalid", f"no provider for model {start.model!r}; name one in the agent's file")
    milliseconds = int(start.limits.tool_seconds * 1000)
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "enabled_providers": [PROVIDER],
        "provider": {PROVIDER: _provider(start, start.provider, key, endpoint)},
        "permission": {**PERMISSIONS[start.approval], **_of_servers(start)},
        "mcp": {
            **opencode_servers(start.mcp_servers, start.limits.tool_seconds),
            DAEMON: {"type": "local", "command": bridge, "enabled": True, "timeout": milliseconds},
        },
        "instructions": [str(system)],
        **({"agent": {"build": {"temperature": start.temperature}}} if start.temperature is not None else {}),
    }


def environment(env: Mapping[str, str], *, home: Path, config: Path) -> dict[str, str]:
    """``env`` with everything that opencode keeps below ``home``: its database is not to be shared (clis.md, 10)."""
    folders = {name: str(home / name.lower()) for name in ("DATA", "CONFIG", "STATE", "CACHE")}
    return {
        **env,
        **{f"XDG_{name}_HOME": folder for name, folder in folders.items()},
        "OPENCODE_TEST_HOME": str(home),  # what it takes for the user's home; what its shells call HOME stays that
        "OPENCODE_CONFIG": str(config),
        **dict.fromkeys(_SWITCHES, "1"),
    }


def _of_servers(start: Start) -> dict[str, str]:
    """Tools of the agent's own servers are there with ``auto``, or where ``read_only`` names them."""
    verdict = "allow" if start.approval == "auto" else "deny"
    reading = map(server_and_tool, start.read_only) if start.approval in {"ask", "deny"} else ()
    return {
        **{f"{name}_*": verdict for name in start.mcp_servers},
        **{f"{server}_{tool}": "allow" for server, tool in reading},
    }


def _provider(start: Start, provider: Provider, key: Path | None, endpoint: str | None) -> dict[str, Any]:
    client, official, tail = _SPOKEN[provider.dialect]
    if provider.base_url is not None and provider.dialect == "openai":
        client = _COMPATIBLE
    limit = {"context": CONTEXT_TOKENS, "output": start.limits.max_tokens}
    return {
        "npm": client,
        "name": provider.name,
        "options": {
            "baseURL": (endpoint or provider.base_url or official).rstrip("/") + tail,
            **({"apiKey": f"{{file:{key}}}"} if key is not None else {}),
        },
        "models": {start.model: {"limit": limit, "temperature": True, "options": _options(start, provider)}},
    }


def _options(start: Start, provider: Provider) -> dict[str, Any]:
    """How the model is to think, in the words of the client that asks it."""
    thinking = start.thinking_tokens
    effort = "effort" if provider.dialect == "anthropic" else "reasoningEffort"
    return {
        **({effort: start.effort} if start.effort is not None else {}),
        **({"thinking": {"type": "enabled", "budgetTokens": thinking}} if thinking is not None else {}),
    }
