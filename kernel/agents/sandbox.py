"""bubblewrap, which ``sandbox: on`` needs: where it is, and what to say where it is not. Runs nothing."""

import os
import pwd
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from kernel.agents.environment import worker_environment
from kernel.agents.providers import CauseError
from protocol.agent import AgentDefinition

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
