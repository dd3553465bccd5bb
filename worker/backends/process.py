"""Runs a backend's program: started in a session of its own, read line by line, told what it asks, and ended for sure.

It knows nothing of what the lines say. Processes that left its process group are the keeper's to kill: that adopts
every orphan of the attempt.

Files that a killed program leaves outside of our folders (a socket, say) are removed when it has ended. Its process id
is kept in the program's home for as long as it runs, so that the next one there removes what was left by one that was
killed together with us. The id alone: what is kept there a program in a sandbox can write, and a path of its choice is
nothing that we, outside of the sandbox, should remove.
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
"""A longer line is dropped: a tool's result may be large, and nothing we need is."""
HEAD_BYTES: Final = 1024
"""How much is left of a line that is too long, where its beginning is wanted."""
_NEWLINE: Final = b"\n"


class LineSplitter:
    """Lines of a program's output, without their ends. ``dropped`` counts those that were over the limit."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, *, heads: bool = False) -> None:
        """``heads``: of a line that is too long its beginning is returned, where its end would be."""
        self._limit = limit_bytes
        self._heads = heads
        self._buffer = bytearray()
        self._dropping = False
        self.dropped = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return all lines that ``chunk`` completes, in order; empty ones are left out."""
        *pieces, rest = chunk.split(_NEWLINE)
        found: list[bytes] = []
        for piece in pieces:
            self._take(piece)
            found += self._ended()
        self._take(rest)
        return found

    def rest(self) -> list[bytes]:
        """Return the last line, if it ended without a newline."""
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
        line = bytes(self._buffer.removesuffix(b"\r"))
        self._buffer.clear()
        self._dropping = False
        return [line] if line.strip() else []


_LIST: Final = "litter.txt"


def note_leftovers(home: Path, pid: int) -> None:
    """Keep the pid of the program that may leave something. Not worth failing for: a full disk keeps nothing."""
    with suppress(OSError):
        private_files.write(home / _LIST, f"{pid}\n")


def remove_leftovers(home: Path, litter: Iterable[str]) -> None:
    """Remove ``litter`` (paths with ``{pid}``) of the one that is kept; nothing is said of what cannot be removed."""
    kept = home / _LIST
    with suppress(OSError, ValueError):
        if not kept.is_file():
            return
        pid = int(kept.read_text("ascii"))
        for path in litter:
            Path(path.format(pid=pid)).unlink(missing_ok=True)
    with suppress(OSError):
        kept.unlink()


WAITING: Final = 100
"""Lines: where so many are not read yet, what its log tells is left out."""
LEAVE_SECONDS: Final = 5.0
"""How long a program may stay after its last event: one that hangs there has done its work all the same."""
TERM_SECONDS: Final = 5.0
"""Between SIGTERM and SIGKILL: one that runs a tool ends that first."""
KILL_SECONDS: Final = 2.0
"""For the system to let a killed process go; one that it holds is left to the keeper."""
DRAIN_SECONDS: Final = 1.0
"""How long its output may stay open after its end: what it started may have inherited it."""
UNREAD: Final = 200
UNREAD_SECONDS: Final = 10.0
"""A program that talks does not read its input where UNREAD messages wait and none is taken for so long."""
STDERR_BYTES: Final = 8 * 1024
_CHUNK_BYTES: Final = 64 * 1024
Slipped = Callable[[], Iterable[Event]]
"""What is to be told between two of its lines, and does not come from it."""
_SHORT_OF: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class BackendProcess:
    """A program that runs. ``attend`` must run while its lines are read, and returns once it is gone."""

    def __init__(self, process: trio.Process, home: Path, launch: Launch, *, confined: bool = False) -> None:
        """``confined``: what was started is a sandbox, and the program is in that."""
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
        self._waiting: deque[bytes | Slipped] = deque()
        self._stdin = process.stdin
        self._saying, self._said = trio.open_memory_channel[bytes](UNREAD)
        self._reading = trio.CancelScope()
        self._read_until = math.inf
        self._at_end = False
        self._said_all = trio.Event()
        self._heard = trio.Event()
        self._buried = trio.Event()
        self._attending = trio.CancelScope(shield=True)
        self._last_words = bytearray()
        self._pushed = False

    async def line(self) -> bytes | Slipped | None:
        """Return the next line of standard output or of the log, or what was slipped in between; None at the end."""
        while not self._waiting and not self._at_end:
            chunk = b""
            with trio.CancelScope(deadline=self._read_until) as self._reading:
                chunk = await self._read(self._stdout)
            self._at_end = not chunk and not self._waiting
            self._waiting.extend(self._lines.feed(chunk) if chunk else self._lines.rest() if self._at_end else ())
        if not self._waiting:
            await self._buried.wait()  # the end of its log may tell something yet
        return self._waiting.popleft() if self._waiting else None

    async def say(self, data: bytes) -> None:
        """Queue ``data`` for the program's input. Raises Failed where the program does not read it."""
        try:
            with trio.fail_after(UNREAD_SECONDS):
                await self._saying.send(data)
        except trio.TooSlowError:
            raise Failed("protocol", f"it does not read what it is told: {UNREAD} messages wait") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # it is ending: who reads its output sees that

    def slip(self, events: Slipped) -> None:
        """Have ``events`` told before its next line."""
        self._waiting.append(events)
        self._reading.cancel()

    def over(self) -> None:
        """Note that its last event came: its input ends, and it gets LEAVE_SECONDS to leave by itself."""
        self._said_all.set()
        self._saying.close()

    async def attend(self) -> None:
        """Hear what it says on standard error, see it leave, and end the reading soon after."""
        # Shielded: a program that is to end early may be told so, and answer. ``aclose`` ends it.
        with self._attending:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear)
                nursery.start_soon(self._push)
                if self._stdin is not None:
                    nursery.start_soon(self._speak, self._stdin)
                await self._process.wait()
                self._reading.deadline = self._read_until = trio.current_time() + DRAIN_SECONDS
                with trio.move_on_after(DRAIN_SECONDS):
                    await self._heard.wait()
                nursery.cancel_scope.cancel()
        self._buried.set()

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL TERM_SECONDS later; nothing where it is gone."""
        # SIGTERM to the program alone, so that it ends its own; a sandbox without one in it yet is killed.
        if self._process.returncode is not None:  # until it is waited for its pid is its
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
        """Wait for its end, and for ``attend``; return how it ended."""
        await self._buried.wait()
        code = await self._process.wait()
        return ProgramExit(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stderr=self._last_words.decode("utf-8", "replace").strip(),
            pushed=self._pushed,
        )

    async def aclose(self) -> None:
        """End it where it still runs, let its pipes go, remove its litter; shielded from cancellation, and bounded."""
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
        self._heard.set()

    def _keep(self, words: bytes) -> None:
        self._last_words += words
        del self._last_words[:-STDERR_BYTES]

    def _words_in(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines that are not of its log, with their ends; queue those of the log that are read."""
        for line in lines:
            found = None if self._log is None else self._log.match(line)
            if found is None:
                yield line + b"\n"
            elif found["told"] is not None and len(self._waiting) < WAITING:
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
    """Start ``launch`` in the attempt's directory. Raises Failed where it cannot be executed.

    Its input is a file without a name, not a pipe: it is all there, and at its end, whenever the program looks. One
    that talks has a pipe.
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
            raise Failed(
                cause, f"{launch.argv[0]} could not be started in {start.cwd}: {error.strerror or error}"
            ) from error
    if launch.litter:
        note_leftovers(home, process.pid)
    found = BackendProcess(process, home, launch, confined=start.sandbox is not None)
    if launch.talks:
        await found.say(launch.stdin)
    return found
