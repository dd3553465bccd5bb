"""HTTP/1.1 connections to providers: reused, with TLS, through the proxies that the environment names.

A general client would add a third of a millisecond to each request. Redirects are not followed: a key is only for one
host.
"""

import base64
import select
import ssl
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from typing import Final
from urllib.parse import unquote, urlsplit

import h11
import trio

from kernel.gateway.body import RequestBody
from kernel.gateway.table import HeaderList

IDLE_SECONDS: Final = 15.0
"""Time after which an unused connection is not used again; a provider may close it earlier."""
MOST_IDLE: Final = 64
"""Maximum number of unused connections to one origin."""
STALE_SECONDS: Final = 2.0
"""Time in which a reused connection shows that the provider had closed it. A later end may follow paid work."""
CONNECT_SECONDS: Final = 15.0
WRITE_SECONDS: Final = 60.0
"""Time for the provider to take a piece of a body."""
_PORTS: Final = {"http": 80, "https": 443}
_HEAD_BYTES: Final = 100 * 1024
_CHUNK_BYTES: Final = 64 * 1024


class UpstreamFailed(Exception):
    """The provider could not be reached, or its response broke off. The text has the reason, but no header or body."""


@contextmanager
def _failures() -> Generator[None]:
    """Raise UpstreamFailed in place of errors of connections."""
    try:
        yield
    except h11.ProtocolError as error:  # its text quotes the message
        raise UpstreamFailed(f"{type(error).__name__} in its response or in the request") from error
    except trio.TooSlowError as error:
        raise UpstreamFailed("ConnectTimeout: it did not react in time") from error
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, ValueError) as error:
        cause = error.__cause__ or error  # a broken stream hides the TLS error in its cause
        raise UpstreamFailed(f"ConnectError: {' '.join(str(cause).split())[:200]}") from error


class UpstreamStale(UpstreamFailed):
    """A reused connection ended before any part of the response, usually because the provider had closed it."""


class Upstream:
    """Connection to a provider, with its current request. ``through``: prefix of targets for a plain proxy."""

    def __init__(self, stream: trio.abc.Stream, socket: trio.SocketStream, through: bytes, fields: HeaderList) -> None:
        self.idle_since = 0.0
        self._heard = False
        self._stream = stream
        self._socket = socket
        self._through = through
        self._fields = fields
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)

    async def send(self, target: bytes, headers: HeaderList, body: RequestBody, method: str = "POST") -> h11.Response:
        """Send a request, and return the head of the response. Raises UpstreamFailed, UpstreamStale."""
        self._heard, stale_until = False, trio.current_time() + STALE_SECONDS
        try:
            return await self._send(target, headers, body, method)
        except UpstreamFailed as failed:
            if self.idle_since and not self._heard and trio.current_time() < stale_until:
                raise UpstreamStale(str(failed)) from failed
            raise

    async def _send(self, target: bytes, headers: HeaderList, body: RequestBody, method: str) -> h11.Response:
        with _failures():
            request = h11.Request(method=method, target=self._through + target, headers=[*headers, *self._fields])
            data = self._h11.send(request) or b""
            with suppress(trio.BrokenResourceError):  # the provider may answer before it has read the whole body
                async for piece in body:
                    data += self._h11.send(h11.Data(data=piece)) or b""
                    with trio.fail_after(WRITE_SECONDS):
                        await self._stream.send_all(data)
                    data = b""
                self._h11.send(h11.EndOfMessage())
            while isinstance(event := await self._next(), h11.InformationalResponse):
                pass
        if not isinstance(event, h11.Response):
            raise UpstreamFailed("it closed the connection without a response")
        return event

    async def read(self) -> bytes:
        """Return the next piece of the response; b"" at its end. Raises UpstreamFailed."""
        with _failures():
            event = await self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def _next(self) -> object:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            data = bytes(await self._stream.receive_some(_CHUNK_BYTES))
            self._heard |= bool(data)
            self._h11.receive_data(data)
        return event

    def is_reusable(self) -> bool:
        """Return whether the exchange is complete, and the connection is open and quiet; then start the next one."""
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
        poll = select.poll()
        poll.register(self._socket.socket.fileno(), select.POLLIN)
        fresh = self.idle_since == 0.0 or trio.current_time() - self.idle_since < IDLE_SECONDS
        # Data after the response would be taken for the next one.
        is_quiet = self._h11.trailing_data == (b"", False) and not poll.poll(0)
        return self._h11.our_state is h11.IDLE and fresh and is_quiet

    async def aclose(self) -> None:
        """Close the connection at once, also during cancellation."""
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._stream)


class Upstreams:
    """Connections to all providers, by origin. ``environ`` names the proxies."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._idle: dict[str, list[Upstream]] = {}
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def connected(self, url: str, *, reuses: bool = True) -> AsyncGenerator[tuple[Upstream, bytes, bytes]]:
        """Provide a connection for one request to ``url``, its target and its Host. Raises UpstreamFailed."""
        parts = urlsplit(url)
        origin, found = f"{parts.scheme}://{parts.netloc}", None
        idle = self._idle.setdefault(origin, [])
        while reuses and idle and found is None:
            newest = idle.pop()
            if newest.is_reusable():
                found = newest
            else:
                await newest.aclose()
        if found is None:
            with _failures(), trio.fail_after(CONNECT_SECONDS):
                found = await self._connect(origin)
        try:
            yield found, f"{parts.path}{f'?{parts.query}' if parts.query else ''}".encode(), parts.netloc.encode()
        finally:
            if len(idle) < MOST_IDLE and found.is_reusable():
                found.idle_since = trio.current_time()
                idle.append(found)
            else:
                await found.aclose()

    async def _connect(self, origin: str) -> Upstream:
        parts, proxy = urlsplit(origin), urlsplit(proxy_for(origin, self._environ) or origin)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        if proxy.scheme not in _PORTS:
            raise ValueError(f"proxies of the kind {proxy.scheme} are not supported")
        socket = await trio.open_tcp_stream(proxy.hostname or "", proxy.port or _PORTS[proxy.scheme])
        stream: trio.abc.Stream = socket
        try:
            secured = await self._secured(stream, proxy.hostname or "") if proxy.scheme == "https" else stream
            if proxy.netloc == parts.netloc:
                return Upstream(secured, socket, b"", [])
            word = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
            login = [(b"proxy-authorization", b"Basic " + base64.b64encode(word))] if proxy.username else []
            if parts.scheme == "http":
                return Upstream(secured, socket, origin.encode(), login)
            target = f"{host}:{port}".encode()
            opened = await Upstream(secured, socket, b"", login).send(
                target, [(b"host", target)], RequestBody(b""), "CONNECT"
            )
            if not 200 <= opened.status_code < 300:
                raise OSError(f"its proxy refused the connection: {opened.status_code}")
            return Upstream(await self._secured(secured, host), socket, b"", [])
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise

    async def _secured(self, stream: trio.abc.Stream, host: str) -> trio.abc.Stream:
        if self._tls is None:  # loading certificates takes 40-70 ms
            self._tls = await trio.to_thread.run_sync(ssl.create_default_context)
        secured: trio.SSLStream[trio.abc.Stream] = trio.SSLStream(
            stream, self._tls, server_hostname=host, https_compatible=True
        )
        await secured.do_handshake()
        return secured

    async def aclose(self) -> None:
        """Close all unused connections."""
        for one in (one for idle in self._idle.values() for one in idle):
            await one.aclose()


def proxy_for(origin: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for ``origin`` according to the variables that curl reads; none for this machine."""

    def value(name: str) -> str:
        return environ.get(f"{name}_proxy") or environ.get(f"{name.upper()}_PROXY") or ""

    parts = urlsplit(origin)
    host = parts.hostname or ""
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    found = value(parts.scheme) or value("all")
    names = [name.strip().removeprefix("*").removeprefix(".").lower() for name in value("no").split(",")]
    is_excepted = value("no").strip() == "*" or any(
        name and (one == name or one.endswith(f".{name}")) for name in names for one in (host, parts.netloc.lower())
    )
    if not found or is_loopback or is_excepted:
        return None
    return found if "://" in found else f"http://{found}"
