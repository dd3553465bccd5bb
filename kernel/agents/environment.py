"""The surroundings of a worker: its environment, and bubblewrap, which ``sandbox: on`` needs. Runs nothing.

The environment is built from an allowlist: nothing of the kernel's comes along by accident (P18, XF22).
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
"""What has a program be another one, or load what its command line does not name."""
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def name_fault(name: str) -> str | None:
    """The reason why ``name`` may not be let through by an agent's ``env``; None where it may."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is not the name of a variable"
    if name == "PATH":
        return "PATH is passed on by itself, without folders that are relative or ours: it changes how programs are run"
    if _DENIED.match(name):
        return f"{name} is never passed on: it changes how programs are run"
    return None


def own_name_fault(name: str) -> str | None:
    """The reason why a program's own ``env`` may not set ``name``; None where it may."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is not the name of a variable"
    if _STEERING.match(name):
        return f"{name} is never set: it changes which program is run, or what it loads"
    return None


def worker_environment(
    environ: Mapping[str, str], let_through: Iterable[str] = (), own_bin: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The part of ``environ`` that a worker, its shells and setup commands see.

    ``own_bin``: directories with our commands.
    """
    passed = {name: value for name, value in environ.items() if name in _ALLOWED or name.startswith(_ALLOWED_PREFIX)}
    passed |= {name: environ[name] for name in let_through if name in environ and name_fault(name) is None}
    passed["PATH"] = _search_path(environ.get("PATH") or _DEFAULT_PATH, own_bin)
    return passed


@lru_cache(maxsize=16)
def _search_path(path: str, own_bin: frozenset[str]) -> str:
    """``path`` without our own directories, and without relative ones, which would follow the working directory."""
    own = {os.path.realpath(directory) for directory in own_bin}
    kept = [part for part in path.split(":") if part.startswith("/") and os.path.realpath(part) not in own]
    return ":".join(kept) or _DEFAULT_PATH


VARIABLE: Final = "AGENT_WORKER_BWRAP"
"""In the kernel's environment: the program, where it is not on PATH."""
_HINT: Final = "install bubblewrap 0.8 or newer, or write sandbox: off"
RUN_OUTSIDE: Final = (".git", ".vscode", ".idea", ".claude", ".codex", ".cursor", ".gemini", ".opencode", ".envrc")
"""Of the project: what programs of the user run by themselves when they come into it. It can be read, and nothing else:
not written, moved away, or made where it is not there."""


def find_bubblewrap(environ: Mapping[str, str]) -> str | None:
    """The absolute path of bubblewrap; None where there is none. A relative folder of PATH is the project's."""
    found = shutil.which(environ.get(VARIABLE) or "bwrap", path=worker_environment(environ)["PATH"])
    return None if found is None else os.path.abspath(found)


def need_bubblewrap(environ: Mapping[str, str]) -> str:
    """As ``find_bubblewrap``. Raises CauseError: nobody is run unconfined who asked to be confined."""
    found = find_bubblewrap(environ)
    if found is None:
        raise CauseError("spawn_permanent", f"sandbox: on, but bwrap is not on the kernel's PATH ({_HINT})")
    return found


def sandbox_state(definition: AgentDefinition, environ: Mapping[str, str]) -> Literal["off", "on", "missing"]:
    """The sandbox state of ``definition``; missing: it is asked for and cannot be had, so its work is refused."""
    if definition.sandbox == "off":
        return "off"
    return "missing" if find_bubblewrap(environ) is None else "on"


def home_fault(root: Path, environ: Mapping[str, str]) -> str | None:
    """The reason why nothing can be confined to the project at ``root``: the user's home is in it.

    None where it is not.
    """
    project = os.path.realpath(root)
    try:
        home_by_password = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home_by_password = ""
    for home in dict.fromkeys((environ.get("HOME", ""), home_by_password)):
        real = os.path.realpath(home)
        if home and os.path.commonpath((project, real)) == project:
            where = "is the project's folder" if real == project else f"lies in the project's folder {project}"
            text = f"sandbox: on, but your home {home} {where}, so that it would be open to the agent"
            return f"{text} (move the project into a folder of its own, or write sandbox: off)"
    return None


def link_fault(root: Path, names: Iterable[str]) -> str | None:
    """The reason why something of ``names`` cannot be protected in ``root``; None where all of it can."""
    link = next((name for name in names if os.path.islink(root / name)), None)
    if link is None:
        return None
    text = f"sandbox: on, but {link} is a symbolic link, which cannot be protected from the agent"
    return f"{text} (put what it leads to in its place, or write sandbox: off)"


def cannot_confine(why: str) -> str:
    """The message for a bubblewrap that is installed and does not work."""
    return f"sandbox: on, but bwrap cannot confine anything here: {why} ({_HINT})"
