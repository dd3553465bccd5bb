"""Start of an attempt's programs, with their environment, session and sandbox.

Only this module starts tools, MCP servers and CLIs. The keeper stops processes that they leave behind.
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
"""Time to wait for the exit of a killed process, which takes that long only if the system blocks it."""
_NOTHING: Final[Mapping[str, str]] = {}


class Subprocesses:
    """Programs of one attempt. ``env``: variables from the start frame, and the keeper's cookie."""

    def __init__(self, start: Start, env: Mapping[str, str]) -> None:
        self._start = start
        self._env = env
        self._left: list[trio.Process] = []
        self.cwd = start.cwd

    def argv(self, words: Sequence[str]) -> list[str]:
        """Return the command line that runs ``words`` in the attempt's sandbox."""
        return list(wrap(words, self._start))

    def changed(self, words: Sequence[str]) -> str | None:
        """Return the first of ``words`` that is a project file whose content differs from the trusted one, or None.

        An agent that writes files must not be able to run them as trusted programs. Blocks.
        """
        return next((word for word in words if not self._is_as_trusted(word)), None)

    def env(self, more: Mapping[str, str] = _NOTHING) -> dict[str, str]:
        """Return the environment of a program, with additional variables ``more``."""
        return {**self._env, **more}

    def _is_as_trusted(self, word: str) -> bool:
        trusted = self._start.pinned.get(word)
        if trusted is None:
            return True
        path = os.path.join(self.cwd, word)
        if not trusted:  # the file did not exist
            return not os.path.lexists(path) or os.path.isdir(path)
        try:
            # A pipe in its place must not block.
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
        """Start ``words`` in the working directory in its own session. Raises OSError, ValueError (NUL).

        The caller must ``end`` it. ``around`` wraps the command line.
        """
        return await trio.lowlevel.open_process(
            around(self.argv(words)),
            cwd=self.cwd,
            env=self.env(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,  # its process group can be killed as a whole
        )

    async def leave(self, words: Sequence[str], env: Mapping[str, str]) -> int:
        """Start ``words``, to run until ``end_left``; discard their output. Returns the id of their process group.

        Raises as ``open`` does.
        """
        process = await self.open(words, env=env, stderr=subprocess.STDOUT)
        self._left.append(process)
        return process.pid

    async def end_left(self) -> None:
        """Stop background programs at the end of the attempt; the keeper stops processes that left their groups."""
        while self._left:
            await end(self._left.pop())  # the latest first: it may depend on earlier ones


async def end(process: trio.Process) -> None:
    """Kill the group of ``process`` and wait for its exit, even if cancelled. The process may have exited before."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # the group exists while any process of it lives
    with trio.CancelScope(shield=True), trio.move_on_after(REAP_SECONDS):
        await process.wait()
