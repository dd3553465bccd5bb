"""Backends that can be used here: their programs on the PATH of workers, and the versions they print.

That a program runs, and is the one its name says, is known from asking it; how a program is run is not known here. For
an attempt it gives the command line, and checks that files that are to be run are still those that were trusted.
"""

import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec
import trio

from kernel.agents.cli_extras import check_settings
from kernel.agents.providers import CauseError
from kernel.agents.resources import matches_digest
from protocol.agent import AgentDefinition
from protocol.api.kernel import BackendRow
from protocol.backends import BACKENDS, COMMANDED, BackendSpec
from protocol.ipc import Start


def find_program(spec: BackendSpec, path: str) -> str | None:
    """The program of ``spec`` on ``path``, a PATH; None where it is not, or runs nothing of its own."""
    return next((found for name in spec.binaries if (found := shutil.which(name, path=path)) is not None), None)


def absence(spec: BackendSpec, path: str) -> str:
    """That the program of ``spec`` is not there: where it was looked for, and how to get it."""
    return f"{' or '.join(spec.binaries)} is not on the PATH of workers ({path}); get it: {spec.install}"


def command_of(definition: AgentDefinition, root: Path, path: str) -> tuple[str, ...]:
    """The command line that an attempt of ``definition`` runs instead of our own loop, its program by its full path.

    Else nothing.

    A command with a slash is relative to the project at ``root``. Raises CauseError(spawn_permanent).
    """
    if definition.backend in COMMANDED:
        program, *arguments = definition.command or ("",)
        found = shutil.which(str(root / program) if os.sep in program else program, path=path)
        if found is None:
            where = f"in {root}" if os.sep in program else f"on the PATH of workers ({path})"
            text = f"the command of {definition.name} cannot be run: no executable {program!r} {where}"
            raise CauseError("spawn_permanent", text)
        return (found, *arguments)
    spec = BACKENDS[definition.backend]
    if not spec.binaries:
        return ()
    found = find_program(spec, path)
    if found is None:
        raise CauseError("spawn_permanent", f"{spec.title} is not installed: {absence(spec, path)}")
    return (found,)


def check_trusted_files(definition: AgentDefinition, start: Start) -> None:
    """Raise CauseError(untrusted) where a file that is to be run is not what was trusted. Blocks: it reads.

    For attempts of programs other than our loop, which looks itself whenever it starts something.
    """
    check_settings(definition, Path(start.cwd), start.pinned)
    for word, path in _files(definition, start):
        trusted = start.pinned.get(word)
        if trusted is not None and not matches_digest(path, trusted):
            text = f"{word}, which {definition.name} is to run, is not what was trusted (seen from {start.cwd})"
            raise CauseError("untrusted", f"{text}: look at it, and try again; a working tree has what is committed")


def _files(definition: AgentDefinition, start: Start) -> Iterator[tuple[str, Path]]:
    """Words that may name files, and those. A program of the agent's own with a slash is the project's; anything else
    is seen from the working directory, which may be a tree that the agent writes to.
    """
    if definition.backend in COMMANDED:
        program, *arguments = definition.command
        if os.sep in program:
            yield program, Path(start.command[0])
        yield from ((word, Path(start.cwd, word)) for word in arguments)
    for server in start.mcp_servers.values():
        yield from ((word, Path(start.cwd, word)) for word in (server.command or "", *server.args))


_VERSION: Final = re.compile(r"\d+(?:\.\d+)+(?:[-+][\w.+-]*\w)?")
_VERSION_FLAG: Final = "--version"
_HELP_FLAG: Final = "--help"


class BackendVersion(Protocol):
    """The answer of a program that was asked for its version."""

    @property
    def text(self) -> str:
        """The text that it printed."""
        ...

    @property
    def fault(self) -> str | None:
        """The reason why it did not answer; None where it did."""
        ...


Ask = Callable[[str, str, Mapping[str, str]], Awaitable[BackendVersion]]
"""Runs a program with one flag and an environment."""


async def probe_backends(env: Mapping[str, str], ask: Ask) -> tuple[BackendRow, ...]:
    """A row for each backend, in the order of the table; programs are asked all at once. ``env`` is that of workers."""
    rows = {name: _row(spec) for name, spec in BACKENDS.items()}

    async def look(spec: BackendSpec) -> None:
        row = _row(spec)
        path = find_program(spec, env["PATH"])
        if path is None:
            rows[spec.name] = msgspec.structs.replace(row, available=False, missing=absence(spec, env["PATH"]))
        else:
            said = await ask(path, _VERSION_FLAG, env)
            if said.fault is not None:
                missing = f"{path} {_VERSION_FLAG} fails: {said.fault}"
            elif spec.says and spec.says not in (await ask(path, _HELP_FLAG, env)).text:
                missing = f"{path} is not {spec.title}'s: its {_HELP_FLAG} does not say so; get it: {spec.install}"
            else:
                missing = None
            available = missing is None
            # The number in what a program prints of its version; else the beginning of that.
            found = _VERSION.search(said.text)
            rows[spec.name] = msgspec.structs.replace(
                row,
                path=path,
                version=found[0] if found else said.text[:40] or None,
                available=available,
                missing=missing,
            )

    async with trio.open_nursery() as nursery:
        for spec in BACKENDS.values():
            if spec.binaries:
                nursery.start_soon(look, spec)
    return tuple(rows.values())


def _row(spec: BackendSpec) -> BackendRow:
    return BackendRow(
        name=spec.name,
        title=spec.title,
        available=True,
        tested=spec.tested or None,
        steps=spec.steps,
        resume=spec.resume,
        permission_prompt=spec.permission_prompt,
        budget=spec.budget,
        system_prompt=spec.system_prompt,
        daemon_check=spec.daemon_check,
        notes=spec.notes,
    )
