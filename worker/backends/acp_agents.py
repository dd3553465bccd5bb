"""Programs that speak ACP and are known by name: what keeps them from what is not ours to give them.

Any other program is started as its agent's file says, with a home of its own and nothing else. A row says what a known
one needs to have neither the user's nor the project's settings, and to ask about all that changes something.
Settings of the project that a program may load all the same need trust (``kernel.agents.cli_extras``).
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from protocol.agent import Approval
from protocol.backends import acp_program
from protocol.tools import server_and_tool
from worker.backends import private_files
from worker.backends.acp_replies import DAEMON
from worker.backends.backend import BackendJob
from worker.backends.claude import CHANGING, READING, SETTINGS
from worker.backends.opencode import OFFICIAL, SWITCHES, within
from worker.models.model import Failed

PRIVATE: Final[Mapping[str, str]] = {
    "HOME": "",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
}
"""Variables by which programs find what is their user's, and the folders of the private home that stand for it."""


_CONFIG_BYTES: Final = 1024 * 1024
FORGETFUL: Final = frozenset({"gemini"})
"""Those that say they take up a session, and write over it as they do (0.61.0): they get a new one, like those that
take up none, and are told what was done."""


def environment(job: BackendJob) -> dict[str, str]:
    """All variables of the program, whose private files are written. Raises Failed, OSError.

    With ``login: true`` its home is the user's own, and nothing is written there.
    """
    program = acp_program(job.start.command)
    # Settings of the project itself are trusted or absent (kernel); nobody was asked about those of a folder above.
    for above in (*within(Path(job.start.cwd)),)[1:]:
        for brought in filter(os.path.lexists, (above / name for name in program.settings)):
            text = f"{program_name(job)} would load settings, hooks and servers of {brought}, above the project"
            raise Failed("untrusted", f"{text}: move that away, or choose another backend")
    homes: Mapping[str, str] = {}
    if not job.start.login:
        homes = {name: str(private_files.folder(job.home, *filter(None, (below,)))) for name, below in PRIVATE.items()}
    known = _KNOWN.get(program_name(job))
    metered = {program.endpoint: job.endpoint} if program.endpoint and job.endpoint is not None else {}
    return {**job.env, **homes, **({} if known is None else known(job)), **metered}


def endpoint(job: BackendJob) -> str | None:
    """Return the address of the program's provider, where its requests can be metered on the way; None: nobody knows.

    The login of an account may be good at another address than a key is.
    """
    program, provider = acp_program(job.start.command), job.start.model.partition("/")[0]
    if program.endpoint:
        return job.env.get(program.endpoint) or (None if job.start.login else program.official)
    if not program.meters(job.start.model):
        return None
    configured: Any = None
    with suppress(OSError, msgspec.DecodeError, LookupError, TypeError, RecursionError):
        read = private_files.opened(Path(job.env["OPENCODE_CONFIG"]))
        with read as file:
            configured = msgspec.json.decode(file.read(_CONFIG_BYTES))["provider"][provider]["options"]["baseURL"]
    if isinstance(configured, str):
        return configured
    official = OFFICIAL.get(provider)
    return None if official is None or job.start.login else official.removesuffix("/v1") + "/v1"


def session_options(job: BackendJob) -> Mapping[str, Any]:
    """Return further fields of the requests that open a session: claude's, which are no variables or files."""
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
    """The name of the program, by which it is known."""
    return os.path.basename(job.binary)


def _gemini(job: BackendJob) -> Mapping[str, str]:
    """Gemini's settings: the key and nothing else of the user's, no word to its vendor, no file of variables."""
    trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "NO_BROWSER": "true"}
    if job.start.login:
        return trusted
    settings = {
        "general": {
            "enableAutoUpdate": False,
            "maxAttempts": 1,  # the kernel tries again
            "sessionRetention": {"enabled": False},  # and says when a session is gone
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
"""What it asks about: left to itself it does almost all of it unasked. What is denied we refuse."""


def _opencode(job: BackendJob) -> Mapping[str, str]:
    """Opencode's settings, by which it asks; it leaves those of the user and of the project alone."""
    reading = map(server_and_tool, job.start.read_only) if job.start.approval in {"ask", "deny"} else ()
    always = {"task": "deny", "question": "deny", f"{DAEMON}_*": "allow"}
    always |= {f"{server}_{tool}": "allow" for server, tool in reading}
    metered = {"provider": {job.start.model.partition("/")[0]: {"options": {"baseURL": job.endpoint}}}}
    settings: dict[str, Any] = {
        **(metered if job.endpoint is not None else {}),
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "agent": {"title": {"disable": True}},
        "permission": {**_OPENCODE[job.start.approval], **always},
        "experimental": {"continue_loop_on_deny": True, "mcp_timeout": int(job.start.limits.tool_seconds * 1000)},
    }
    told = {
        "OPENCODE_CONFIG_CONTENT": private_files.as_json(settings),
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "TMPDIR": str(job.place),
    }
    if job.start.login:
        return told
    return {**told, **dict.fromkeys(SWITCHES, "1"), "OPENCODE_TEST_HOME": str(job.home)}


_KNOWN: Final[Mapping[str, Callable[[BackendJob], Mapping[str, str]]]] = {
    "claude-agent-acp": lambda job: {**SETTINGS, "CLAUDE_CODE_TMPDIR": str(job.place)},
    "gemini": _gemini,
    "opencode": _opencode,
}
"""Name of a program -> what writes its private files and gives its variables."""
