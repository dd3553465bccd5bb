"""How Claude Code is started without a trace outside our folders: arguments, environment, private files.

It retries nothing (the kernel owns that) and reads no setting but ours. Its key lies in a file that is gone with the
first reply, and in no environment, so that no command it runs is handed it or finds it.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from protocol.agent import Approval, McpServer
from protocol.ipc import Start
from protocol.tools import OFFERED_TO, TO_MODEL
from worker.backends import private
from worker.backends.program import Job, Launch
from worker.backends.servers import STARTUP_SECONDS

DAEMON: Final = "daemon"
"""What our MCP server is called there."""
_KEY: Final = "key"
_NO_KEY: Final = "none"
"""For servers that want none: without any it would ask for a login."""
_SOCKET: Final = "/tmp/cc-socks-{uid}/{{pid}}.sock"  # noqa: S108  (its choice, not ours)
"""Where its socket is if the path below our folder is too long for one."""
_WAIT_MS: Final = 7 * 24 * 3600 * 1000
"""For a call of the kernel's tools: one may wait for a person, and the kernel itself has deadlines for them."""
_LEAST_TOKENS: Final = 2048
"""Below this it asks for more thinking than an answer may have."""

_PRICED: Final = "claude-"
"""How models begin whose price it knows."""
_LEAST_USD: Final = 0.000001
"""It takes no zero."""

_CHANGING: Final = (
    "Agent", "Bash", "Edit", "Monitor", "NotebookEdit", "Skill", "Task", "WebFetch", "WebSearch", "Workflow", "Write",
)  # fmt: skip
_READING: Final = ("Glob", "Grep", "Read")
_OURS: Final = (
    "AskUserQuestion", "CronCreate", "CronDelete", "CronList", "EnterPlanMode", "EnterWorktree", "ExitPlanMode",
    "ExitWorktree", "ListAgents", "ScheduleWakeup", "SendMessage",
)  # fmt: skip
"""What the kernel does for all agents alike, or what has nobody to answer it: not offered."""


@dataclass(frozen=True, slots=True)
class _Permission:
    """``asks``: about what is not allowed somebody is asked; otherwise it is refused."""

    asks: bool
    allows: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    """What is asked about even where it only reads."""
    servers: bool = False
    """Whether the agent's own MCP servers are allowed."""


# Not its mode "bypassPermissions": that does not run as root, and lets go of guards that cost nothing here.
_PERMISSIONS: Final[Mapping[Approval, _Permission]] = MappingProxyType(
    {
        "auto": _Permission(asks=False, allows=(*_CHANGING, *_READING), servers=True),
        "ask": _Permission(asks=True),
        "all": _Permission(asks=True, always=(*_CHANGING, *_READING)),
        "deny": _Permission(asks=False),
    }
)

_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CLAUDE_CODE_API_KEY_HELPER_TTL_MS": "999999999",  # the key is read once
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_DISABLE_CRON": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",  # its tokens would be known to nobody
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",  # else our tools are not offered, but have to be searched for
    }
)


def launch(job: Job) -> Launch:
    """Write all that it reads, and say how it is started."""
    own = _variables(job)
    restored = private.write(job.place / "environment.sh", _restoring(own, job.env))
    env = {**job.env, **own, "CLAUDE_ENV_FILE": str(restored)}
    return Launch(argv=_argv(job), env=env, stdin=job.message.encode(), litter=(_SOCKET.format(uid=os.getuid()),))


def forget_key(job: Job) -> None:
    """Remove the key from the disk: it has been read, and tools may run from now on."""
    (job.place / _KEY).unlink(missing_ok=True)


def _argv(job: Job) -> tuple[str, ...]:
    start, permission = job.start, _PERMISSIONS[job.start.approval]
    allowed = [*permission.allows, _tools_of(DAEMON)]
    allowed += map(_tools_of, start.mcp_servers) if permission.servers else ()
    allowed += start.read_only if start.approval in {"ask", "deny"} else ()
    system = private.write(job.place / "system.md", start.system)
    return (
        job.binary, "-p", "--verbose",
        "--output-format", "stream-json", "--include-partial-messages",
        "--strict-mcp-config", "--mcp-config", str(_servers(job)),
        "--setting-sources", "", "--settings", str(_settings(job, permission)),
        f"--model={start.model}",
        "--max-turns", str(max(1, job.max_turns)),
        *((f"--effort={start.effort}",) if start.effort is not None else ()),
        *_fence(start),
        "--permission-mode", "default" if permission.asks else "dontAsk",
        *(("--permission-prompt-tool", f"{_tools_of(DAEMON)}__auth_request") if permission.asks else ()),
        "--allowedTools", ",".join(allowed),
        "--disallowedTools", ",".join(_OURS),
        *(("--append-system-prompt-file", str(system)) if start.system else ()),
        *((f"--resume={job.session}",) if job.session else ()),
    )  # fmt: skip


def _fence(start: Start) -> tuple[str, ...]:
    """What it may spend by its own count, agents below it and all: of this process alone, whatever it resumes.

    The kernel acts between two replies; this acts where it is not told of any. Prices of other models it guesses.
    """
    if start.budget_usd is None or not start.model.startswith(_PRICED):
        return ()
    return ("--max-budget-usd", f"{max(start.budget_usd, _LEAST_USD):.6f}")


def _tools_of(server: str) -> str:
    """All tools of an MCP server, in a rule of its own."""
    return f"mcp__{server}"


def _variables(job: Job) -> dict[str, str]:
    """What its environment has and that of its tools has not. Whatever it keeps goes below our two folders."""
    limits, provider = job.start.limits, job.start.provider
    temporary = job.place / "t"  # sockets lie below it, whose names must be short
    temporary.mkdir(mode=0o700, exist_ok=True)
    tool_ms = str(int(limits.tool_seconds * 1000))
    return {
        **_SETTINGS,
        "BASH_MAX_TIMEOUT_MS": tool_ms,
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max(limits.max_tokens, _LEAST_TOKENS)),
        "CLAUDE_CODE_TMPDIR": str(temporary),
        "CLAUDE_CONFIG_DIR": str(job.home),
        "MCP_TIMEOUT": str(STARTUP_SECONDS * 1000),
        "MCP_TOOL_TIMEOUT": tool_ms,
        "XDG_CACHE_HOME": str(job.place / "cache"),
        "XDG_RUNTIME_DIR": str(temporary),
        **({} if job.start.thinking_tokens is None else {"MAX_THINKING_TOKENS": str(job.start.thinking_tokens)}),
        **({"ANTHROPIC_BASE_URL": url} if (url := job.endpoint or (provider and provider.base_url)) else {}),
    }


def _restoring(own: Mapping[str, str], env: Mapping[str, str]) -> str:
    """A script that its shells begin with: what is set for it alone becomes what the agent's tools are to see."""
    return "".join(
        f"export {name}={shlex.quote(env[name])}\n" if name in env else f"unset {name}\n" for name in sorted(own)
    )


def _servers(job: Job) -> Path:
    """Its permission prompt has to be listed to it, and is shown to no model then; without one it is not listed."""
    start = job.start
    shown = {} if _PERMISSIONS[start.approval].asks else {OFFERED_TO: TO_MODEL}
    ours = {
        "type": "http",
        "url": start.mcp.url,
        "headers": {"Authorization": f"Bearer {start.token}", **shown},
        "timeout": _WAIT_MS,
    }
    every = {**{name: _server(one) for name, one in start.mcp_servers.items()}, DAEMON: ours}
    return private.write(job.place / "mcp.json", _json({"mcpServers": every}))


def _server(server: McpServer) -> dict[str, Any]:
    if server.url is not None:
        return {"type": "http", "url": server.url, "headers": server.headers}
    return {"type": "stdio", "command": server.command, "args": list(server.args), "env": server.env}


def _settings(job: Job, permission: _Permission) -> Path:
    provider = job.start.provider
    key = private.write(job.place / _KEY, (provider and provider.api_key) or _NO_KEY)
    always = [*permission.always, *(map(_tools_of, job.start.mcp_servers) if permission.always else ())]
    asked = {"permissions": {"ask": always}} if always else {}
    settings = {"apiKeyHelper": f"cat {shlex.quote(str(key))}", **asked}
    return private.write(job.place / "settings.json", _json(settings))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
