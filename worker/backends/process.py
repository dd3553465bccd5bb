"""Process of a backend's program: start it in its own session, read its lines, write its input, and stop it reliably.

The content of the lines is not interpreted here. The keeper kills processes that leave the process group, because it
adopts every orphan of the attempt.

A killed program can leave files outside of our folders, such as a socket, which are removed after its exit. While it
runs, its pid is stored in its home: if this worker is killed too, the next attempt removes the files. Only the pid is
stored, because a program in a sandbox can write there, and must not choose a path for us to remove.
"""

import errno
import math
import os
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from protocol.errors import Cause
from protocol.ipc import Start
from worker.backends import private_files
from worker.backends.backend import Event, Launch, ProgramExit
from worker.models.model import Failed
from worker.sandbox import ask_to_leave, wrap

LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Maximum length of a line. Longer lines are dropped: only tool results get so long, and they are not needed."""
HEAD_BYTES: Final = 1024
"""Length of the start of a too long line that is returned, with ``heads``."""
_NEWLINE: Final = b"\n"


class LineSplitter:
    """Splitter of a program's output into lines. ``dropped`` counts the lines over the limit."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, *, heads: bool = False) -> None:
        """Set the maximum length of a line; with ``heads``, ``feed`` returns the start of a longer line."""
        self._limit = limit_bytes
        self._heads = heads
        self._buffer = bytearray()
        self._dropping = False
        self.dropped = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return all non-empty lines that ``chunk`` completes, in order."""
        *pieces, rest = chunk.split(_NEWLINE)
        found: list[bytes] = []
        for piece in pieces:
            self._take(piece)
            found += self._ended()
        self._take(rest)
        return found

    def rest(self) -> list[bytes]:
        """Return the last line if the output has ended without a newline; otherwise no line."""
        return self._ended()

    def _take(self, piece: bytes) -> None:
        if self._dropping:
            return
        self._buffer += piece
        if len(self._buffer) > self._limit:
            del self._buffer[HEAD_BYTES if self._heads else 0 :]
            self._dropping = True
            self.dropped += 1

    def _ended(self) -> list[bytes]:
        line = bytes(self._buffer.removesuffix(b"\r"))  # some programs write CRLF
        self._buffer.clear()
        self._dropping = False
        return [line] if line.strip() else []


_LIST: Final = "litter.txt"


def note_leftovers(home: Path, pid: int) -> None:
    """Store the pid of a program that may leave files. Ignores errors: a full disk must not fail the attempt."""
    with suppress(OSError):
        private_files.write(home / _LIST, f"{pid}\n")


def remove_leftovers(home: Path, litter: Iterable[str]) -> None:
    """Remove the files ``litter`` (paths with ``{pid}``) of the program whose pid is stored. Ignores errors."""
    kept = home / _LIST
    with suppress(OSError, ValueError):
        if not kept.is_file():
            return
        pid = int(kept.read_text("ascii"))
        for path in litter:
            Path(path.format(pid=pid)).unlink(missing_ok=True)  # the pid is an int, so it cannot change the folder
    with suppress(OSError):
        kept.unlink()


WAITING: Final = 100
"""Maximum number of unread lines; further log lines are dropped."""
LEAVE_SECONDS: Final = 5.0
"""Time for a program to exit after its last event. A program that hangs then has finished its job anyway."""
TERM_SECONDS: Final = 5.0
"""Time between SIGTERM and SIGKILL: a program first stops its running tool."""
KILL_SECONDS: Final = 2.0
"""Time for the system to remove a killed process; after that the keeper takes care of it."""
DRAIN_SECONDS: Final = 1.0
"""Time after the exit for the output to end: child processes may have inherited the pipe."""
UNREAD: Final = 200
UNREAD_SECONDS: Final = 10.0
"""Time after which a program with UNREAD queued messages counts as not reading its input."""
STDERR_BYTES: Final = 8 * 1024
_CHUNK_BYTES: Final = 64 * 1024
InjectedEvents = Callable[[], Iterable[Event]]
"""Returns events that are processed between two lines of the program's output."""
_SHORT_OF: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class BackendProcess:
    """A running program. Run ``attend`` in another task; it returns when the process has exited."""

    def __init__(self, process: trio.Process, home: Path, launch: Launch, *, confined: bool = False) -> None:
        """Wrap a started process; ``confined``: the process is a sandbox that runs the program."""
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._home = home
        self._litter = launch.litter
        self._log = launch.log
        self._confined = confined
        self._stdout = process.stdout
        self._stderr = process.stderr
        self._lines = LineSplitter(heads=launch.talks)
        self._waiting: deque[bytes | InjectedEvents] = deque()
        self._stdin = process.stdin
        self._saying, self._said = trio.open_memory_channel[bytes](UNREAD)
        self._reading = trio.CancelScope()
        self._read_until = math.inf
        self._at_end = False
        self._said_all = trio.Event()
        self._stderr_read = trio.Event()
        self._is_finished = trio.Event()
        self._attending = trio.CancelScope(shield=True)
        self._stderr_tail = bytearray()
        self._pushed = False

    async def line(self) -> bytes | InjectedEvents | None:
        """Return the next line of output or log, or injected events; None at the end."""
        while not self._waiting and not self._at_end:
            chunk = b""
            with trio.CancelScope(deadline=self._read_until) as self._reading:
                chunk = await self._read(self._stdout)
            self._at_end = not chunk and not self._waiting
            self._waiting.extend(self._lines.feed(chunk) if chunk else self._lines.rest() if self._at_end else ())
        if not self._waiting:
            await self._is_finished.wait()  # the end of the log may contain an event
        return self._waiting.popleft() if self._waiting else None

    async def say(self, data: bytes) -> None:
        """Queue ``data`` for the program's input. Raises Failed if the program does not read it."""
        try:
            with trio.fail_after(UNREAD_SECONDS):
                await self._saying.send(data)
        except trio.TooSlowError:
            raise Failed("protocol", f"the program does not read its input: {UNREAD} messages are queued") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the program is exiting, which the reader of its output detects

    def inject(self, events: InjectedEvents) -> None:
        """Insert ``events`` before the next line."""
        self._waiting.append(events)
        self._reading.cancel()

    def over(self) -> None:
        """Close the program's input after its last event, and stop it if it runs for LEAVE_SECONDS longer."""
        self._said_all.set()
        self._saying.close()

    async def attend(self) -> None:
        """Read standard error and wait for the exit; end the reading of output DRAIN_SECONDS later."""
        # Shielded: a program that is stopped early may still receive input and answer. ``aclose`` ends it.
        with self._attending:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear)
                nursery.start_soon(self._push)
                if self._stdin is not None:
                    nursery.start_soon(self._speak, self._stdin)
                await self._process.wait()
                self._reading.deadline = self._read_until = trio.current_time() + DRAIN_SECONDS
                with trio.move_on_after(DRAIN_SECONDS):
                    await self._stderr_read.wait()
                nursery.cancel_scope.cancel()
        self._is_finished.set()

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after TERM_SECONDS; no effect after the exit."""
        # SIGTERM goes to the program alone, which stops its children; a sandbox without a program is killed.
        if self._process.returncode is not None:  # the pid is not reused before the process is waited for
            pass
        elif not self._confined:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGTERM)
        elif not ask_to_leave(self._process.pid):
            self._kill()
        with trio.move_on_after(TERM_SECONDS):
            await self._process.wait()
        self._kill()
        with trio.move_on_after(KILL_SECONDS):
            await self._process.wait()

    async def ended(self) -> ProgramExit:
        """Wait for the exit and for ``attend``; return the exit status."""
        await self._is_finished.wait()
        code = await self._process.wait()
        return ProgramExit(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stderr=self._stderr_tail.decode("utf-8", "replace").strip(),
            pushed=self._pushed,
        )

    async def aclose(self) -> None:
        """Stop the program, close its pipes and remove its files. Shielded from cancellation, limited in time."""
        with trio.CancelScope(shield=True):
            await self.stop()
            for stream in filter(None, (self._stdin, self._stdout, self._stderr)):
                await stream.aclose()
            self._attending.cancel()
            remove_leftovers(self._home, self._litter)

    async def _push(self) -> None:
        await self._said_all.wait()
        await trio.sleep(LEAVE_SECONDS)
        self._pushed = True
        await self.stop()

    async def _speak(self, stdin: trio.abc.SendStream) -> None:
        with self._said, suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            async with stdin:
                async for data in self._said:
                    await stdin.send_all(data)

    async def _hear(self) -> None:
        lines = LineSplitter()
        while chunk := await self._read(self._stderr):
            self._keep(chunk if self._log is None else b"".join(self._words_in(lines.feed(chunk))))
        self._keep(b"".join(self._words_in(lines.rest())))
        self._stderr_read.set()

    def _keep(self, words: bytes) -> None:
        self._stderr_tail += words
        del self._stderr_tail[:-STDERR_BYTES]

    def _words_in(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines that are no log lines; queue log lines that contain an event."""
        for line in lines:
            found = None if self._log is None else self._log.match(line)
            if found is None:
                yield line + b"\n"
            elif found["event"] is not None and len(self._waiting) < WAITING:
                self._waiting.append(line)
                self._reading.cancel()

    async def _read(self, stream: trio.abc.ReceiveStream) -> bytes:
        try:
            return bytes(await stream.receive_some(_CHUNK_BYTES))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    def _kill(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)


async def launched(launch: Launch, start: Start) -> BackendProcess:
    """Start ``launch`` in the attempt's directory. Raises Failed if it cannot be executed.

    Standard input is an unnamed file that contains all input or, for a program that ``talks``, a pipe.
    """
    home = Path(start.session_dir)
    remove_leftovers(home, launch.litter)
    with tempfile.TemporaryFile(dir=start.attempt_dir) as stdin:
        stdin.write(launch.stdin)
        stdin.seek(0)
        try:
            process = await trio.lowlevel.open_process(
                wrap(launch.argv, start, launch.see),
                stdin=subprocess.PIPE if launch.talks else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=start.cwd,
                env=launch.env,
                start_new_session=True,
            )
        except OSError as error:
            cause: Cause = "spawn_transient" if error.errno in _SHORT_OF else "spawn_permanent"
            text = f"{launch.argv[0]} could not be started in {start.cwd}: {error.strerror or error}"
            raise Failed(cause, text) from error
    if launch.litter:
        note_leftovers(home, process.pid)
    found = BackendProcess(process, home, launch, confined=start.sandbox is not None)
    if launch.talks:
        await found.say(launch.stdin)
    return found
