"""What an agent's file may promise of a program that speaks ACP, and the project's settings that such a program loads.

Settings have hooks, plugins and MCP servers, which run commands. An agent's file does not name them, but its program
finds them in the working directory. They need trust by content, and an attempt does not start where its working
directory holds others.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from kernel.agents.prices import has_token_limit, has_usd_limit
from kernel.agents.providers import CauseError
from kernel.agents.tools import KeyFault
from kernel.source.diagnostics import BadDefinition, fail
from kernel.source.files import BadFolder, FileMissing, folder_files, read_bytes
from kernel.source.safe_paths import NotInside
from protocol.agent import AgentDefinition
from protocol.backends import ACP, acp_program
from protocol.budget import RunBudget

NO_COUNT: Final = "its requests cannot be counted on the way, so a budget of tokens cannot hold"
NO_COUNT_HINT: Final = "limit wall_time instead, or choose a program or backend that is metered (docs/backends.md)"


def counts_tokens(definition: AgentDefinition) -> bool:
    """Return whether tokens of ``definition`` are counted while it works, so that a limit holds."""
    if definition.backend != ACP:
        return True
    return acp_program(definition.command).meters(definition.model) and not definition.login


def acp_faults(definition: AgentDefinition) -> Iterator[KeyFault]:
    """Yield the keys of ``definition`` that its program cannot honor."""
    if definition.backend != ACP or not definition.command:
        return
    program, name = acp_program(definition.command), definition.command[0][:60]
    if definition.approval not in program.approvals:
        message = f"{definition.approval} cannot hold: {name} is not known to ask before every call"
        yield KeyFault("approval", message, f"write one of {', '.join(sorted(program.approvals))}")
    if has_usd_limit(definition.budget, RunBudget()):
        message = f"in USD cannot hold: {name} reports its cost when its work is done"
        yield KeyFault("budget", message, "limit tokens or wall_time instead")
    if has_token_limit(definition.budget, RunBudget()) and not counts_tokens(definition):
        yield KeyFault("budget", f"{name}: {NO_COUNT}", NO_COUNT_HINT)


def project_settings(definition: AgentDefinition, folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in ``folder`` that the program may load settings from, by path.

    Blocks while files are read. Links are not followed. Raises BadDefinition.
    """
    found: dict[str, str] = {}
    for name in acp_program(definition.command).settings if definition.backend == ACP else ():
        try:
            if stat.S_ISDIR(os.lstat(folder / name).st_mode):
                for file in folder_files(str(folder), name):
                    if file.kind == "link":
                        raise BadFolder(f"{file.name[:200]} is a link, which is not followed")
                    found[f"{name}/{file.name}"] = hashlib.sha256(file.data).hexdigest()
            else:
                found[name] = hashlib.sha256(read_bytes(folder / name, name, links=False)).hexdigest()
        except (FileNotFoundError, FileMissing):
            continue
        except (BadFolder, NotInside, OSError) as error:
            hint = f"move it away: {definition.command[0]} may load it"
            raise fail(name, f"cannot be checked: {error}", hint, where="command") from error
    return found


def settings_demands(definition: AgentDefinition, settings: Mapping[str, str]) -> Iterator[str]:
    """Yield the demand for each of ``settings``, without the agent's name."""
    for path, digest in settings.items():
        yield f"lets {definition.command[0]} load settings, hooks and servers of {path}, content sha256:{digest}"


def check_settings(definition: AgentDefinition, folder: Path, trusted: Mapping[str, str]) -> None:
    """Raise CauseError(untrusted) where ``folder`` holds settings that are not among ``trusted``. Blocks."""
    try:
        found = project_settings(definition, folder)
    except BadDefinition as error:
        raise CauseError("untrusted", str(error)) from error
    for path in (path for path, digest in found.items() if trusted.get(path) != digest):
        text = f"{definition.command[0]} may run hooks and servers of {path}, which is not what was trusted"
        raise CauseError("untrusted", f"{text} (seen from {folder}): move it away, or commit and trust it (awk trust)")
