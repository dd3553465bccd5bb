"""The stdio transport of MCP servers: a message a line over pipes, and the end of the program's standard error.

In place of the SDK's own, which takes in a line however long it is, and tells nobody the program's exit code: a shell
around the program writes that to its standard error. Messages are the SDK's business; processes that leave the
program's process group are the keeper's. Importing this imports the SDK.
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
"""Reads nothing of the command: its words stay words."""


def watched(argv: Sequence[str]) -> list[str]:
    """``argv`` so run that its last words are the exit code, unless that is 0."""
    return ["/bin/sh", "-c", _WAITS, "sh", *argv]


class ServerStderr:
    """A pipe for a program's standard error. ``close`` it whatever happens."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.file = os.fdopen(write, "w")
        """What the program gets; close it once it runs, or there is no end to hear of."""
        self.ended = trio.Event()
        """The program has gone, and with it all that it left behind with its standard error."""
        self._stream = trio.lowlevel.FdStream(read)
        self._kept = bytearray()
        self._cut = False

    async def hear(self) -> None:
        """Read to the end: an unread pipe would block the program for ever."""
        while chunk := await self._stream.receive_some():
            self._keep(bytes(chunk))
        self.ended.set()

    def text(self) -> str:
        """Return what it said so far, without a word that was cut."""
        try:
            while not self.ended.is_set() and (chunk := os.read(self._stream.fileno(), KEPT_BYTES)):
                self._keep(chunk)
        except BlockingIOError:
            pass
        said = self._kept.decode("utf-8", "replace")
        return ("".join(said.split(maxsplit=1)[1:]) if self._cut else said).strip()

    def close(self) -> None:
        """Let the pipe go."""
        self.file.close()
        self._stream.close()

    def _keep(self, chunk: bytes) -> None:
        self._kept += chunk
        self._cut = self._cut or len(self._kept) > KEPT_BYTES
        del self._kept[:-KEPT_BYTES]


LINE_BYTES: Final = 8 * 1024 * 1024
"""A longer line costs the server its life: a screenshot fits in, what would cost a worker its own does not."""
LEAVE_SECONDS: Final = 2.0
"""Between the end of its input and SIGTERM to its group, and between that and SIGKILL."""
POLL_SECONDS: Final = 0.01
_CHUNK_BYTES: Final = 64 * 1024
_NOTHING: Final = memoryview(b"")


class Pipes:
    """Both streams, as the SDK wants them: it iterates over what is said and sends what is to be said."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdout is not None
        assert isinstance(process.stdin, trio.lowlevel.FdStream)
        self.fault = ""
        """Why it was ended by us; "" where it was not."""
        self._process = process
        self._stdout = process.stdout
        self._stdin = process.stdin
        self._lines = LineSplitter(LINE_BYTES)
        self._waiting: deque[bytes] = deque()
        self._reading = trio.CancelScope()
        self._sending = trio.Lock()
        self._unsent = _NOTHING
        """Of a line that is being written, or whose sender was cancelled meanwhile."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._waiting:
            # More of what it says. Raises StopAsyncIteration where there is no more.
            chunk = b""
            with self._reading, suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                chunk = bytes(await self._stdout.receive_some(_CHUNK_BYTES))
            if not chunk:
                raise StopAsyncIteration
            self._reading = trio.CancelScope()
            self._waiting.extend(self._lines.feed(chunk))
            if self._lines.dropped:
                self.fault = f"it sent a line of more than {LINE_BYTES // 1024**2} MiB, and was ended for that"
                self._signal(signal.SIGKILL)
                raise StopAsyncIteration
        line = self._waiting.popleft()
        text = line.decode("utf-8", "replace")  # or one wrong byte leaves every call without an answer
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValueError as error:
            return error

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        return await anext(self)

    async def send(self, item: SessionMessage, /) -> None:
        """Say something. Where nobody reads it any more the other stream ends, with what waits for an answer there.

        Cancellation: it is not said, unless its line was begun; then the next one to be said ends that first.
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
            self._reading.cancel()

    async def _write(self) -> None:
        """Write what is left of a line. Raises OSError, trio.ClosedResourceError."""
        while self._unsent:
            try:
                self._unsent = self._unsent[os.write(self._stdin.fileno(), self._unsent) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._stdin.fileno())

    async def aclose(self) -> None:
        """Nothing: the block that they belong to closes them."""
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    async def let_go(self) -> None:
        """End its input, wait for it, end its group. Bounded."""
        await self._stdin.aclose()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drain)
            with trio.move_on_after(LEAVE_SECONDS):
                await self._process.wait()
            if self._process.returncode is None:
                self._signal(signal.SIGTERM)
                with trio.move_on_after(LEAVE_SECONDS):
                    while self._signal(0):
                        self._process.poll()  # or it would stay in the group that it has left
                        await trio.sleep(POLL_SECONDS)
            self._signal(signal.SIGKILL)
            with trio.move_on_after(LEAVE_SECONDS):
                await self._process.wait()
            nursery.cancel_scope.cancel()
        await self._stdout.aclose()

    async def _drain(self) -> None:
        """Read on while it ends: a program that writes into a full pipe would not see that its input was closed."""
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            while await self._stdout.receive_some(_CHUNK_BYTES):
                pass

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


@asynccontextmanager
async def piped(process: trio.Process) -> AsyncGenerator[tuple[Pipes, Pipes]]:
    """The streams of ``process`` (leader of a session, with pipes), which has ended when the block has."""
    pipes = Pipes(process)
    try:
        yield pipes, pipes
    finally:
        with trio.CancelScope(shield=True):
            await pipes.let_go()
