"""The stdio transport of MCP servers: one message per line over pipes, and the end of the program's standard error.

Replaces the SDK's own transport, which accepts lines of any length and does not report the exit code. Here a shell
around the program writes the exit code to standard error. The keeper kills processes that leave the program's process
group. Importing this module imports the SDK.
"""

import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final, Self

import mcp_types as types
import trio
from mcp.shared.message import SessionMessage

from worker.backends.process import LineSplitter

KEPT_BYTES: Final = 2048
_WAITS: Final = '"$@"; code=$?; [ $code = 0 ] || printf "\\nexit code %s\\n" $code >&2; exit $code'
"""Script of the shell. The command is passed as arguments, so the shell does not interpret it."""


def watched(argv: Sequence[str]) -> list[str]:
    """Return ``argv`` wrapped in a shell that reports a non-zero exit code at the end of standard error."""
    return ["/bin/sh", "-c", _WAITS, "sh", *argv]


class ServerStderr:
    """A pipe for a program's standard error. The creator must ``close`` it."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.file = os.fdopen(write, "w")
        """The program's end; close it after the start, or the end of the stream is never seen."""
        self.ended = trio.Event()
        """Set when the program and all processes that inherited its standard error have exited."""
        self._stream = trio.lowlevel.FdStream(read)
        self._kept = bytearray()
        self._cut = False

    async def hear(self) -> None:
        """Read to the end: an unread pipe would block the program."""
        while chunk := await self._stream.receive_some():
            self._keep(bytes(chunk))
        self.ended.set()

    def text(self) -> str:
        """Return the end of the output so far, without the first word if it is incomplete."""
        try:
            while not self.ended.is_set() and (chunk := os.read(self._stream.fileno(), KEPT_BYTES)):
                self._keep(chunk)
        except BlockingIOError:
            pass
        said = self._kept.decode("utf-8", "replace")
        return ("".join(said.split(maxsplit=1)[1:]) if self._cut else said).strip()

    def close(self) -> None:
        """Close the pipe."""
        self.file.close()
        self._stream.close()

    def _keep(self, chunk: bytes) -> None:
        self._kept += chunk
        self._cut = self._cut or len(self._kept) > KEPT_BYTES
        del self._kept[:-KEPT_BYTES]


LINE_BYTES: Final = 8 * 1024 * 1024
"""Maximum length of a line; a longer line stops the server. Screenshots fit; the worker's memory stays limited."""
LEAVE_SECONDS: Final = 2.0
"""Time between closing the input and SIGTERM to the group, and between SIGTERM and SIGKILL."""
POLL_SECONDS: Final = 0.01
_CHUNK_BYTES: Final = 64 * 1024
_NOTHING: Final = memoryview(b"")


class Pipes:
    """Both streams of a server, as the SDK expects them: it iterates over received messages, and sends others."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdout is not None
        assert isinstance(process.stdin, trio.lowlevel.FdStream)
        self.fault = ""
        """Reason why we stopped the program, or ""."""
        self._process = process
        self._stdout = process.stdout
        self._stdin = process.stdin
        self._lines = LineSplitter(LINE_BYTES)
        self._waiting: deque[bytes] = deque()
        self._reading = trio.CancelScope()
        self._sending = trio.Lock()
        self._unsent = _NOTHING
        """Rest of a line that is being written, or whose sender was cancelled."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._waiting:
            # Read more output. Raises StopAsyncIteration at the end.
            chunk = b""
            with self._reading, suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                chunk = bytes(await self._stdout.receive_some(_CHUNK_BYTES))
            if not chunk:
                raise StopAsyncIteration
            self._reading = trio.CancelScope()
            self._waiting.extend(self._lines.feed(chunk))
            if self._lines.dropped:
                self.fault = f"stopped because it sent a line of more than {LINE_BYTES // 1024**2} MiB"
                self._signal(signal.SIGKILL)
                raise StopAsyncIteration
        line = self._waiting.popleft()
        text = line.decode("utf-8", "replace")  # an invalid byte must not leave a call without an answer
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValueError as error:
            return error

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        return await anext(self)

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message. If the program no longer reads, the stream of received messages ends with an error.

        A cancelled call has sent nothing, unless it had started the line: then the next call sends the rest first.
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace") + b"\n"
        try:
            async with self._sending:
                await self._write()
                self._unsent = memoryview(line)
                try:
                    await self._write()
                finally:
                    if len(self._unsent) == len(line):
                        self._unsent = _NOTHING
        except (OSError, trio.ClosedResourceError):
            self._reading.cancel()  # the SDK then fails all pending calls

    async def _write(self) -> None:
        """Write the rest of the current line. Raises OSError, trio.ClosedResourceError."""
        while self._unsent:
            try:
                self._unsent = self._unsent[os.write(self._stdin.fileno(), self._unsent) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._stdin.fileno())

    async def aclose(self) -> None:
        """Do nothing: the surrounding block closes the streams."""
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    async def let_go(self) -> None:
        """Close the input, wait for the exit, and kill the process group. Limited in time."""
        await self._stdin.aclose()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drain)
            with trio.move_on_after(LEAVE_SECONDS):
                await self._process.wait()
            if self._process.returncode is None:
                self._signal(signal.SIGTERM)
                with trio.move_on_after(LEAVE_SECONDS):
                    while self._signal(0):  # until the group is empty
                        self._process.poll()  # a zombie would stay in the group
                        await trio.sleep(POLL_SECONDS)
            self._signal(signal.SIGKILL)
            with trio.move_on_after(LEAVE_SECONDS):
                await self._process.wait()
            nursery.cancel_scope.cancel()
        await self._stdout.aclose()

    async def _drain(self) -> None:
        """Read during the shutdown: a program blocked on a full pipe would not notice that its input was closed."""
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            while await self._stdout.receive_some(_CHUNK_BYTES):
                pass

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS: the group contains only zombies
            pass
        return True


@asynccontextmanager
async def piped(process: trio.Process) -> AsyncGenerator[tuple[Pipes, Pipes]]:
    """Yield the streams of ``process`` (session leader, with pipes), and stop the process after the block."""
    pipes = Pipes(process)
    try:
        yield pipes, pipes
    finally:
        with trio.CancelScope(shield=True):
            await pipes.let_go()
