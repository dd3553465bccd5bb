"""The Claude Code backend: headless start with private files, translation of its events, classification of its exit.

The program leaves no files outside of our folders, does not retry (the kernel does), and reads only our settings. Its
key is a placeholder of the gateway, which its commands do not see.

Facts of version 2.1.329: exit code 0 and ``subtype: success`` do not prove success. The reported cost is not used,
because it covers the whole session over all processes.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from protocol.agent import Approval
from protocol.errors import UNREACHED, Cause
from protocol.ipc import NULL, Result
from protocol.text import decoded
from protocol.tools import OFFERED_TO, TO_MODEL
from worker.backends import backend, private_files
from worker.backends.claude_stream import ClaudeLine, ClaudeReplies, spent
from worker.backends.private_files import STARTUP_SECONDS, server_entry
from worker.models.model import CODES, Failed, cause_of

DAEMON: Final = "daemon"
"""Name of the Daemon MCP server in the program's configuration."""
_NO_KEY: Final = "none"
"""Placeholder for servers without authentication: without a key the program asks for a login."""
_SOCKET: Final = "/tmp/cc-socks-{uid}/{{pid}}.sock"  # noqa: S108  (the path is chosen by the program)
"""Path of the program's socket if a path in our folder would be too long."""
_WAIT_MS: Final = 7 * 24 * 3600 * 1000
"""Timeout of the kernel's tools: a call may wait for a person, and the kernel enforces its own deadlines."""
_LEAST_TOKENS: Final = 2048
"""Minimum output limit: with a lower one, the program requests more tokens for thinking than the limit."""

_PRICED: Final = "claude-"
"""Prefix of models whose price the program knows."""
_LEAST_USD: Final = 0.000001
"""Minimum budget, since the program rejects zero."""

CHANGING: Final = (
    "Agent", "Bash", "Edit", "Monitor", "NotebookEdit", "Skill", "Task", "WebFetch", "WebSearch", "Workflow", "Write",
)  # fmt: skip
READING: Final = ("Glob", "Grep", "Read")
_OURS: Final = (
    "AskUserQuestion", "CronCreate", "CronDelete", "CronList", "EnterPlanMode", "EnterWorktree", "ExitPlanMode",
    "ExitWorktree", "ListAgents", "ScheduleWakeup", "SendMessage",
)  # fmt: skip
"""Disabled tools: the kernel provides them for all agents, or they need a user at the terminal."""


class _Permission(msgspec.Struct, frozen=True):
    """Permissions for one approval level. ``asks``: ask about calls that are not allowed, instead of refusing them."""

    asks: bool
    allows: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    """Tools that always need approval, even if they only read."""
    servers: bool = False
    """Whether tools of the agent's own MCP servers are allowed."""


# Not "bypassPermissions": that mode does not run as root, and removes checks that cost nothing here.
_PERMISSIONS: Final[Mapping[Approval, _Permission]] = {
    "auto": _Permission(asks=False, allows=(*CHANGING, *READING), servers=True),
    "ask": _Permission(asks=True),
    "all": _Permission(asks=True, always=(*CHANGING, *READING)),
    "deny": _Permission(asks=False),
}

SETTINGS: Final[Mapping[str, str]] = {
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",  # token usage of this fallback would not be reported
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "ENABLE_TOOL_SEARCH": "false",  # otherwise the model has to search for our tools
    "MCP_CONNECTION_NONBLOCKING": "false",  # otherwise the model may run before its servers are connected
}
_MODELS: Final = (
    "ANTHROPIC_DEFAULT_FABLE_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
)  # fmt: skip
"""Variables of the models that the program would choose itself."""


def launch(job: backend.BackendJob) -> backend.Launch:
    """Write all configuration files; return the command line, environment and input."""
    start, permission = job.start, _PERMISSIONS[job.start.approval]
    limits, provider = start.limits, start.provider
    # Variables of the program itself, hidden from its tools. All its files are below our two folders.
    temporary = job.place / "t"  # short, because socket paths below it are limited
    temporary.mkdir(mode=0o700, exist_ok=True)
    tool_ms = str(int(limits.tool_seconds * 1000))
    own = {
        **SETTINGS,
        "BASH_MAX_TIMEOUT_MS": tool_ms,
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max(limits.max_tokens, _LEAST_TOKENS)),
        "CLAUDE_CODE_TMPDIR": str(temporary),
        "CLAUDE_CONFIG_DIR": str(job.home),
        "MCP_TIMEOUT": str(STARTUP_SECONDS * 1000),
        "MCP_TOOL_TIMEOUT": tool_ms,
        "XDG_CACHE_HOME": str(job.place / "cache"),
        "XDG_RUNTIME_DIR": str(temporary),
        **({} if start.thinking_tokens is None else {"MAX_THINKING_TOKENS": str(start.thinking_tokens)}),
        **({"ANTHROPIC_BASE_URL": url} if (url := provider and provider.base_url) else {}),
        # With a login there is no key: the program reads the login file in its own home and renews it there.
        **({} if start.login else {"ANTHROPIC_API_KEY": (provider and provider.api_key) or _NO_KEY}),
        # Also for subagents and background work, because the gateway admits no other model.
        **({} if start.login else dict.fromkeys(_MODELS, start.model)),
    }
    # A script that its shells source: it restores the environment of the agent's tools.
    words = {name: f"export {name}={shlex.quote(job.env[name])}" for name in own if name in job.env}
    script = "".join(f"{words.get(name, f'unset {name}')}\n" for name in sorted(own))
    restored = private_files.write(job.place / "environment.sh", script)
    env = {**job.env, **own, "CLAUDE_ENV_FILE": str(restored)}
    allowed = [*permission.allows, _tools_of(DAEMON)]
    allowed += map(_tools_of, start.mcp_servers) if permission.servers else ()
    allowed += start.read_only if start.approval in {"ask", "deny"} else ()
    copies = private_files.own_skills(start)
    allowed += [f"Read(/{copies}/**)"] if copies is not None and start.approval != "all" else ()
    system = private_files.write(job.place / "system.md", start.system)
    # The permission prompt tool must be listed to the program, which hides it from the model.
    headers = {"Authorization": f"Bearer {start.token}", **({} if permission.asks else {OFFERED_TO: TO_MODEL})}
    daemon = {"type": "http", "url": start.mcp.url, "headers": headers, "timeout": _WAIT_MS}
    servers = {**{name: server_entry(one, typed=True) for name, one in start.mcp_servers.items()}, DAEMON: daemon}
    always = [*permission.always, *(map(_tools_of, start.mcp_servers) if permission.always else ())]
    asked = {"permissions": {"ask": always}} if always else {}
    hooks = {"hooks": start.hooks} if start.hooks != NULL else {}
    settings: dict[str, Any] = {**asked, **hooks}
    argv = [job.binary, "-p", "--verbose", "--output-format", "stream-json", "--include-partial-messages"]
    written = private_files.write(job.place / "mcp.json", {"mcpServers": servers})
    argv += ["--strict-mcp-config", "--mcp-config", str(written)]
    argv += ["--setting-sources", "", "--settings", str(private_files.write(job.place / "settings.json", settings))]
    argv += [f"--model={start.model}", "--max-turns", str(max(1, job.max_turns))]
    argv += [f"--effort={start.effort}"] if start.effort is not None else []
    # Cost limit of this process, including subagents, but without earlier processes of a session.
    if start.budget_usd is not None and start.model.startswith(_PRICED):
        argv += ["--max-budget-usd", f"{max(start.budget_usd, _LEAST_USD):.6f}"]
    argv += ["--permission-mode", "default" if permission.asks else "dontAsk"]
    argv += ["--permission-prompt-tool", f"{_tools_of(DAEMON)}__auth_request"] if permission.asks else []
    argv += ["--allowedTools", ",".join(allowed), "--disallowedTools", ",".join(_OURS)]
    argv += ["--append-system-prompt-file", str(system)] if start.system else []
    argv += [f"--resume={job.session}"] if job.session else []
    litter = (_SOCKET.format(uid=os.getuid()),)
    return backend.Launch(argv=tuple(argv), env=env, stdin=job.message.encode(), litter=litter)


def _tools_of(server: str) -> str:
    return f"mcp__{server}"


TITLE: Final = "Claude Code"

_INCOMPLETE: Final[Mapping[str, Cause]] = {"error_max_turns": "max_steps", "error_max_budget_usd": "budget"}
"""Result subtypes that leave the work unfinished."""
_REASONS: Final[Mapping[str, Cause]] = {"prompt_too_long": "context_overflow"}
"""Terminal reasons of a failure, with the cause, where the HTTP status is less specific."""
_CONNECTED: Final = frozenset({"connected", "pending"})
"""States of a server that is or may become connected. The kernel checks use of its own tools separately."""
_API_FAILED: Final = "api_error"
_REFUSED_KEY: Final = frozenset({401, 403})


class Claude:
    """Attempt of Claude Code."""

    def __init__(self, job: backend.BackendJob) -> None:
        self._job = job
        self._replies = ClaudeReplies()
        self._began = False
        self._complaint: ClaudeLine | None = None
        self._result: ClaudeLine | None = None

    def launch(self) -> backend.Launch:
        """Write the configuration and return how to start the program."""
        return launch(self._job)

    def read(self, line: bytes) -> Iterable[backend.Event]:
        """Translate a line into events. Raises Failed if an MCP server of the kernel or the agent is not connected."""
        found = decoded(line, ClaudeLine)
        if found is None:
            return ()
        match found.type, found.subtype:
            case "system", "init":
                return self._begin(found)
            case "system", "api_retry":
                text = f"{TITLE}: the provider rejected the API key"
                why = Failed("auth", text, http_status=found.error_status, code=found.error)
                waits = backend.ActivityChanged("waiting to retry the model request")
                return (backend.EndEarly(why) if found.error_status in _REFUSED_KEY else waits,)
            case "system", "permission_denied":
                return (backend.ActivityChanged(f"call of {found.tool_name} refused"),)
            case "result", _:
                return self._end(found)
            case _:
                if found.type != "stream_event" and found.error is not None:
                    self._complaint = found
                return self._replies.take(found)

    def conclude(self, ended: backend.ProgramExit) -> Result:
        """Return the result of the attempt. Raises Failed."""
        result = self._result
        if result is None:
            raise backend.unfinished_result(TITLE, ended)
        if result.subtype in _INCOMPLETE:
            return Result(status="incomplete", text=result.result or "", cause=_INCOMPLETE[result.subtype])
        if self._job.session is not None and not self._began:
            raise Failed("session_lost", f"{TITLE} cannot find session {self._job.session}: {_said(result)}")
        if result.subtype != "success" or result.is_error:
            # The message before the result has more details about the failure than the result.
            complaint = self._complaint or result
            status = result.api_error_status or complaint.api_error_status
            words = [word for word in (complaint.error, complaint.api_error, complaint.api_error_type) if word]
            reason = result.terminal_reason or ""
            cause: Cause
            if reason in _REASONS:
                cause = _REASONS[reason]
            elif status is None and not CODES.keys() & set(words):
                cause = "network" if reason == _API_FAILED else "crash"  # no response, or not a failure of the API
            else:
                cause = cause_of(status, words)
            raise Failed(cause, f"{TITLE}: {_said(result)}", http_status=status, code=words[0] if words else None)
        if not ended.well:
            raise backend.unfinished_result(TITLE, ended)
        return Result(status="done", text=result.result or "")

    def _begin(self, line: ClaudeLine) -> Iterator[backend.Event]:
        self._began = True
        states = {server.name: server.status for server in line.mcp_servers}
        for name in (DAEMON, *self._job.start.mcp_servers):
            status = states.get(name, "not configured")
            if status in _CONNECTED:
                continue
            if name != DAEMON:
                raise backend.unserved(TITLE, name, f"its status is {status}")
            text = f"{TITLE} did not connect to the kernel's tools: MCP server status is {status}"
            raise Failed("network", text, code=UNREACHED)
        yield backend.DaemonConnected()
        yield backend.SessionStarted(line.session_id)

    def _end(self, line: ClaudeLine) -> Iterator[backend.Event]:
        self._result = line
        beside = spent(line.model_usage_since_last_result.values(), self._replies.told)
        if beside is not None and self._began:
            yield backend.SubagentUsage(beside)
        yield backend.LastEvent()


def _said(result: ClaudeLine) -> str:
    return result.result or "; ".join(result.errors) or result.terminal_reason or result.subtype


open = Claude  # noqa: A001  (entry point of each backend module)
