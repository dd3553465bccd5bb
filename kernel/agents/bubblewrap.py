"""bubblewrap, which ``sandbox: on`` needs: where it is, and what to say where it is not. Runs nothing."""

import os
import shutil
from collections.abc import Mapping
from typing import Final, Literal

from kernel.agents.providers import CauseError
from protocol.agent import AgentDefinition

VARIABLE: Final = "AGENT_WORKER_BWRAP"
"""In the kernel's environment: the program, where it is not on PATH."""
_HINT: Final = "install bubblewrap, or write sandbox: off"


def find_bubblewrap(environ: Mapping[str, str]) -> str | None:
    """The absolute path of bubblewrap; None where there is none."""
    asked = environ.get(VARIABLE) or "bwrap"
    found = shutil.which(asked, path=environ.get("PATH", os.defpath))
    return None if found is None else os.path.abspath(found)


def need_bubblewrap(environ: Mapping[str, str]) -> str:
    """As ``find_bubblewrap``. Raises CauseError: nobody is run unconfined who asked to be confined."""
    found = find_bubblewrap(environ)
    if found is None:
        raise CauseError("spawn_permanent", f"sandbox: on, but bwrap is not on the kernel's PATH ({_HINT})")
    return found


def sandbox_state(definition: AgentDefinition, environ: Mapping[str, str]) -> Literal["off", "on", "missing"]:
    """What is in force for ``definition``; missing: it is asked for and cannot be had, so its work is refused."""
    if definition.sandbox == "off":
        return "off"
    return "missing" if find_bubblewrap(environ) is None else "on"


def cannot_confine(why: str) -> str:
    """What to say where it is there and does not work."""
    return f"sandbox: on, but bwrap cannot confine anything here: {why} ({_HINT})"
