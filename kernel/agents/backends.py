"""Which backends can be used here: what of them is installed, where, and in which version.

It looks on the PATH that workers get. That a program runs, and is whose its name says, it knows from asking it; how
that is done is not known here.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec
import trio

from kernel.agents.programs import absence, find_program
from protocol.api.providers import BackendRow
from protocol.backends import BACKENDS, BackendSpec

_VERSION: Final = re.compile(r"\d+(?:\.\d+)+(?:[-+][\w.+-]*\w)?")
_VERSION_FLAG: Final = "--version"
_HELP_FLAG: Final = "--help"


class Said(Protocol):
    """What a program answered, or why it did not."""

    @property
    def text(self) -> str:
        """What it printed."""
        ...

    @property
    def fault(self) -> str | None:
        """What went wrong."""
        ...


Ask = Callable[[str, str, Mapping[str, str]], Awaitable[Said]]
"""Runs a program with one flag and an environment."""


async def survey(env: Mapping[str, str], ask: Ask) -> tuple[BackendRow, ...]:
    """A row for each backend, in the order of the table; programs are asked all at once. ``env`` is that of workers."""
    rows = {name: _row(spec) for name, spec in BACKENDS.items()}

    async def look(spec: BackendSpec) -> None:
        rows[spec.name] = await _installed(spec, env, ask)

    async with trio.open_nursery() as nursery:
        for spec in BACKENDS.values():
            if spec.binaries:
                nursery.start_soon(look, spec)
    return tuple(rows.values())


async def _installed(spec: BackendSpec, env: Mapping[str, str], ask: Ask) -> BackendRow:
    row = _row(spec)
    path = find_program(spec, env["PATH"])
    if path is None:
        return msgspec.structs.replace(row, available=False, missing=absence(spec, env["PATH"]))
    said = await ask(path, _VERSION_FLAG, env)
    if said.fault is not None:
        missing = f"{path} {_VERSION_FLAG} fails: {said.fault}"
    elif spec.says and spec.says not in (await ask(path, _HELP_FLAG, env)).text:
        missing = f"{path} is not {spec.title}'s: its {_HELP_FLAG} does not say so; get it: {spec.install}"
    else:
        missing = None
    available = missing is None
    return msgspec.structs.replace(row, path=path, version=_version(said.text), available=available, missing=missing)


def _version(text: str) -> str | None:
    """The number in what a program prints of its version; else the beginning of that."""
    found = _VERSION.search(text)
    return found[0] if found else text[:40] or None


def _row(spec: BackendSpec) -> BackendRow:
    return BackendRow(
        name=spec.name,
        title=spec.title,
        available=True,
        steps=spec.steps,
        resume=spec.resume,
        permission_prompt=spec.permission_prompt,
        budget=spec.budget,
        system_prompt=spec.system_prompt,
        daemon_check=spec.daemon_check,
        notes=spec.notes,
    )
