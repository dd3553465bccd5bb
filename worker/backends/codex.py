"""The Codex backend: ``codex exec --json`` (0.169.0) with a private home and ``config.toml``.

The configuration is written for each attempt and contains no secrets: they are in variables of
codex's own process, which ``shell_environment_policy`` hides from its shells. The project cannot
configure codex: it ignores ``.codex/`` of a project that its user has not trusted, which never
happens here. Skills and ``AGENTS.md`` are disabled, because codex would read them nevertheless.

Codex connects to Daemon MCP directly, without a bridge: it does not start without a ``required``
server, and hides the variables from its shells. It cannot ask for permissions.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from protocol.agent import Approval
from protocol.errors import UNREACHED
from protocol.instruction import Usage
from protocol.ipc import Result, Start
from protocol.text import decoded
from protocol.tools import EVERY_TOOL, OFFERED_TO, TO_MODEL, server_and_tool
from worker.backends import private_files
from worker.backends.backend import BackendJob, Event, Launch, ProgramExit, unfinished_result, unserved
from worker.backends.codex_stream import CodexLine, Thread, TokenCount, turn_failure
from worker.backends.private_files import STARTUP_SECONDS, codex_servers
from worker.models.model import Failed

KEY: Final = "AGENT_WORKER_PRIVATE_KEY"
TOKEN: Final = "AGENT_WORKER_PRIVATE_TOKEN"
PRIVATE: Final = "AGENT_WORKER_PRIVATE_*"
"""Variables that codex hides from the commands it runs."""
OPENAI: Final = "https://api.openai.com/v1"
DAEMON: Final = "daemon"
_PROVIDER: Final = "agent-worker"
"""Name of the provider in the configuration: names that codex knows imply settings and a login."""

SANDBOXES: Final[Mapping[Approval, str]] = {
    "auto": "danger-full-access",
    "ask": "read-only",
    "all": "read-only",
    "deny": "read-only",
}
"""``codex exec`` cannot ask (``approval_policy`` is never): its sandbox refuses what would need approval. ``auto`` runs
everything, as in every backend; only the agent's ``sandbox`` confines it."""
SERVERS: Final[Mapping[Approval, str]] = {"auto": "approve", "ask": "prompt", "all": "prompt", "deny": "prompt"}
"""Approval mode of the agent's own MCP servers: all tools run, or only ``read_only`` ones. The mode "writes" would
trust what a server claims about itself."""


_EFFORTS: Final[Mapping[str, str]] = {"max": "xhigh"}
"""Effort levels that have another name in codex."""


def config(start: Start) -> str:
    """Return the text of ``config.toml``. Raises Failed if there is no provider."""
    if start.provider is None:
        raise Failed("invalid", f"no provider for model {start.model!r}; name one in the agent file")
    # Codex waits only for required servers: a slow server would otherwise be missing.
    mode: dict[str, private_files.Value] = {
        "required": True,
        "startup_timeout_sec": STARTUP_SECONDS,
        "default_tools_approval_mode": SERVERS[start.approval],
    }
    tables = codex_servers(start.mcp_servers, start.limits.tool_seconds).tables
    # The kernel retries: it knows all users of this provider, and shows that the agent waits.
    # A login may be a key or an account with different addresses: codex chooses.
    address = start.provider.base_url or (None if start.login else OPENAI)
    provider: dict[str, private_files.Value] = {
        "name": start.provider.name,
        **({} if address is None else {"base_url": address}),
        **({"requires_openai_auth": True} if start.login else {}),
        "wire_api": "responses",
        "request_max_retries": 0,
        "stream_max_retries": 0,
        **({"env_key": KEY} if start.provider.api_key else {}),
    }
    # Disable features that need an account, use unreported tokens, or wait for a provider without a limit.
    off = ["apps", "plugins", "goals", "shell_snapshot", "unbounded_connection_retries"]
    if start.approval == "all":
        off += ["shell_tool", "unified_exec"]
    values: dict[str, private_files.Value] = {
        "model": start.model,
        "model_provider": _PROVIDER,
        "model_providers": {_PROVIDER: provider},
        "developer_instructions": start.system,
        "approval_policy": "never",
        "sandbox_mode": SANDBOXES[start.approval],
        "mcp_servers": {
            **{
                name: {**table, **mode, **_reading(start, name)}
                for name, table in tables.items()
                if isinstance(table, Mapping)
            },
            DAEMON: {
                "url": start.mcp.url,
                "bearer_token_env_var": TOKEN,
                "http_headers": {OFFERED_TO: TO_MODEL},
                "required": True,
                "default_tools_approval_mode": "approve",
                "startup_timeout_sec": STARTUP_SECONDS,
                "tool_timeout_sec": start.limits.tool_seconds,
            },
        },
        "shell_environment_policy": {"inherit": "all", "ignore_default_excludes": True, "exclude": [PRIVATE]},
        "features": dict.fromkeys(off, False),
        "agents": {"enabled": False},
        "project_doc_max_bytes": 0,
        "skills": {"bundled": {"enabled": False}, "include_instructions": False},
        "cli_auth_credentials_store": "file",
        "history": {"persistence": "none"},
        "analytics": {"enabled": False},
        "check_for_update_on_startup": False,
    }
    if start.effort is not None:
        values["model_reasoning_effort"] = _EFFORTS.get(start.effort, start.effort)
    if start.provider.compatible:
        values["web_search"] = "disabled"
    return private_files.document(values)


def secrets(start: Start) -> dict[str, str]:
    """Return the variables of codex's own process."""
    key = start.provider.api_key if start.provider is not None else None
    servers = codex_servers(start.mcp_servers, start.limits.tool_seconds).variables
    return {**servers, TOKEN: start.token, **({KEY: key} if key else {})}


def _reading(start: Start, server: str) -> dict[str, private_files.Value]:
    """Return the settings of the ``read_only`` tools of ``server``: codex accepts no pattern except one for all."""
    if start.approval not in {"ask", "deny"}:
        return {}
    tools = [tool for name, tool in map(server_and_tool, start.read_only) if name == server]
    if EVERY_TOOL in tools:
        return {"default_tools_approval_mode": "approve"}
    named = [tool for tool in tools if not tool.endswith(EVERY_TOOL)]
    return {"tools": {tool: {"approval_mode": "approve"} for tool in named}} if named else {}


TITLE: Final = "Codex"
_NO_SESSION: Final = "no rollout found for thread id"
_NO_SERVER: Final = re.compile(r"required MCP servers failed to initialize: (?P<which>.*)")
"""Texts of two errors that are reported only on standard error."""


class Codex:
    """Process of codex, with a new or a resumed thread."""

    def __init__(self, job: BackendJob) -> None:
        self._job = job
        total, in_session = Usage(), False
        for entry in job.start.entries:
            if entry.kind == "session":
                in_session = job.session is not None and entry.session == job.session
            if in_session and entry.usage is not None:
                total = total.plus(entry.usage)
        self._thread = Thread(total, TokenCount(job.home).count)

    def launch(self) -> Launch:
        """Write the configuration and return how to start the program. Raises Failed."""
        job = self._job
        private_files.write(job.home / "config.toml", config(job.start))
        resume = () if job.session is None else ("resume",)
        session = () if job.session is None else (job.session,)
        argv = (job.binary, "exec", *resume, "--json", "--skip-git-repo-check", *session, "-")
        env = {**job.env, "CODEX_HOME": str(job.home), **secrets(job.start)}
        return Launch(argv=argv, env=env, stdin=job.message.encode())

    def read(self, line: bytes) -> Iterable[Event]:
        """Translate one line of output into events."""
        parsed = decoded(line, CodexLine)
        return () if parsed is None else self._thread.take(parsed)

    def conclude(self, ended: ProgramExit) -> Result:
        """Return the result of the attempt. Raises Failed."""
        thread = self._thread
        if thread.completed and ended.well:
            return Result(status="done", text=thread.text)
        if thread.failure is not None:
            found = turn_failure(self._job.home, self._thread.id, thread.failure)
            if found.cause == "max_tokens":
                return Result(status="incomplete", text=self._thread.text, cause=found.cause)
            raise Failed(found.cause, f"{TITLE}: {thread.failure}", http_status=found.status)
        if _NO_SESSION in ended.stderr:
            raise Failed("session_lost", f"{TITLE} cannot find thread {self._job.session}")
        if (unstarted := _NO_SERVER.search(ended.stderr)) is not None:
            raise _unserved(unstarted["which"], self._job.start.mcp_servers)
        raise unfinished_result(TITLE, ended)


def _unserved(which: str, own: Iterable[str]) -> Failed:
    for name in own:
        if re.search(rf"(?:^|; ){re.escape(name)}: ", which) and not re.search(rf"(?:^|; ){DAEMON}: ", which):
            return unserved(TITLE, name, which)
    return Failed("network", f"{TITLE} did not connect to the kernel's tools: {which}", code=UNREACHED)


open = Codex  # noqa: A001  (entry point of each backend module)
