"""Programs that do a worker's work: where they are on the workers' PATH, and what to say where they are not.

And whether an agent's own is still what was trusted. It runs none of them; whether they are what their name says is for
``kernel.agents.backends`` to find out.
"""

import os
import shutil
from pathlib import Path

from kernel.agents.belongings import is_as_pinned
from kernel.agents.providers import CauseError
from protocol.agent import AgentDefinition
from protocol.backends import BACKENDS, EXEC, BackendSpec
from protocol.ipc import Start


def find_program(spec: BackendSpec, path: str) -> str | None:
    """The program of ``spec`` on ``path``, a PATH; None where it is not, or runs nothing of its own."""
    return next((found for name in spec.binaries if (found := shutil.which(name, path=path)) is not None), None)


def absence(spec: BackendSpec, path: str) -> str:
    """That the program of ``spec`` is not there: where it was looked for, and how to get it."""
    return f"{' or '.join(spec.binaries)} is not on the PATH of workers ({path}); get it: {spec.install}"


def command_of(definition: AgentDefinition, root: Path, path: str) -> tuple[str, ...]:
    """What an attempt of ``definition`` runs instead of our own loop, its program by its full path; else nothing.

    A command with a slash is relative to the project at ``root``. Raises CauseError(spawn_permanent).
    """
    if definition.backend == EXEC:
        return _own_command(definition, root, path)
    spec = BACKENDS[definition.backend]
    if not spec.binaries:
        return ()
    found = find_program(spec, path)
    if found is None:
        raise CauseError("spawn_permanent", f"{spec.title} is not installed: {absence(spec, path)}")
    return (found,)


def check_own_command(definition: AgentDefinition, start: Start) -> None:
    """Raise CauseError(untrusted) where a file that its own command names is not what was trusted. Blocks: it reads.

    A program with a slash is the project's; the other words are of the working directory, which may be a tree that
    the agent writes to.
    """
    for number, (word, used) in enumerate(zip(definition.command, start.command, strict=True)):
        trusted = start.pinned.get(word)
        on_path = number == 0 and os.sep not in word
        if trusted is None or on_path or is_as_pinned(Path(start.cwd, used), trusted):
            continue
        text = f"{word} of the command of {definition.name} is not what was trusted (seen from {start.cwd})"
        raise CauseError("untrusted", f"{text}: look at it, and try again; a working tree has only what is committed")


def _own_command(definition: AgentDefinition, root: Path, path: str) -> tuple[str, ...]:
    program, *arguments = definition.command or ("",)
    found = shutil.which(str(root / program) if os.sep in program else program, path=path)
    if found is None:
        where = f"in {root}" if os.sep in program else f"on the PATH of workers ({path})"
        text = f"the command of {definition.name} cannot be run: no executable {program!r} {where}"
        raise CauseError("spawn_permanent", text)
    return (found, *arguments)
