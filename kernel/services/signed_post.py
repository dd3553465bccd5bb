"""One POST to a server of somebody else's: to an address that was looked at, without redirects, within limits.

The name is resolved once, all its addresses are judged, and the connection goes to one of these: a name that answers
otherwise a moment later (DNS rebinding) changes nothing. No proxy of the environment is used, no cookie kept.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11
import trio

PATIENCE_SECONDS: Final = 10.0
"""For all of it: name, connection, TLS, answer."""
_ANSWER_BYTES: Final = 64 * 1024
"""Of the answer's head; its body is not read."""


class Unreached(Exception):
    """There was no answer. The text says why."""


class PostRequest(NamedTuple):
    """A request."""

    url: str
    headers: Mapping[str, str]
    body: bytes


Post = Callable[[PostRequest, Callable[[str], bool]], Awaitable[int]]
"""``post``, or what a test has in its place."""


async def post(asked: PostRequest, allowed: Callable[[str], bool]) -> int:
    """The status of the answer. ``allowed`` judges each address that the name stands for. Raises Unreached."""
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            return await _post(asked, allowed)
    except trio.TooSlowError:
        raise Unreached(f"no answer within {PATIENCE_SECONDS:g} s") from None
    except (OSError, UnicodeError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        why = error.__cause__ or error  # of a broken stream: what TLS did not like
        raise Unreached(f"{type(why).__name__}: {why}"[:200]) from None
    except h11.RemoteProtocolError:
        raise Unreached("the answer is not HTTP") from None


async def _post(asked: PostRequest, allowed: Callable[[str], bool]) -> int:
    parts = urlsplit(asked.url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    found = await trio.socket.getaddrinfo(host, parts.port or (443 if secure else 80), type=trio.socket.SOCK_STREAM)
    if not found or not all(allowed(str(address[0])) for *_, address in found):
        raise Unreached("its address is of this machine or its networks (allow_private: true lets it)")
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
            raise Unreached("it closed the connection without an answer")


@cache
def tls_context() -> ssl.SSLContext:
    """The certificates that this machine believes; reading them takes a while."""
    return ssl.create_default_context()
