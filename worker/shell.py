"""The mock's ``shell``: a command in the agent's working directory. At-least-once: a resumed script runs it again.

The process group dies with the call, unless it was to stay in the background; that, and what left its group, is the
keeper's to kill.
"""

import math
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from worker.io.poll import PollIO
from worker.tool import BACKGROUND, Outcome

OUTPUT_LIMIT_BYTES: Final = 256 * 1024
"""Output beyond this is read and dropped, so that the command does not block on its pipe."""
_LINGER_SECONDS: Final = 1.0
"""How long the pipe may stay open after the shell ended: a process that left the group may hold it for ever."""
_ROUND_SECONDS: Final = 0.05
"""Between two looks at the process, where the system has no descriptor for its end (macOS)."""
_CHUNK_BYTES: Final = 64 * 1024
_SHELL: Final = "/bin/sh"
Confine = Callable[[Sequence[str]], tuple[str, ...]]
"""What has to be executed so that a command stays within its bounds."""
_IGNORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them; a command must not."""


class Shell:
    """Runs ``/bin/sh -c``. Standard output and error are one stream; standard input is empty."""

    def __init__(
        self, *, desk: PollIO, cwd: str, env: dict[str, str], idempotency_key: str, confine: Confine = tuple
    ) -> None:
        self._desk = desk
        self._confine = confine
        self._cwd = cwd
        self._env = env
        self._idempotency_key = idempotency_key

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Run ``args["command"]``. A non-zero exit is recorded, not raised. A stop or a timeout kills the group.

        With ``args["background"]`` it is started, and left to run.
        """
        if args.get("background"):
            text = str(args.get("command", ""))
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            try:
                return Outcome(BACKGROUND.format(pid=self._start(text, key, nowhere)))
            except OSError as error:
                return Outcome(f"{name} could not start: {error}", True)
            finally:
                os.close(nowhere)
        read, write = os.pipe()
        try:
            command = _Command(self._start(str(args.get("command", "")), key, write))
        except OSError as error:
            os.close(read)
            return Outcome(f"{name} could not start: {error}", True)
        finally:
            os.close(write)
        output = _Output(read)
        try:
            try:
                # Read what it says until it has ended.
                while not command.ended():
                    fds = [fd for fd in (command.fd, output.fd) if fd is not None]
                    until = math.inf if command.fd is not None else time.monotonic() + _ROUND_SECONDS
                    if output.fd in self._desk.wait(*fds, until=until):
                        output.take()
            finally:
                command.kill()
            # Read what is still on its way.
            end = time.monotonic() + _LINGER_SECONDS
            while output.fd is not None and time.monotonic() < end:
                if self._desk.wait(output.fd, until=end):
                    output.take()
        finally:
            os.close(read)
        code = command.code or 0
        kept = bytes(output.kept)
        text = kept[:OUTPUT_LIMIT_BYTES].decode("utf-8", "replace")
        if len(kept) > OUTPUT_LIMIT_BYTES:
            text += f"\n[... output over {OUTPUT_LIMIT_BYTES} bytes left out ...]"
        return Outcome(text if code == 0 else f"{text}[exit {code}]", code != 0)

    def _start(self, text: str, key: str, output: int) -> int:
        """The pid of a shell that runs ``text``, leader of its own session. Raises OSError.

        Not by way of subprocess: that imports threading, whose hook copies 110 pages at every fork.
        """
        env = {**self._env, "AGENT_IDEMPOTENCY_KEY": f"{self._idempotency_key}:{key}"}
        files: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        files += [(os.POSIX_SPAWN_DUP2, output, fd) for fd in (1, 2)]
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chdir(self._cwd)  # posix_spawn takes no directory
            argv = self._confine((_SHELL, "-c", text))
            return os.posix_spawn(
                argv[0], argv, env, file_actions=files, setsid=True, setsigdef=_IGNORED, setsigmask=()
            )
        finally:
            os.fchdir(here)
            os.close(here)


class _Command:
    """A shell that runs, leader of its own session. ``fd`` becomes readable when it ends, where the system has such."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.code: int | None = None
        self.fd: int | None = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def ended(self) -> bool:
        """Return whether it has ended; then ``code`` says how."""
        if self.code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def kill(self) -> None:
        """End its group, and see it gone unless the system does not let it go. Call it once, at the end."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        end = time.monotonic() + _LINGER_SECONDS
        while not self.ended() and time.monotonic() < end:
            select.select([] if self.fd is None else [self.fd], [], [], _ROUND_SECONDS)
        if self.fd is not None:
            os.close(self.fd)


class _Output:
    """The output of a command, up to the limit. ``fd`` is None once it has ended."""

    def __init__(self, fd: int) -> None:
        self.fd: int | None = fd
        self.kept = bytearray()

    def take(self) -> None:
        assert self.fd is not None, "there was something to read"
        chunk = os.read(self.fd, _CHUNK_BYTES)
        self.kept += chunk[: max(OUTPUT_LIMIT_BYTES + 1 - len(self.kept), 0)]
        if not chunk:
            self.fd = None
