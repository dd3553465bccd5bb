"""Programs that do a worker's work: where they are on the workers' PATH, and what to say where they are not.

And whether what they are to run is still what was trusted. It runs none of them; whether they are what their name says
is for ``kernel.agents.backends`` to find out.
"""

import os
import shutil
from collections.abc import Iterator
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


def check_files(definition: AgentDefinition, start: Start) -> None:
    """Raise CauseError(untrusted) where a file that is to be run is not what was trusted. Blocks: it reads.

    For attempts of programs other than our loop, which looks itself whenever it starts something.
    """
    for word, path in _files(definition, start):
        trusted = start.pinned.get(word)
        if trusted is not None and not is_as_pinned(path, trusted):
            text = f"{word}, which {definition.name} is to run, is not what was trusted (seen from {start.cwd})"
            raise CauseError("untrusted", f"{text}: look at it, and try again; a working tree has what is committed")


def _files(definition: AgentDefinition, start: Start) -> Iterator[tuple[str, Path]]:
    """Words that may name files, and those. A program of the agent's own with a slash is the project's; anything else
    is seen from the working directory, which may be a tree that the agent writes to.
    """
    if definition.backend == EXEC:
        program, *arguments = definition.command
        if os.sep in program:
            yield program, Path(start.command[0])
        yield from ((word, Path(start.cwd, word)) for word in arguments)
    for server in start.mcp_servers.values():
        yield from ((word, Path(start.cwd, word)) for word in (server.command or "", *server.args))


def _own_command(definition: AgentDefinition, root: Path, path: str) -> tuple[str, ...]:
    program, *arguments = definition.command or ("",)
    found = shutil.which(str(root / program) if os.sep in program else program, path=path)
    if found is None:
        where = f"in {root}" if os.sep in program else f"on the PATH of workers ({path})"
        text = f"the command of {definition.name} cannot be run: no executable {program!r} {where}"
        raise CauseError("spawn_permanent", text)
    return (found, *arguments)
