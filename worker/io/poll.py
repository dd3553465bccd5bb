"""Blocking I/O without an event loop: one poll over the kernel's pipe and other descriptors.

Used for scripts (the mock backend without tools): after a fork each touched page is copied, and Trio
alone touches 500. Without Trio, a mock worker has 485 page faults and takes 2.4 ms of CPU instead of 1115
and 6.5 ms (in alternating runs). All other workers use Trio; ``tests/e2e/test_reuse.py`` runs a script on
it. Every coroutine here returns without suspending, so ``run_blocking`` can run them.

Measure: ``scripts/bench replies``; and a script with and without ``tools: [files]``, which selects Trio.
"""

import errno
import math
import os
import select
import socket
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from protocol.ipc import Start
from protocol.ndjson import encode
from worker.kernel_link import WRITE_SECONDS, ControlChannel, LinkLost, StopRequested

T = TypeVar("T")
_CHUNK_BYTES: Final = 64 * 1024


class _TimeUp(Exception):
    """The deadline of a ``within`` has passed."""


class PollIO:
    """The kernel's two pipes. While any method waits, frames of the kernel are read and answered."""

    def __init__(self, hearing: ControlChannel, receive_fd: int, send_fd: int) -> None:
        self.hearing = hearing
        self._receive_fd = receive_fd
        self._send_fd = send_fd
        self._deadline = math.inf
        self._held = b""
        os.set_blocking(send_fd, False)

    def start(self) -> Start:
        """Wait for ``start`` with all its entries. Raises LinkLost, Stopped."""
        while self.hearing.start is None:
            self.wait()
        return self.hearing.start

    def wait(self, *fds: int, events: int = select.POLLIN, until: float = math.inf) -> frozenset[int]:
        """Wait until one of ``fds`` is ready, the kernel has sent data, or ``until`` (monotonic) has passed.

        Returns:
            The ready descriptors of ``fds``. Raises LinkLost, Stopped, and the timeout that ``within`` handles.
        """
        if self._held:
            self._write(b"")
        until = min(until, self._deadline)
        ready: frozenset[int] = frozenset()
        if not fds and until == math.inf:
            self._listen()
        else:
            poll = select.poll()
            poll.register(self._receive_fd, select.POLLIN)
            for fd in fds:
                poll.register(fd, events)
            patience_ms = None if until == math.inf else max(0, math.ceil((until - time.monotonic()) * 1000))
            ready = frozenset(fd for fd, _events in poll.poll(patience_ms))
        if self._receive_fd in ready:
            self._listen()
        if time.monotonic() >= self._deadline:
            raise _TimeUp
        return ready - {self._receive_fd}

    def _listen(self) -> None:
        try:
            chunk = os.read(self._receive_fd, _CHUNK_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            raise LinkLost
        for frame in self.hearing.feed(chunk):
            self._write(encode(frame))
        if self.hearing.stop is not None:
            raise StopRequested

    async def send(self, line: bytes) -> None:
        """Send a whole line. Raises LinkLost."""
        self._write(line)

    async def hold(self, line: bytes) -> None:
        """Queue the line, to send it with the next line (a script's follows at once) or before the next wait."""
        self._held += line

    def _write(self, line: bytes) -> None:
        rest = memoryview(self._held + line)
        self._held = b""
        while rest:
            try:
                rest = rest[os.write(self._send_fd, rest) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._send_fd, select.POLLOUT)
                if not poll.poll(int(WRITE_SECONDS * 1000)):
                    raise LinkLost from None
            except OSError as error:
                raise LinkLost from error

    async def answered(self) -> None:
        """Wait for the kernel's answer to the recorded entry. Raises LinkLost, Stopped."""
        while self.hearing.answer is None:
            self.wait()

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``. Raises LinkLost, Stopped."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.wait(until=end)

    async def within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
        """Run ``work`` and return its result, or None after ``seconds``."""
        outer = self._deadline
        self._deadline = min(outer, time.monotonic() + seconds)
        try:
            return await work
        except _TimeUp:
            if time.monotonic() >= outer:
                raise
            return None
        finally:
            self._deadline = outer

    async def connect(self, host: str, port: int) -> "PollConnection":
        """Open a connection. Raises OSError, LinkLost, Stopped."""
        family, kind, number, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        wire = PollConnection(self, socket.socket(family, kind, number))
        try:
            wire.connect(address)
        except BaseException:
            wire.close()
            raise
        return wire


class PollConnection:
    """A connection that waits with a PollIO."""

    def __init__(self, io: PollIO, stream: socket.socket) -> None:
        self._io = io
        self._socket = stream
        stream.setblocking(False)

    def connect(self, address: Any) -> None:
        """Connect. Raises OSError."""
        code = self._socket.connect_ex(address)
        if code == errno.EINPROGRESS:
            self._wait(select.POLLOUT)
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    async def send_all(self, data: bytes) -> None:
        """Send all of ``data``. Raises OSError."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)

    async def receive_some(self, limit: int) -> bytes:
        """Return at most ``limit`` bytes; no bytes at the end. Raises OSError."""
        while True:
            try:
                return self._socket.recv(limit)
            except BlockingIOError:
                self._wait(select.POLLIN)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _wait(self, events: int) -> None:
        while not self._io.wait(self._socket.fileno(), events=events):
            pass
