"""The Codex backend: ``codex exec --json`` (0.169.0) with a home and a ``config.toml`` of its own.

The configuration is written anew for each attempt and holds no secret: those are in variables of codex's own process,
under names that its shells never get (``shell_environment_policy``). Nothing of the project configures or instructs
it: codex leaves ``.codex/`` alone where its user has not said that a project is to be trusted, and nobody says that
here; skills and ``AGENTS.md``, which it would read all the same, are off.

It connects to Daemon MCP by itself: with ``required`` it does not start without, it speaks MCP as it should, and
keeps variables from its shells, so a bridge would be one process more and nothing else. Nobody can be asked by it.
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
"""Variables that codex keeps from the commands it runs."""
OPENAI: Final = "https://api.openai.com/v1"
DAEMON: Final = "daemon"
_PROVIDER: Final = "agent-worker"
"""A name of our own: those that codex knows bring settings along, and a login."""

SANDBOXES: Final[Mapping[Approval, str]] = {
    "auto": "danger-full-access",
    "ask": "read-only",
    "all": "read-only",
    "deny": "read-only",
}
"""``codex exec`` has nobody to ask (``approval_policy`` is never): what would be asked about, its sandbox refuses.
``auto`` runs everything, as it does in every backend; what confines that is the agent's ``sandbox``."""
SERVERS: Final[Mapping[Approval, str]] = {"auto": "approve", "ask": "prompt", "all": "prompt", "deny": "prompt"}
"""Of the agent's own MCP servers: all tools run, or none but those of ``read_only``. Its "writes" would believe what a
server says of itself."""


_EFFORTS: Final[Mapping[str, str]] = {"max": "xhigh"}
"""Our words for effort that it has others for."""


def config(start: Start, endpoint: str | None = None) -> str:
    """Return the text of ``config.toml``; requests go to ``endpoint``, the provider's own address unless given.

    Raises Failed where there is no provider to name.
    """
    if start.provider is None:
        raise Failed("invalid", f"no provider for model {start.model!r}; name one in the agent's file")
    # Required, for what is not it does not wait for: a server that takes a second to start is left out of the work.
    mode: dict[str, private_files.Value] = {
        "required": True,
        "startup_timeout_sec": STARTUP_SECONDS,
        "default_tools_approval_mode": SERVERS[start.approval],
    }
    tables = codex_servers(start.mcp_servers, start.limits.tool_seconds).tables
    # Retries are the kernel's: it knows who else asks this provider, and shows that it waits.
    # A login may be a key or an account, which have addresses of their own: it is codex's to choose.
    address = endpoint or start.provider.base_url or (None if start.login else OPENAI)
    provider: dict[str, private_files.Value] = {
        "name": start.provider.name,
        **({} if address is None else {"base_url": address}),
        **({"requires_openai_auth": True} if start.login else {}),
        "wire_api": "responses",
        "request_max_retries": 0,
        "stream_max_retries": 0,
        **({"env_key": KEY} if start.provider.api_key else {}),
    }
    # Off: what needs an account, what costs tokens that are told nowhere, what would wait for a provider for ever.
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
    if start.provider.base_url is not None:
        values["web_search"] = "disabled"
    return private_files.document(values)


def secrets(start: Start) -> dict[str, str]:
    """Variables of codex's own process."""
    key = start.provider.api_key if start.provider is not None else None
    servers = codex_servers(start.mcp_servers, start.limits.tool_seconds).variables
    return {**servers, TOKEN: start.token, **({KEY: key} if key else {})}


def _reading(start: Start, server: str) -> dict[str, private_files.Value]:
    """Return the tools of ``server`` that run unasked. Codex takes names only: a pattern counts if it is for all."""
    if start.approval not in {"ask", "deny"}:
        return {}
    tools = [tool for name, tool in map(server_and_tool, start.read_only) if name == server]
    if EVERY_TOOL in tools:
        return {"default_tools_approval_mode": "approve"}
    named = [tool for tool in tools if not tool.endswith(EVERY_TOOL)]
    return {"tools": {tool: {"approval_mode": "approve"} for tool in named}} if named else {}


TITLE: Final = "Codex"
METERED: Final = {"openai": OPENAI}
"""Dialect -> where its requests go, unless its provider has an address of its own."""
_NO_SESSION: Final = "no rollout found for thread id"
_NO_SERVER: Final = re.compile(r"required MCP servers failed to initialize: (?P<which>.*)")
"""Its words for two ends that leave nothing on standard output: they are all there is."""


class Codex:
    """One process of it: a thread begun, or gone on with."""

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
        """Write its configuration; return how it is started. Raises Failed."""
        job = self._job
        private_files.write(job.home / "config.toml", config(job.start, job.endpoint))
        resume = () if job.session is None else ("resume",)
        session = () if job.session is None else (job.session,)
        argv = (job.binary, "exec", *resume, "--json", "--skip-git-repo-check", *session, "-")
        env = {**job.env, "CODEX_HOME": str(job.home), **secrets(job.start)}
        return Launch(argv=argv, env=env, stdin=job.message.encode())

    def read(self, line: bytes) -> Iterable[Event]:
        """Translate one line of its output into events."""
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
            raise Failed("session_lost", f"{TITLE} does not know its thread {self._job.session} any more")
        if (unstarted := _NO_SERVER.search(ended.stderr)) is not None:
            raise _unserved(unstarted["which"], self._job.start.mcp_servers)
        raise unfinished_result(TITLE, ended)


def _unserved(which: str, own: Iterable[str]) -> Failed:
    for name in own:
        if re.search(rf"(?:^|; ){re.escape(name)}: ", which) and not re.search(rf"(?:^|; ){DAEMON}: ", which):
            return unserved(TITLE, name, which)
    return Failed("network", f"{TITLE} did not reach the kernel's tools: {which}", code=UNREACHED)


open = Codex  # noqa: A001  (what every backend's file is entered by)
