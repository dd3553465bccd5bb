"""The opencode backend: ``opencode run --format json`` (1.18.33) with a private home and configuration.

Its key is a placeholder of the gateway. The token is in a file (0600), so no environment contains it. Our bridge
connects opencode to Daemon MCP: it reports the connection, which opencode does not, and hides the token from its
shells.
Opencode cannot ask for permissions: tools that need approval are not offered.

Neither the user nor the project configures it, with two exceptions. At its start it imports ``.opencode/plugin/*.js``
of the working directory and its parents: such a project is refused, because repository files are not trusted to run.
It writes an id file into the git folder: the file is deleted again unless it existed before.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from protocol.agent import Approval
from protocol.ipc import Result, Start
from protocol.text import decoded
from protocol.tools import server_and_tool
from worker import mcp_bridge
from worker.backends import private_files
from worker.backends.backend import (
    BackendJob,
    CliBackend,
    DaemonConnected,
    Event,
    Launch,
    ProgramExit,
    unfinished_result,
)
from worker.backends.opencode_stream import LOG, NEXT_REPLY, TITLE, OpencodeLine, OpencodeReplies, retried
from worker.backends.private_files import opencode_servers
from worker.models.model import Failed

DAEMON: Final = "daemon"
PROVIDER: Final = "agent-worker"
"""Name of the provider in the configuration: names that opencode knows imply models and addresses."""
CONTEXT_TOKENS: Final = 200_000
"""Context size at which opencode compacts. A model with a smaller context rejects the request before."""
_SPOKEN: Final[Mapping[str, tuple[str, str, str]]] = {
    "anthropic": ("@ai-sdk/anthropic", "https://api.anthropic.com", "/v1"),
    "openai": ("@ai-sdk/openai", "https://api.openai.com/v1", ""),
}
"""Dialect -> client package, official address, and the suffix that the client needs after a base URL."""
_COMPATIBLE: Final = "@ai-sdk/openai-compatible"
"""Client for other providers with an OpenAI-compatible API. All three are built in: no package is downloaded."""

_READS: Final = ("read", "glob", "grep", "list", "lsp", "todoread", "todowrite")
_ALWAYS: Final[Mapping[str, str]] = {"task": "deny", "question": "deny", f"{DAEMON}_*": "allow"}
"""Independent of the approval: no subagents (their tokens are unreported), no questions (no user is
there), and all tools of the kernel.
"""
PERMISSIONS: Final[Mapping[Approval, Mapping[str, str]]] = {
    "auto": {"*": "allow", **_ALWAYS},
    "ask": {"*": "deny", **dict.fromkeys(_READS, "allow"), **_ALWAYS},
    "all": {"*": "deny", **_ALWAYS},
    "deny": {"*": "deny", **dict.fromkeys(_READS, "allow"), **_ALWAYS},
}
"""``run`` cannot ask: tools that would need approval are not offered to the model. The last matching rule applies."""
SWITCHES: Final = (
    "OPENCODE_PURE", "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_PROJECT_CONFIG",
)  # fmt: skip
"""Switches that make opencode ignore the settings of the user and the project."""


def config(start: Start, *, bridge: tuple[str, ...], system: Path) -> dict[str, Any]:
    """Return the configuration. ``bridge`` is the command for Daemon MCP. Raises Failed if there is no provider."""
    if start.provider is None:
        raise Failed("invalid", f"no provider for model {start.model!r}; name one in the agent file")
    milliseconds = int(start.limits.tool_seconds * 1000)
    # Tools of the agent's own servers are available with auto, or if read_only names them.
    verdict = "allow" if start.approval == "auto" else "deny"
    may_read = start.approval in {"ask", "deny"}
    reading = map(server_and_tool, start.read_only) if may_read else ()
    # Files outside the project are unreadable unless listed here.
    copies = private_files.own_skills(start) if may_read else None
    outside = {} if copies is None else {"external_directory": {"*": "deny", f"{copies}/**": "allow"}}
    provider = start.provider
    client, official, tail = _SPOKEN[provider.dialect]
    if provider.compatible and provider.dialect == "openai" and not start.login:
        client = _COMPATIBLE
    # A login is stored under the provider's own name.
    name = provider.name if start.login else PROVIDER
    address = provider.base_url or (None if start.login else official)
    limit = {"context": CONTEXT_TOKENS, "output": start.limits.max_tokens}
    # Effort and thinking as named by the client library.
    options: dict[str, Any] = {}
    if start.effort is not None:
        options["effort" if provider.dialect == "anthropic" else "reasoningEffort"] = start.effort
    if start.thinking_tokens is not None:
        options["thinking"] = {"type": "enabled", "budgetTokens": start.thinking_tokens}
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "enabled_providers": [name],
        "provider": {
            name: {
                "npm": client,
                "name": provider.name,
                "options": {
                    **({} if address is None else {"baseURL": address.rstrip("/") + tail}),
                    **({"apiKey": provider.api_key} if provider.api_key else {}),
                },
                "models": {start.model: {"limit": limit, "temperature": True, "options": options}},
            }
        },
        "permission": {
            **PERMISSIONS[start.approval],
            **outside,
            **{f"{name}_*": verdict for name in start.mcp_servers},
            **{f"{server}_{tool}": "allow" for server, tool in reading},
        },
        "mcp": {
            **opencode_servers(start.mcp_servers, start.limits.tool_seconds),
            DAEMON: {"type": "local", "command": bridge, "enabled": True, "timeout": milliseconds},
        },
        "instructions": [str(system)],
        **({"agent": {"build": {"temperature": start.temperature}}} if start.temperature is not None else {}),
    }


def environment(env: Mapping[str, str], *, home: Path, config: Path) -> dict[str, str]:
    """Return ``env`` with all folders of opencode below ``home``, so that its database is not shared."""
    folders = {name: str(home / name.lower()) for name in ("DATA", "CONFIG", "STATE", "CACHE")}
    return {
        **env,
        **{f"XDG_{name}_HOME": folder for name, folder in folders.items()},
        "OPENCODE_TEST_HOME": str(home),  # the home that opencode uses; HOME of its shells stays unchanged
        "OPENCODE_CONFIG": str(config),
        **dict.fromkeys(SWITCHES, "1"),
    }


_PLUGINS: Final = ("plugin/*.js", "plugin/*.ts", "plugins/*.js", "plugins/*.ts")
_CONFIGS: Final = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")


def executable_config(cwd: Path) -> Path | None:
    """Return a file that makes opencode run code of the project around ``cwd``, or None. Raises OSError."""
    for folder in within(cwd):
        for pattern in _PLUGINS:
            for plugin in (folder / ".opencode").glob(pattern):
                return plugin
        for name in _CONFIGS:
            file = folder / name
            # JSON with comments cannot be parsed here, so search the text.
            if file.is_file() and '"plugin' in file.read_text("utf-8", "replace"):
                return file
    return None


def within(cwd: Path) -> Iterator[Path]:
    """Yield ``cwd`` and, inside a repository, its parents up to the root."""
    parents = [cwd, *cwd.parents]
    root = next((number for number, folder in enumerate(parents) if (folder / ".git").exists()), 0)
    yield from parents[: root + 1]


_NAME: Final = "opencode"
_POINTS: Final = "gitdir: "


class ProjectIdFile:
    """The id file that an opencode process started in ``cwd`` may leave behind. Raises OSError."""

    def __init__(self, cwd: Path) -> None:
        # The common git folder of the repository around cwd and all its worktrees; None outside of a repository.
        folder: Path | None
        found = next((folder / ".git" for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), None)
        if found is None or found.is_dir():
            folder = found
        else:
            own = found.parent / found.read_text("utf-8").removeprefix(_POINTS).strip()
            common = own / "commondir"
            folder = own / common.read_text("utf-8").strip() if common.is_file() else own
        file = folder / _NAME if folder is not None else None
        self._file = file if file is not None and not file.exists() else None

    def delete(self) -> None:
        """Delete the id file if it did not exist before. Raises OSError."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


_NO_SESSION: Final = "Session not found"
"""Text of an error that is reported only on standard error."""
SEE_BRIDGE: Final = (sys.prefix, sys.base_prefix, str(Path(mcp_bridge.__file__).parents[1]))
"""Folders of the bridge's interpreter and modules, which must be visible in a sandbox."""
_INSTALLED: Final = '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}'
"""Lock file that marks plugin packages as installed: otherwise opencode downloads 60 MB. It never loads them."""


def open(job: BackendJob) -> CliBackend:  # noqa: A001  (entry point of each backend module)
    """Return the backend of one attempt. Raises Failed if opencode would run code of the project."""
    code = executable_config(Path(job.start.cwd))
    if code is not None:
        text = f"{TITLE} would run code of the project at start: {code}. Remove this file, or choose another backend"
        raise Failed("untrusted", text)
    return Opencode(job)


class Opencode:
    """Process of opencode, with a new or a resumed session."""

    def __init__(self, job: BackendJob) -> None:
        self._job = job
        self._replies = OpencodeReplies()
        self._id_file = ProjectIdFile(Path(job.start.cwd))
        self._mark = job.place / "opencode.listed"
        self._reached = False

    def launch(self) -> Launch:
        """Write the configuration and return how to start the program. Raises Failed."""
        job, start = self._job, self._job.start
        modules = private_files.folder(job.home, "config", "opencode", "node_modules")
        private_files.write(modules.parent / "package-lock.json", _INSTALLED)
        session = () if job.session is None else (f"--session={job.session}",)
        name = start.provider.name if start.provider is not None and start.login else PROVIDER
        model = f"--model={name}/{start.model}"
        argv = (job.binary, "run", "--print-logs", "--log-level", "INFO", "--format", "json", model)
        bridge = mcp_bridge.BridgeConfig(url=start.mcp.url, token=start.token, mark=str(self._mark))
        daemon = private_files.write(job.place / "daemon.json", msgspec.structs.asdict(bridge))
        written = config(
            start,
            bridge=(sys.executable, "-I", "-m", "worker.mcp_bridge", str(daemon)),
            system=private_files.write(job.home / "system.md", start.system),
        )
        env = environment(job.env, home=job.home, config=private_files.write(job.place / "opencode.json", written))
        if start.login:  # the plugin that renews account logins is a default plugin
            del env["OPENCODE_DISABLE_DEFAULT_PLUGINS"]
        env["TMPDIR"] = str(job.place)  # opencode unpacks a library there each time and does not delete it
        argv += (f"--title={start.agent}", *session)
        return Launch(argv=argv, env=env, stdin=job.message.encode(), see=SEE_BRIDGE, log=LOG)

    def read(self, line: bytes) -> Iterator[Event]:
        """Translate one line into events. The first line follows the first reply, so the tools were already listed."""
        log = retried(line)
        if log is not None:
            yield from log
            return
        self._id_file.delete()
        if not self._reached and self._mark.exists():
            self._reached = True
            yield DaemonConnected()
        if (parsed := decoded(line, OpencodeLine)) is not None:
            yield from self._replies.take(parsed)

    def conclude(self, ended: ProgramExit) -> Result:
        """Return the result of the attempt. Raises Failed."""
        self._id_file.delete()
        replies = self._replies
        if replies.failure is not None:
            raise replies.failure
        if _NO_SESSION in ended.stderr:
            raise Failed("session_lost", f"{TITLE} cannot find session {self._job.session}")
        if not ended.well or replies.reason in ("", NEXT_REPLY):
            raise unfinished_result(TITLE, ended)
        if replies.reason == "length":
            return Result(status="incomplete", text=replies.text, cause="max_tokens")
        return Result(status="done", text=replies.text)
