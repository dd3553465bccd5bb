"""A provider whose every byte a test decides, and the gateway of a served kernel in front of it."""

import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import h11
import httpx2
import trio

from kernel.gateway.access import ModelAccess, Record, new_placeholder
from kernel.gateway.gateway import Gateway
from protocol.instruction import Usage
from protocol.ipc import Provider
from tests.builders.api import ServedKernel

KEY = "sk-real-0123456789abcdefghijklmnop"
PATHS = {
    "anthropic": "anthropic/v1/messages",
    "openai": "openai/v1/chat/completions",
    "gemini": "gemini/v1beta/models/m1:generateContent",
}
BODY = {"max_tokens": 1, "messages": [{"role": "user", "content": "hi"}], "model": "m1"}


class Hit(NamedTuple):
    """A request that reached the provider; of its body, the length and the first bytes."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    size: int

    @property
    def fields(self) -> dict[str, str]:
        return dict(self.headers)


class Line:
    """The provider's side of one connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.h11 = h11.Connection(h11.SERVER)

    async def hit(self) -> Hit | None:
        """The next request, read to its end; None at the end of the connection."""
        found: h11.Request | None = None
        body, size = bytearray(), 0
        while True:
            event = self.h11.next_event()
            if event is h11.NEED_DATA:
                self.h11.receive_data(bytes(await self.stream.receive_some(65536)))
            elif isinstance(event, h11.Request):
                found = event
            elif isinstance(event, h11.Data):
                size += len(event.data)
                body += event.data if size < 1_000_000 else b""
            elif isinstance(event, h11.EndOfMessage) and found is not None:
                headers = [(name.decode(), value.decode()) for name, value in found.headers]
                return Hit(found.method.decode(), found.target.decode(), headers, bytes(body), size)
            else:
                return None

    async def send(self, *events: Any) -> None:
        await self.stream.send_all(b"".join(self.h11.send(event) or b"" for event in events))

    async def reply(self, body: bytes, status: int = 200, **fields: str) -> None:
        """A whole response."""
        kept = {"content-type": "application/json", "content-length": str(len(body)), **fields}
        headers = [(name.replace("_", "-"), value) for name, value in kept.items()]
        await self.send(h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage())

    async def begin(self, **fields: str) -> None:
        """The head of an event stream."""
        headers = [("content-type", "text/event-stream"), *fields.items()]
        await self.send(h11.Response(status_code=200, headers=headers))

    async def data(self, *documents: Any) -> None:
        """Events."""
        text = "".join(f"data: {json.dumps(one)}\n\n" for one in documents)
        await self.send(h11.Data(data=text.encode()))


Script = Callable[[Line, Hit], Awaitable[None]]


async def says_ok(line: Line, _hit: Hit) -> None:
    await line.reply(b'{"ok": true}')


@dataclass
class Upstream:
    """A provider on loopback; ``hits`` are the requests that reached it."""

    url: str = ""
    hits: list[Hit] = field(default_factory=list)


@asynccontextmanager
async def upstream(script: Script = says_ok, context: ssl.SSLContext | None = None) -> AsyncGenerator[Upstream]:
    """A provider for the length of the block. ``script`` answers each request."""
    made = Upstream()

    async def serve(stream: trio.abc.Stream) -> None:
        secured = stream if context is None else trio.SSLStream(stream, context, server_side=True)
        try:
            line = Line(secured)
            while (hit := await line.hit()) is not None:
                made.hits.append(hit)
                await script(line, hit)
                if line.h11.our_state is not h11.DONE:
                    return
                line.h11.start_next_cycle()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            return
        finally:
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners: list[Any] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        made.url = f"http{'s' if context else ''}://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield made
        nursery.cancel_scope.cancel()


@dataclass
class Door:
    """The gateway, and what it counted."""

    kernel: ServedKernel
    counted: list[tuple[str, Usage]] = field(default_factory=list)

    @property
    def gateway(self) -> Gateway:
        return self.kernel.services.kernel.gateway

    def admit(
        self,
        url: str | None,
        dialect: Any = "anthropic",
        *,
        attempt: str = "i1-1",
        models: frozenset[str] = frozenset({"m1"}),
        key: str | None = KEY,
        node: str = "",
        login: bool = False,
        may: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
        record: Record | None = None,
        placeholder: str | None = None,
    ) -> str:
        """Admit an attempt whose provider is at ``url``. Returns its placeholder."""
        placeholder = placeholder or new_placeholder(attempt)
        provider = Provider(name="acme", dialect=dialect, base_url=url, api_key=key)
        access = ModelAccess(attempt=attempt, provider=provider, models=models, node=node, login=login)
        self.gateway.admit(access, placeholder, may, lambda model, usage: self.counted.append((model, usage)), record)
        return placeholder

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=f"http://{self.kernel.host}/gateway/", trust_env=False, timeout=10)

    async def ask(self, placeholder: str, dialect: str = "anthropic", **more: Any) -> httpx2.Response:
        """One request with the placeholder as the dialect's SDK sends it."""
        async with self.client() as client:
            return await client.post(PATHS[dialect], headers=credential(dialect, placeholder), json=BODY, **more)


def credential(dialect: str, placeholder: str) -> dict[str, str]:
    """The header field in which an SDK sends its key."""
    names = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}
    return {names[dialect]: placeholder} if dialect in names else {"authorization": f"Bearer {placeholder}"}
