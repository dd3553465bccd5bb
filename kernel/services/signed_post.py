"""Single POST to an external server: to a checked address, without redirects, within limits.

The name is resolved once, all its addresses are checked, and the connection uses one of them, so that a changed DNS
answer (DNS rebinding) has no effect. Proxies from the environment are not used, and cookies are not stored.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11
import trio

PATIENCE_SECONDS: Final = 10.0
"""Time limit for name resolution, connection, TLS and answer together."""
_ANSWER_BYTES: Final = 64 * 1024
"""Limit for the head of the answer; its body is not read."""


class Unreached(Exception):
    """No answer was received; the text has the reason."""


class PostRequest(NamedTuple):
    """POST request."""

    url: str
    headers: Mapping[str, str]
    body: bytes


Post = Callable[[PostRequest, Callable[[str], bool]], Awaitable[int]]
"""Type of ``post``, which tests replace."""


async def post(asked: PostRequest, allowed: Callable[[str], bool]) -> int:
    """Send a request and return the status; ``allowed`` checks each address of the host. Raises Unreached."""
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            return await _post(asked, allowed)
    except trio.TooSlowError:
        raise Unreached(f"no answer within {PATIENCE_SECONDS:g} s") from None
    except (OSError, UnicodeError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        why = error.__cause__ or error  # a broken stream hides the TLS error in its cause
        raise Unreached(f"{type(why).__name__}: {why}"[:200]) from None
    except h11.RemoteProtocolError:
        raise Unreached("the answer is not HTTP") from None


async def _post(asked: PostRequest, allowed: Callable[[str], bool]) -> int:
    parts = urlsplit(asked.url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    found = await trio.socket.getaddrinfo(host, parts.port or (443 if secure else 80), type=trio.socket.SOCK_STREAM)
    if not found or not all(allowed(str(address[0])) for *_, address in found):
        raise Unreached("its address is private (set allow_private: true to allow it)")
    family, kind, protocol, _, address = found[0]
    socket = trio.socket.socket(family, kind, protocol)
    try:
        await socket.connect(address)
        stream: trio.abc.Stream = trio.SocketStream(socket)
    except BaseException:
        socket.close()
        raise
    if secure:
        stream = trio.SSLStream(stream, tls_context(), server_hostname=host, https_compatible=True)
    async with stream:
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        fields = {"Host": parts.netloc, "Connection": "close", "Content-Length": str(len(asked.body))}
        return await _exchange(stream, path, {**fields, **asked.headers}, asked.body)


async def _exchange(stream: trio.abc.Stream, path: str, fields: Mapping[str, str], body: bytes) -> int:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_ANSWER_BYTES)
    head = connection.send(h11.Request(method="POST", target=path, headers=list(fields.items())))
    rest = [connection.send(h11.Data(data=body)), connection.send(h11.EndOfMessage())]
    await stream.send_all(b"".join(part or b"" for part in (head, *rest)))
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Response):
            return event.status_code
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(_ANSWER_BYTES)))
        elif not isinstance(event, h11.InformationalResponse):
            raise Unreached("the server closed the connection without an answer")


@cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context with the CA certificates of this machine, cached because loading takes a while."""
    return ssl.create_default_context()
