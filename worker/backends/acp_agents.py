"""Programs that speak ACP and are known by name: what keeps them from what is not ours to give them.

Any other program is started as its agent's file says, with a home of its own and nothing else: what it reads, and what
it asks about before it does it, is its own affair. A row says what a known one needs to have neither the user's nor the
project's settings, and to ask about all that changes something.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from protocol.agent import Approval
from worker.backends import private_files
from worker.backends.acp_replies import DAEMON
from worker.backends.backend import BackendJob
from worker.backends.opencode import SWITCHES, executable_config, within
from worker.models.errors import Failed

PRIVATE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "HOME": "",
        "XDG_CACHE_HOME": "cache",
        "XDG_CONFIG_HOME": "config",
        "XDG_DATA_HOME": "data",
        "XDG_STATE_HOME": "state",
    }
)
"""Variables by which programs find what is their user's, and the folders of the private home that stand for it."""


FORGETFUL: Final = frozenset({"gemini"})
"""Those that say they take up a session, and write over it as they do (0.61.0): they get a new one, like those that
take up none, and are told what was done."""


def environment(job: BackendJob) -> dict[str, str]:
    """All variables of the program, whose private files are written. Raises Failed, OSError.

    With ``login: true`` its home is the user's own, and nothing is written there.
    """
    homes: Mapping[str, str] = {}
    if not job.start.login:
        homes = {name: str(private_files.folder(job.home, *filter(None, (below,)))) for name, below in PRIVATE.items()}
    known = _KNOWN.get(program_name(job))
    return {**job.env, **homes, **({} if known is None else known(job))}


def program_name(job: BackendJob) -> str:
    """The name of the program, by which it is known."""
    return os.path.basename(job.binary)


def _gemini(job: BackendJob) -> Mapping[str, str]:
    """Gemini's settings: the key and nothing else of the user's, no word to its vendor, no file of variables.

    It takes up what a project has in its folder, and would start servers and hooks of that: such a project is refused.
    """
    for brought in (folder / ".gemini" for folder in within(Path(job.start.cwd))):
        if not (brought.is_symlink() or brought.is_file() or (brought.is_dir() and any(brought.iterdir()))):
            continue
        text = f"gemini would take up settings, servers and hooks of {brought}, and cannot be told to leave them alone"
        raise Failed("untrusted", f"{text}: move that away, or choose another backend")
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
    private_files.write(folder / "settings.json", _json(settings))
    policy = f'[[rule]]\nmcpName = "{DAEMON}"\ntoolName = "*"\ndecision = "allow"\npriority = 900\n'
    if job.start.approval == "all":
        policy += '\n[[rule]]\ntoolName = "*"\ndecision = "ask_user"\npriority = 100\n'
    private_files.write(private_files.folder(job.home, ".gemini", "policies") / "agent-worker.toml", policy)
    return trusted


_READS: Final = ("read", "glob", "grep", "list", "lsp", "todoread", "todowrite")
_OPENCODE: Final[Mapping[Approval, Mapping[str, str]]] = MappingProxyType(
    {
        "auto": {"*": "allow"},
        "ask": {"*": "ask", **dict.fromkeys(_READS, "allow")},
        "all": {"*": "ask"},
        "deny": {"*": "ask", **dict.fromkeys(_READS, "allow")},
    }
)
"""What it asks about: left to itself it does almost all of it unasked. What is denied we refuse."""


def _opencode(job: BackendJob) -> Mapping[str, str]:
    """Opencode's settings, by which it asks; it leaves those of the user and of the project alone.

    A project whose plugins it would run all the same is refused.
    """
    code = executable_config(Path(job.start.cwd))
    if code is not None:
        raise Failed("untrusted", f"opencode would run code of the project: {code}; remove that")
    always = {"task": "deny", "question": "deny", f"{DAEMON}_*": "allow"}
    settings: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "agent": {"title": {"disable": True}},
        "permission": {**_OPENCODE[job.start.approval], **always},
        "experimental": {
            "continue_loop_on_deny": True,
            "mcp_timeout": int(job.start.limits.tool_seconds * 1000),
        },
    }
    told = {
        "OPENCODE_CONFIG_CONTENT": _json(settings),
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "TMPDIR": str(job.place),
    }
    if job.start.login:
        return told
    return {**told, **dict.fromkeys(SWITCHES, "1"), "OPENCODE_TEST_HOME": str(job.home)}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_KNOWN: Final[Mapping[str, Callable[[BackendJob], Mapping[str, str]]]] = MappingProxyType(
    {"gemini": _gemini, "opencode": _opencode}
)
"""Name of a program -> what writes its private files and gives its variables."""
