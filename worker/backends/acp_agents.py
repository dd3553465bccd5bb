"""Settings of known ACP programs that keep the user's and the project's configuration away from them.

A row of the table configures a known program to ignore these settings, and to ask before each change. If
the program loads project settings nevertheless, they need trust (``kernel.agents.cli_extras``). Any other
program is started as the agent's file says, with a private home.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from protocol.agent import Approval
from protocol.backends import acp_program
from protocol.tools import server_and_tool
from worker.backends import private_files
from worker.backends.acp_replies import DAEMON
from worker.backends.backend import BackendJob
from worker.backends.claude import CHANGING, READING, SETTINGS
from worker.backends.opencode import SWITCHES, within
from worker.models.model import Failed

PRIVATE: Final[Mapping[str, str]] = {
    "HOME": "",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
}
"""Variables that locate the user's files, and the folders in the private home to set them to."""


FORGETFUL: Final = frozenset({"gemini"})
"""Programs that claim to resume a session but overwrite it (gemini 0.61.0): they get a new session and a summary of the
work done."""


def environment(job: BackendJob) -> dict[str, str]:
    """Return all variables of the program, after writing its private files. Raises Failed, OSError.

    With ``login: true`` its home is the user's own, and no files are written there.
    """
    program = acp_program(job.start.command)
    # The kernel has checked the trust of the project's own settings, but not of folders above the project.
    for above in (*within(Path(job.start.cwd)),)[1:]:
        for brought in filter(os.path.lexists, (above / name for name in program.settings)):
            text = f"{program_name(job)} would load settings, hooks and servers of {brought}, outside the project"
            raise Failed("untrusted", f"{text}: move this folder away, or choose another backend")
    homes: Mapping[str, str] = {}
    if not job.start.login:
        homes = {name: str(private_files.folder(job.home, *filter(None, (below,)))) for name, below in PRIVATE.items()}
    known = _KNOWN.get(program_name(job))
    return {**job.env, **homes, **({} if known is None else known(job))}


def session_options(job: BackendJob) -> Mapping[str, Any]:
    """Return the session options that claude-agent-acp accepts only in the request that opens a session."""
    if program_name(job) != "claude-agent-acp":
        return {}
    start = job.start
    reading = start.read_only if start.approval in {"ask", "deny"} else ()
    asked = [*CHANGING, *READING, *(f"mcp__{name}" for name in start.mcp_servers)] if start.approval == "all" else []
    options = {
        "settingSources": [],
        "allowedTools": [f"mcp__{DAEMON}", *reading],
        "extraArgs": {"strict-mcp-config": None, "settings": private_files.as_json({"permissions": {"ask": asked}})},
    }
    return {"_meta": {"claudeCode": {"options": options}}}


def program_name(job: BackendJob) -> str:
    """Return the name under which the table lists the job's program."""
    return os.path.basename(job.binary)


def _gemini(job: BackendJob) -> Mapping[str, str]:
    """Write Gemini's settings (no telemetry, no variable files), and return its variables."""
    trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "NO_BROWSER": "true"}
    if job.start.login:
        return trusted
    settings = {
        "general": {
            "enableAutoUpdate": False,
            "maxAttempts": 1,  # the kernel tries again
            "sessionRetention": {"enabled": False},  # the kernel detects lost sessions
        },
        "security": {"folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "advanced": {"ignoreLocalEnv": True},
    }
    folder = private_files.folder(job.home, ".gemini")
    private_files.write(folder / "settings.json", settings)
    rule = '[[rule]]\nmcpName = "{}"\ntoolName = "{}"\ndecision = "allow"\npriority = 900\n\n'
    reading = map(server_and_tool, job.start.read_only) if job.start.approval in {"ask", "deny"} else ()
    policy = "".join(rule.format(server, tool) for server, tool in ((DAEMON, "*"), *reading))
    if job.start.approval == "all":
        policy += '[[rule]]\ntoolName = "*"\ndecision = "ask_user"\npriority = 100\n'
    private_files.write(private_files.folder(job.home, ".gemini", "policies") / "agent-worker.toml", policy)
    return trusted


_READS: Final = ("read", "glob", "grep", "list", "lsp", "todoread", "todowrite")
_OPENCODE: Final[Mapping[Approval, Mapping[str, str]]] = {
    "auto": {"*": "allow"},
    "ask": {"*": "ask", **dict.fromkeys(_READS, "allow")},
    "all": {"*": "ask"},
    "deny": {"*": "ask", **dict.fromkeys(_READS, "allow")},
}
"""Permissions that make opencode ask: by default it does almost everything without asking. The backend refuses denied
calls."""


_ADDRESSES: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "/v1"),
    "google": ("GOOGLE_GEMINI_BASE_URL", "/v1beta"),
}
"""Provider -> the variable with its address, and the path that its client in opencode expects below that."""


def _opencode(job: BackendJob) -> Mapping[str, str]:
    """Return variables that make opencode ask, and ignore the configuration of the user and the project."""
    reading = map(server_and_tool, job.start.read_only) if job.start.approval in {"ask", "deny"} else ()
    always = {"task": "deny", "question": "deny", f"{DAEMON}_*": "allow"}
    always |= {f"{server}_{tool}": "allow" for server, tool in reading}
    provider = job.start.model.partition("/")[0]
    name = provider.upper().replace("-", "_")
    variable, path = _ADDRESSES.get(provider, (f"{name}_BASE_URL", ""))
    key, address = job.env.get(f"{name}_API_KEY"), job.env.get(variable)
    options = {"baseURL": f"{address}{path}", **({"apiKey": key} if key else {})}
    settings: dict[str, Any] = {
        **({"provider": {provider: {"options": options}}} if address else {}),
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "agent": {"title": {"disable": True}},
        "permission": {**_OPENCODE[job.start.approval], **always},
        "experimental": {"continue_loop_on_deny": True, "mcp_timeout": int(job.start.limits.tool_seconds * 1000)},
    }
    variables = {
        "OPENCODE_CONFIG_CONTENT": private_files.as_json(settings),
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "TMPDIR": str(job.place),
    }
    if job.start.login:
        return variables
    return {**variables, **dict.fromkeys(SWITCHES, "1"), "OPENCODE_TEST_HOME": str(job.home)}


_KNOWN: Final[Mapping[str, Callable[[BackendJob], Mapping[str, str]]]] = {
    "claude-agent-acp": lambda job: {**SETTINGS, "CLAUDE_CODE_TMPDIR": str(job.place)},
    "gemini": _gemini,
    "opencode": _opencode,
}
"""Table of known programs: name -> function that writes the private files and returns the variables."""
