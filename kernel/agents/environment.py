"""Environment of a worker, and the checks for bubblewrap, which ``sandbox: on`` needs. Starts no programs.

The environment is built from an allowlist: no variable of the kernel is passed by accident (P18, XF22).
"""

import os
import pwd
import re
import shutil
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from kernel.agents.providers import CauseError
from protocol.agent import AgentDefinition

_ALLOWED: Final = frozenset(
    {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_ALLOWED_PREFIX: Final = "LC_"
_DENIED: Final = re.compile(r"(PYTHON|LD_|DYLD_|GIT_|NODE_OPTIONS$|AGENT_WORKER_|AWK_|BASH_ENV$|ENV$|IFS$|PATH$)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_STEERING: Final = re.compile(
    r"LD_|DYLD_|AGENT_WORKER_|AWK_|(PATH|ENV|BASH_ENV|IFS|NODE_OPTIONS|PYTHON(PATH|HOME|STARTUP))$"
)
"""Variables that change which program runs, or make it load files that are not on its command line."""
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def name_fault(name: str) -> str | None:
    """Return the reason why ``name`` must not be passed by an agent's ``env``; None if it may."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is not a valid variable name"
    if name == "PATH":
        return "PATH is always passed, without relative folders and those of agent-worker, and cannot be listed here"
    if _DENIED.match(name):
        return f"{name} cannot be passed: it changes how programs run"
    return None


def own_name_fault(name: str) -> str | None:
    """Return the reason why the ``env`` of an MCP server must not set ``name``; None if it may."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is not a valid variable name"
    if _STEERING.match(name):
        return f"{name} cannot be set: it changes which program runs, or which files it loads"
    return None


def worker_environment(
    environ: Mapping[str, str], let_through: Iterable[str] = (), own_bin: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Return the part of ``environ`` for a worker, its shells and setup commands.

    ``let_through``: further variables to pass. ``own_bin``: folders to remove from the PATH.
    """
    passed = {name: value for name, value in environ.items() if name in _ALLOWED or name.startswith(_ALLOWED_PREFIX)}
    passed |= {name: environ[name] for name in let_through if name in environ and name_fault(name) is None}
    passed["PATH"] = _search_path(environ.get("PATH") or _DEFAULT_PATH, own_bin)
    return passed


@lru_cache(maxsize=16)
def _search_path(path: str, own_bin: frozenset[str]) -> str:
    # Relative folders depend on the working directory.
    own = {os.path.realpath(directory) for directory in own_bin}
    kept = [part for part in path.split(":") if part.startswith("/") and os.path.realpath(part) not in own]
    return ":".join(kept) or _DEFAULT_PATH


VARIABLE: Final = "AGENT_WORKER_BWRAP"
"""Variable of the kernel's environment with the program, if it is not on the PATH."""
_HINT: Final = "install bubblewrap 0.8 or newer, or write sandbox: off"
RUN_OUTSIDE: Final = (".git", ".vscode", ".idea", ".claude", ".codex", ".cursor", ".gemini", ".opencode", ".envrc")
"""Files of the project that the user's programs execute automatically. In a sandbox they are read-only: they cannot be
written, moved, or created."""


def find_bubblewrap(environ: Mapping[str, str]) -> str | None:
    """Return the absolute path of bubblewrap, or None. The PATH's relative folders are ignored."""
    found = shutil.which(environ.get(VARIABLE) or "bwrap", path=worker_environment(environ)["PATH"])
    return None if found is None else os.path.abspath(found)


def need_bubblewrap(environ: Mapping[str, str]) -> str:
    """Return the absolute path of bubblewrap. Raises CauseError: an agent with a sandbox must never run without it."""
    found = find_bubblewrap(environ)
    if found is None:
        raise CauseError("spawn_permanent", f"sandbox: on, but bwrap was not found on the kernel's PATH ({_HINT})")
    return found


def sandbox_state(definition: AgentDefinition, environ: Mapping[str, str]) -> Literal["off", "on", "missing"]:
    """Return the sandbox state of ``definition``; missing: it is required but unavailable, so work is refused."""
    if definition.sandbox == "off":
        return "off"
    return "missing" if find_bubblewrap(environ) is None else "on"


def home_fault(root: Path, environ: Mapping[str, str]) -> str | None:
    """Return the error if the project at ``root`` contains the user's home; None if it does not."""
    project = os.path.realpath(root)
    try:
        home_by_password = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home_by_password = ""
    for home in dict.fromkeys((environ.get("HOME", ""), home_by_password)):
        real = os.path.realpath(home)
        if home and os.path.commonpath((project, real)) == project:
            where = "is the project folder" if real == project else f"is inside the project folder {project}"
            text = f"sandbox: on, but your home {home} {where}, so the agent could access it"
            return f"{text} (move the project into a separate folder, or write sandbox: off)"
    return None


def link_fault(root: Path, names: Iterable[str]) -> str | None:
    """Return the error if one of ``names`` in ``root`` is a link, which cannot be protected."""
    link = next((name for name in names if os.path.islink(root / name)), None)
    if link is None:
        return None
    text = f"sandbox: on, but {link} is a symbolic link, which cannot be protected from the agent"
    return f"{text} (replace the link with its target, or write sandbox: off)"


def cannot_confine(why: str) -> str:
    """Return the message for a bubblewrap that is installed but does not work."""
    return f"sandbox: on, but bwrap does not work on this machine: {why} ({_HINT})"
