"""What programs say of themselves: each is asked once, in a keeper of its own, and the answer is remembered.

A program that was replaced is asked again: it is known by its path, inode, size and time of change. It runs in an empty
private folder that is its home, too, and finds nothing there of anybody's.
"""

import itertools
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from kernel.procs.command import CommandResult, run_command
from kernel.procs.errors import SpawnTransient
from kernel.procs.launcher import Launcher

SECONDS: Final = 15.0
"""For one answer; the slowest program that is known takes two on a slow machine."""
LIMIT_BYTES: Final = 64 * 1024

_TAIL: Final = 200
_Key = tuple[str, int, int, int, str]
_numbers: Final = itertools.count(1)
"""Attempt directories are distinct for the life of a kernel, which sweeps older ones."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a program answered, or why it did not."""

    text: str
    fault: str | None = None


class Probes:
    """Asks programs, and remembers what they said. ``run_dir`` is where ``launcher`` makes its folders."""

    def __init__(self, launcher: Launcher, run_dir: Path) -> None:
        self._launcher = launcher
        self._run_dir = run_dir
        self._said: dict[_Key, Said] = {}
        self._asking: defaultdict[_Key, trio.Lock] = defaultdict(trio.Lock)

    async def ask(self, program: str, flag: str, env: Mapping[str, str]) -> Said:
        """What ``program`` prints when it is run with ``flag``, in ``env`` but for its folders.

        A fault is not remembered: next time it is asked anew. Cancellation kills what was started.
        """
        try:
            key = _key(program, flag)
        except OSError as error:
            return Said("", error.strerror)
        async with self._asking[key]:
            said = self._said.get(key) or await self._run(program, flag, env)
            if said.fault is None:
                self._said[key] = said
        return said

    async def _run(self, program: str, flag: str, env: Mapping[str, str]) -> Said:
        attempt = f"probe-{next(_numbers)}"
        home = str(self._run_dir / attempt)
        try:
            result = await run_command(
                self._launcher,
                attempt,
                (program, flag),
                cwd=home,
                env={**env, "HOME": home, "TMPDIR": home},
                timeout_seconds=SECONDS,
                output_limit_bytes=LIMIT_BYTES,
            )
        except SpawnTransient as error:
            return Said("", str(error))
        return _said(result)


def _key(program: str, flag: str) -> _Key:
    """Which file ``program`` is just now. Raises OSError."""
    file = os.stat(program)
    return program, file.st_ino, file.st_size, file.st_mtime_ns, flag


def _said(result: CommandResult) -> Said:
    text = (result.stdout or result.stderr_tail).decode("utf-8", "replace").strip()
    if result.ok:
        return Said(text)
    if result.exit.failed is not None:
        return Said("", result.exit.failed)
    if result.timed_out:
        return Said("", f"no answer in {SECONDS:.0f} s")
    error = result.stderr_tail.decode("utf-8", "replace").strip()[-_TAIL:]
    how = f"signal {result.exit.signal}" if result.exit.signal else f"exit code {result.exit.code}"
    return Said("", f"{how}: {error}" if error else how)
