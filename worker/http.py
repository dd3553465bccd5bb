"""One kept-alive HTTP/1.1 connection to the kernel on this machine. Knows no MCP and no retry.

Small on purpose: an SDK's client costs more processor time per call than the whole kernel side of it, and a
mock worker must start without one. Plain ``http://`` only: it never leaves the loopback interface.
"""

from typing import Final
from urllib.parse import urlsplit

import h11
import trio

ANSWER_LIMIT_BYTES: Final = 8 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024

BROKEN: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError)
"""What ``post`` raises where the connection failed: the request may or may not have been served."""


class Connection:
    """Posts to one URL, one request at a time, reconnecting when the server has hung up."""

    def __init__(self, url: str, headers: tuple[tuple[str, str], ...]) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// address")
        self._host, self._port = parts.hostname, parts.port or 80
        self._target = parts.path or "/"
        self._headers = (("host", parts.netloc), *headers)
        self._stream: trio.SocketStream | None = None
        self._protocol = h11.Connection(h11.CLIENT)

    async def post(self, body: bytes, headers: tuple[tuple[str, str], ...] = ()) -> tuple[int, bytes]:
        """Post ``body``; the status and the body of the answer. Raises one of BROKEN.

        Cancellation drops the connection; whether the request was served stays open.
        """
        try:
            stream = await self._connected()
            length = ("content-length", str(len(body)))
            request = h11.Request(method="POST", target=self._target, headers=[*self._headers, *headers, length])
            events = (request, h11.Data(data=body), h11.EndOfMessage())
            await stream.send_all(b"".join(self._protocol.send(event) or b"" for event in events))
            answer = await self._answer(stream)
            if self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
                self._protocol.start_next_cycle()
            else:
                await self.aclose()
            return answer
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Hang up. Does not wait for the other side."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.socket.close()

    async def _connected(self) -> trio.SocketStream:
        if self._stream is None:
            self._stream = await trio.open_tcp_stream(self._host, self._port)
            self._protocol = h11.Connection(h11.CLIENT)
        return self._stream

    async def _answer(self, stream: trio.SocketStream) -> tuple[int, bytes]:
        status, body = 0, bytearray()
        while True:
            event = self._protocol.next_event()
            match event:
                case h11.NEED_DATA:
                    self._protocol.receive_data(await stream.receive_some(_CHUNK_BYTES))
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
