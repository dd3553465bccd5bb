"""Minimal HTTP/1.1 client for one loopback server: connection, responses and streamed bodies.

The import of the standard library's client takes 30 ms, as much as all of ``awk ps``. This client handles no JSON and
no tokens. All responses are limited in size, because the process at a port may be untrusted.
"""

import select
import socket
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from interface.failure import Unreachable

HEAD_LIMIT_BYTES: Final = 64 * 1024
BODY_LIMIT_BYTES: Final = 256 * 1024 * 1024
_CHUNK: Final = 64 * 1024


class Address(NamedTuple):
    """Address of a server; ``authority`` is the published address, which the server expects as Host."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        """Return ``127.0.0.1:4711``, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(url: str) -> Address | None:
    """Parse ``http://host:port``; return None for any other ``url``."""
    scheme, _, rest = url.partition("://")
    authority = rest.rstrip("/")
    host, _, port = authority.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if scheme != "http" or not host or "/" in authority or "@" in authority or not port.isdecimal():
        return None
    return Address(host, int(port)) if int(port) < 65536 else None


class Connection:
    """TCP connection with one request at a time. Raises Unreachable for every error."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._address = address
        self._buffer = bytearray()
        self.closed = False
        try:
            # As bytes: text would be encoded with the IDNA tables, whose import takes longer than the connection.
            host = address.host.encode() if address.host.isascii() else address.host
            self._socket = socket.create_connection((host, address.port), timeout_seconds)  # type: ignore[arg-type]
        except OSError as error:
            raise Unreachable(f"no server responds at {address.authority} ({error.strerror or error})") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close the connection and drop unread data."""
        self.closed = True
        self._socket.close()

    def wait_at_most(self, seconds: float | None) -> None:
        """Set the timeout for further data; None: no timeout."""
        if self.closed:  # a stopping kernel closes the socket after its last answer
            raise self._broken("the connection was closed")
        self._socket.settimeout(seconds)

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> "Response":
        """Send a request and read the head of the response."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        try:
            is_sent = self._send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        except OSError as error:
            raise self._broken(error) from error
        version, _, rest = self.line().partition(b" ")
        status = rest[:3]
        if not version.startswith(b"HTTP/1.") or not status.isdigit():
            raise self._broken("what answers does not speak HTTP")
        read_head_headers: dict[str, str] = {}
        while line := self.line():
            name, _, value = line.decode("latin-1").partition(":")
            read_head_headers[name.strip().lower()] = value.strip()
            if len(read_head_headers) > 100:
                raise self._broken("too many headers")
        if not is_sent:
            read_head_headers["connection"] = "close"
        return Response(self, int(status), read_head_headers)

    def _send(self, data: bytes) -> bool:
        """Send ``data``. Returns False if the response arrives before all is sent, as for refused requests."""
        if len(data) <= _CHUNK:
            self._socket.sendall(data)
            return True
        left, poll, seconds = memoryview(data), select.poll(), self._socket.gettimeout()
        poll.register(self._socket, select.POLLIN | select.POLLOUT)
        while left:
            ready = poll.poll(None if seconds is None else seconds * 1000)
            if not ready:
                raise TimeoutError("timed out")
            if ready[0][1] & ~select.POLLOUT:
                return False
            left = left[self._socket.send(left[:_CHUNK], socket.MSG_DONTWAIT) :]
        return True

    def receive(self) -> bytes:
        """Return the next bytes of the response; empty at the end of the stream."""
        if self._buffer:
            piece, self._buffer = bytes(self._buffer), bytearray()
            return piece
        try:
            return self._socket.recv(_CHUNK)
        except OSError as error:
            raise self._broken(error) from error

    def line(self) -> bytes:
        """Return the next line without its end."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > HEAD_LIMIT_BYTES:
                raise self._broken("a line that does not end")
            self._fill()
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line

    def exactly(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        while len(self._buffer) < count:
            self._fill()
        piece = bytes(self._buffer[:count])
        del self._buffer[:count]
        return piece

    def _fill(self) -> None:
        try:
            piece = self._socket.recv(_CHUNK)
        except OSError as error:
            raise self._broken(error) from error
        if not piece:
            raise self._broken("the connection was closed")
        self._buffer += piece

    def _broken(self, why: object) -> Unreachable:
        self.close()
        return Unreachable(f"{self._address.authority}: {getattr(why, 'strerror', None) or why}")


class Response:
    """Head of a response. The body can be read once, as a whole or in pieces."""

    def __init__(self, connection: Connection, status: int, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self.status = status
        self.headers = headers

    def body(self) -> bytes:
        """Read the whole body. Raises Unreachable if it is cut or longer than BODY_LIMIT_BYTES."""
        pieces: list[bytes] = []
        total = 0
        for piece in self.pieces():
            total += len(piece)
            if total > BODY_LIMIT_BYTES:
                self._connection.close()
                raise Unreachable(f"the response is longer than {BODY_LIMIT_BYTES} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces. At its end, the connection can be reused."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while (size := _chunk_size(self._connection.line())) > 0:
                yield self._connection.exactly(size)
                self._connection.line()
            if size < 0:
                self._connection.close()
                raise Unreachable("the response is incomplete")
            while self._connection.line():
                pass
        elif "content-length" in self.headers:
            length = self.headers["content-length"]
            left = int(length) if length.isdecimal() else 0
            while left > 0:
                piece = self._connection.exactly(min(left, _CHUNK))
                left -= len(piece)
                yield piece
        elif self.status not in {204, 304}:
            while piece := self._connection.receive():
                yield piece
            self._connection.close()
        if self.headers.get("connection", "").lower() == "close":
            self._connection.close()


def _chunk_size(line: bytes) -> int:
    try:
        size = int(line.partition(b";")[0], 16)
    except ValueError:
        return -1
    return size if size <= BODY_LIMIT_BYTES else -1
