"""Availability of backends: their programs on the PATH of workers, and the versions they print.

Whether a program works, and is the expected one, is checked by running it through a function of the caller. For an
attempt, this module returns the command line and checks that files to execute have not changed since they were trusted.
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
    """Return the program of ``spec`` on ``path``, a PATH; None if it is missing or if ``spec`` has no program."""
    return next((found for name in spec.binaries if (found := shutil.which(name, path=path)) is not None), None)


def absence(spec: BackendSpec, path: str) -> str:
    """Return the error for a missing program, with the searched PATH and how to install it."""
    return f"{' or '.join(spec.binaries)} not found on the PATH of workers ({path}). Install it: {spec.install}"


def command_of(definition: AgentDefinition, root: Path, path: str) -> tuple[str, ...]:
    """Return the command line of an attempt with the full path of its program; empty for the built-in loop.

    A command with a slash is relative to the project at ``root``. Raises CauseError(spawn_permanent).
    """
    if definition.backend in COMMANDED:
        program, *arguments = definition.command or ("",)
        found = shutil.which(str(root / program) if os.sep in program else program, path=path)
        if found is None:
            where = f"in {root}" if os.sep in program else f"on the PATH of workers ({path})"
            text = f"agent {definition.name}: executable {program!r} not found {where}"
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
    """Raise CauseError(untrusted) if a file to execute differs from the trusted one. Blocks while files are read.

    Only for attempts of other programs: the built-in loop checks a file when it starts the file.
    """
    check_settings(definition, Path(start.cwd), start.pinned)
    for word, path in _files(definition, start):
        trusted = start.pinned.get(word)
        if trusted is not None and not matches_digest(path, trusted):
            text = f"{word}, which agent {definition.name} runs, has changed since it was trusted (in {start.cwd})"
            raise CauseError(
                "untrusted", f"{text}: check the file and retry; working trees have only committed changes"
            )


def _files(definition: AgentDefinition, start: Start) -> Iterator[tuple[str, Path]]:
    if definition.backend in COMMANDED:
        program, *arguments = definition.command
        if os.sep in program:  # relative to the project, unlike all other words
            yield program, Path(start.command[0])
        yield from ((word, Path(start.cwd, word)) for word in arguments)
    for server in start.mcp_servers.values():
        yield from ((word, Path(start.cwd, word)) for word in (server.command or "", *server.args))


_VERSION: Final = re.compile(r"\d+(?:\.\d+)+(?:[-+][\w.+-]*\w)?")
_VERSION_FLAG: Final = "--version"
_HELP_FLAG: Final = "--help"


class BackendVersion(Protocol):
    """Answer of a program to a version query."""

    @property
    def text(self) -> str:
        """Return the program's output."""
        ...

    @property
    def fault(self) -> str | None:
        """Return the reason why the program did not answer; None if it did."""
        ...


Ask = Callable[[str, str, Mapping[str, str]], Awaitable[BackendVersion]]
"""Runs a program with one flag and an environment."""


async def probe_backends(env: Mapping[str, str], ask: Ask) -> tuple[BackendRow, ...]:
    """Return a row for each backend in the order of the table; query all programs concurrently with ``env``."""
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
                missing = f"{path} is not {spec.title} (see its {_HELP_FLAG} output); install it: {spec.install}"
            else:
                missing = None
            available = missing is None
            # The version number in the output, or else the start of the output.
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
