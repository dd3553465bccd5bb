"""A loopback proxy between a program and its provider that counts usage and blocks requests beyond the budget.

A program reports a reply only after the reply's tools have ended, and an interrupted reply not at all, but each
response of the provider contains its usage. Requests and responses are forwarded unchanged, including the key,
and not stored.
"""

import re
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import h11
import httpx2
import trio

from protocol.instruction import Usage
from protocol.ipc import Limits
from protocol.text import decoded
from worker.backends.process import LineSplitter
from worker.models.sdk_client import http_client

_CHUNK_BYTES: Final = 64 * 1024
_BETWEEN_TWO: Final = frozenset(
    {b"connection", b"host", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Hop-by-hop headers, which are not forwarded."""
_DATA: Final = b"data:"
_WORD: Final = b'"usage"'
_GEMINI: Final = re.compile(rb'"(prompt|candidates|thoughts|cachedContent)TokenCount":\s*(\d{1,15})')
"""Token counts in responses of Gemini's API. In a text of the model, their quotes would be escaped."""

May = Callable[[], Awaitable[None]]
"""Returns when the next request is allowed, or never. Raises nothing."""


class RequestMeter:
    """Usage counter. ``url`` is the proxy's address, which the program gets as the provider's address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.used = False
        """Whether any request was metered: a program that bypasses the meter reports its own usage."""
        self._counted: list[Usage] = []
        self._taken = trio.Event()

    def take(self) -> Usage | None:
        """Return the usage counted since the last call of ``take``; None if there is none."""
        counted, self._counted = self._counted, []
        taken, self._taken = self._taken, trio.Event()
        taken.set()
        if not counted:
            return None
        total = Usage()
        for usage in counted:
            total = total.plus(usage)
        return total

    async def taken(self) -> None:
        """Wait until ``take`` has returned all counted usage."""
        while self._counted:
            await self._taken.wait()

    def count(self, usage: Usage) -> None:
        """Add the usage of one response."""
        if usage.tokens:
            self._counted.append(usage)


@asynccontextmanager
async def metered(upstream: str, limits: Limits, may: May) -> AsyncGenerator[RequestMeter]:
    """Yield a meter for the provider at the base URL ``upstream``; its proxy runs during the block."""
    parts = urlsplit(upstream)
    origin = f"{parts.scheme}://{parts.netloc}"
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    meter = RequestMeter(f"http://127.0.0.1:{port}{parts.path}")
    async with http_client(upstream, limits) as client, trio.open_nursery() as nursery:
        serve = partial(_serve, client=client, origin=origin, meter=meter, may=may)
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield meter
        nursery.cancel_scope.cancel()


async def _serve(
    stream: trio.SocketStream, *, client: httpx2.AsyncClient, origin: str, meter: RequestMeter, may: May
) -> None:
    wire = _Wire(stream)
    try:
        while (request := await wire.request()) is not None:
            if not request[0].target.startswith(b"/"):  # an absolute target could name another host
                return
            meter.used = True
            await may()
            asked, body = request
            headers = [
                (name, value) for name, value in asked.headers if name not in {*_BETWEEN_TWO, b"accept-encoding"}
            ]
            outward = client.build_request(
                asked.method.decode(),
                origin + asked.target.decode(),
                content=body,
                headers=[*headers, (b"accept-encoding", b"identity")],  # compressed usage could not be counted
                timeout=httpx2.Timeout(client.timeout.connect, read=None, write=client.timeout.write),
            )
            answer = await client.send(outward, stream=True)
            counting = _Counting()
            try:
                kept = [(name, value) for name, value in answer.headers.raw if name.lower() not in _BETWEEN_TWO]
                await wire.send(h11.Response(status_code=answer.status_code, headers=kept))
                async for chunk in answer.aiter_raw():
                    counting.look(counting.lines.feed(chunk))
                    await wire.send(h11.Data(data=chunk))
                counting.look(counting.lines.rest())
            finally:
                meter.count(counting.usage)
                with trio.CancelScope(shield=True), trio.move_on_after(1):
                    await answer.aclose()
            await wire.send(h11.EndOfMessage())
            if not wire.again():
                return
    except Exception:  # noqa: BLE001  (process boundary: the program or provider may disconnect or send invalid HTTP)
        return


class _Wire:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._h11 = h11.Connection(h11.SERVER)

    async def request(self) -> tuple[h11.Request, bytes] | None:
        """Return the next request with its body; None at the end. Raises h11.ProtocolError, OSError."""
        found: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                if self._h11.they_are_waiting_for_100_continue:
                    await self.send(h11.InformationalResponse(status_code=100, headers=[]))
                self._h11.receive_data(await self._stream.receive_some(_CHUNK_BYTES))
            elif isinstance(event, h11.Request):
                found = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and found is not None:
                return found, bytes(body)
            else:
                return None

    async def send(self, event: Any) -> None:
        if data := self._h11.send(event):
            await self._stream.send_all(data)

    def again(self) -> bool:
        """Return whether the program may send another request on this connection."""
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        self._h11.start_next_cycle()
        return True


class _Counting:
    """Extractor of the usage in a response of one of four APIs. Later counts replace earlier ones."""

    def __init__(self) -> None:
        self.lines = LineSplitter()
        self._found: dict[str, Any] = {}

    def look(self, lines: list[bytes]) -> None:
        for line in lines:
            self._found |= {name.decode(): int(count) for name, count in _GEMINI.findall(line)}
            said = decoded(line.removeprefix(BOM_UTF8).removeprefix(_DATA).strip(), object) if _WORD in line else None
            for part in (said, *(_inner(said, name) for name in ("message", "response"))):
                usage = _inner(part, "usage")
                if isinstance(usage, Mapping):
                    self._found |= {key: value for key, value in usage.items() if value is not None}

    @property
    def usage(self) -> Usage:
        """Return the usage. Anthropic's input excludes cached tokens; Gemini's and OpenAI's include them."""
        found = self._found
        read = _number(found, "input_tokens") or _number(found, "prompt_tokens") or _number(found, "prompt")
        written = _number(found, "output_tokens") or _number(found, "completion_tokens")
        written = written or _number(found, "candidates") + _number(found, "thoughts")
        details = _inner(found, "input_tokens_details") or _inner(found, "prompt_tokens_details")
        cached = _number(details, "cached_tokens") or _number(found, "prompt_cache_hit_tokens")
        cached = cached or _number(found, "cachedContent")
        return Usage(
            input_tokens=max(0, read - cached),
            output_tokens=written,
            cache_read_tokens=cached or _number(found, "cache_read_input_tokens"),
            cache_write_tokens=_number(found, "cache_creation_input_tokens"),
        )


def _inner(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _number(value: object, name: str) -> int:
    found = _inner(value, name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else 0
