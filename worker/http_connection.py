"""A kept-alive HTTP/1.1 connection to the kernel on this machine, and requests that are sent until they are answered.

Small on purpose: an SDK's client costs more processor time per call than the whole kernel side of it, and a
mock worker must start without one. Plain ``http://`` only: it never leaves the loopback interface.

Only requests that may be sent twice are retried: a read, or a call with its idempotency key.
"""

from typing import Final
from urllib.parse import urlsplit

import h11

from protocol.errors import UNREACHED
from worker.io.base import Stream, WorkerIO
from worker.models.errors import Failed

ANSWER_LIMIT_BYTES: Final = 8 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024

BROKEN: Final = (OSError, h11.RemoteProtocolError)
"""What ``post`` raises where the connection failed: the request may or may not have been served."""


class Connection:
    """Posts to one URL, one request at a time, reconnecting when the server has hung up."""

    def __init__(self, url: str, headers: tuple[tuple[str, str], ...], io: WorkerIO) -> None:
        if not url.startswith("http://"):
            raise ValueError(f"{url!r} is not an http:// address")
        self._url = url
        self._parts = urlsplit(url)
        self._headers = headers
        self._io = io
        self._open: tuple[Stream, h11.Connection] | None = None

    async def post(self, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> tuple[int, bytes]:
        """Post ``body``; the status and the body of the answer. Raises one of BROKEN.

        Cancellation drops the connection; whether the request was served stays open.
        """
        try:
            if self._open is None:
                stream = await self._io.connect(self._parts.hostname or "", self._parts.port or 80)
                self._open = stream, h11.Connection(h11.CLIENT)
            stream, protocol = self._open
            length = ("content-length", str(len(body)))
            fields = [("host", self._parts.netloc), *self._headers, *headers, length]
            request = h11.Request(method="POST", target=self._parts.path or "/", headers=fields)
            events = (request, h11.Data(data=body), h11.EndOfMessage())
            await stream.send_all(b"".join(protocol.send(event) or b"" for event in events))
            answer = await _answer(stream, protocol)
            if protocol.our_state is h11.DONE and protocol.their_state is h11.DONE:
                protocol.start_next_cycle()
            else:
                self.close()
            return answer
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hang up. Does not wait for the other side."""
        opened, self._open = self._open, None
        if opened is not None:
            opened[0].close()


async def _answer(stream: Stream, protocol: h11.Connection) -> tuple[int, bytes]:
    status, body = 0, bytearray()
    while True:
        event = protocol.next_event()
        match event:
            case h11.NEED_DATA:
                protocol.receive_data(await stream.receive_some(_CHUNK_BYTES))
            case h11.Response():
                status = event.status_code
            case h11.Data():
                body += event.data
                if len(body) > ANSWER_LIMIT_BYTES:
                    raise h11.RemoteProtocolError(f"an answer over {ANSWER_LIMIT_BYTES} bytes")
            case h11.EndOfMessage():
                return status, bytes(body)
            case h11.ConnectionClosed():
                raise h11.RemoteProtocolError("the connection closed before the answer")
            case _:
                continue


RETRY_SECONDS: Final = (0.0, 0.1, 0.5, 2.0)
"""Waits before a request is sent again. The first is 0: a kept-alive connection may just have been closed."""
_BUSY: Final = frozenset({502, 503, 504})


async def request_with_retry(
    connection: Connection, io: WorkerIO, body: bytes, headers: tuple[tuple[str, str], ...]
) -> tuple[int, bytes]:
    """Post ``body``; the status and the body of the answer. Raises Failed where none comes."""
    trouble = ""
    for wait in (*RETRY_SECONDS, None):
        try:
            status, content = await connection.post(body, headers)
            if status not in _BUSY:
                return status, content
            trouble = f"HTTP {status}"
        except BROKEN as error:
            trouble = f"{type(error).__name__}: {error}"
        if wait is not None:
            await io.sleep(wait)
    raise Failed("network", f"the kernel's tools cannot be reached ({trouble})", code=UNREACHED)
