"""Starts the programs of an attempt: the one place where they get their environment, their session and their bounds.

Tools, MCP servers and CLIs are started here and nowhere else. Whatever they leave behind is the keeper's to end.
"""

import hashlib
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

import trio

from protocol.ipc import Start
from worker.sandbox import wrap

REAP_SECONDS: Final = 5.0
"""How long a process that was killed is waited for; only one that the system does not let go takes so long."""
_NOTHING: Final[Mapping[str, str]] = {}


class Subprocesses:
    """Of one attempt. ``env`` is what all of them see: the start frame's variables, and the keeper's cookie."""

    def __init__(self, start: Start, env: Mapping[str, str]) -> None:
        self._start = start
        self._env = env
        self._left: list[trio.Process] = []
        self.cwd = start.cwd

    def argv(self, words: Sequence[str]) -> list[str]:
        """Return the command line that runs ``words`` within the attempt's bounds."""
        return list(wrap(words, self._start))

    def changed(self, words: Sequence[str]) -> str | None:
        """The first of ``words`` that is a file of the project, and not what was trusted when the attempt began.

        An agent that writes files must not become one that runs what it likes. Blocks for as long as reading takes.
        """
        return next((word for word in words if not self._is_as_trusted(word)), None)

    def env(self, more: Mapping[str, str] = _NOTHING) -> dict[str, str]:
        """The environment of a program, with ``more`` of its own."""
        return {**self._env, **more}

    def _is_as_trusted(self, word: str) -> bool:
        trusted = self._start.pinned.get(word)
        if trusted is None:
            return True
        path = os.path.join(self.cwd, word)
        if not trusted:  # there was no such file
            return not os.path.lexists(path) or os.path.isdir(path)
        try:
            # A pipe in its place is found out, not waited for.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
                regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                return regular and hashlib.file_digest(file, "sha256").hexdigest() == trusted
        except OSError:
            return False

    async def open(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str] = _NOTHING,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int | IO[str] | None = None,
        around: Callable[[Sequence[str]], Sequence[str]] = list,
    ) -> trio.Process:
        """Start ``words`` in the working directory, leading a session of its own. Raises OSError, ValueError (NUL).

        The caller ends it (``end``) whatever happens. ``around``: what is executed in place of a command, to run it.
        """
        return await trio.lowlevel.open_process(
            around(self.argv(words)),
            cwd=self.cwd,
            env=self.env(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )

    async def leave(self, words: Sequence[str], env: Mapping[str, str]) -> int:
        """Start ``words`` until ``end_left``; what they say is dropped. Returns the id of their process group.

        Raises as ``open`` does.
        """
        process = await self.open(words, env=env, stderr=subprocess.STDOUT)
        self._left.append(process)
        return process.pid

    async def end_left(self) -> None:
        """End what was left to run. The attempt does so at its end; whatever left the groups is the keeper's."""
        while self._left:
            await end(self._left.pop())


async def end(process: trio.Process) -> None:
    """Kill the group of ``process`` and see it gone, also while being cancelled. Its leader may have ended before."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with trio.CancelScope(shield=True), trio.move_on_after(REAP_SECONDS):
        await process.wait()
