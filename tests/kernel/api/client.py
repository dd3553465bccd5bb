"""A small HTTP/1.1 client on trio and h11, so that tests see exactly what goes over the wire."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import h11
import trio

Headers = dict[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, read to its end."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])

    @property
    def refusal(self) -> tuple[int, str]:
        return self.status, self.code


@dataclass(slots=True)
class Sse:
    id: int | None
    event: str
    data: Any


class Wire:
    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.h11 = h11.Connection(h11.CLIENT)

    async def send(self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        request = h11.Request(method=method, target=path, headers=list(headers))
        data = self.h11.send(request) + (self.h11.send(h11.Data(data=body)) or b"") + self.h11.send(h11.EndOfMessage())
        await self.stream.send_all(data)

    async def event(self) -> Any:
        while True:
            event = self.h11.next_event()
            if event is not h11.NEED_DATA:
                return event
            self.h11.receive_data(bytes(await self.stream.receive_some(65536)))

    async def answer(self) -> Answer:
        head = await self.event()
        body = b""
        while not isinstance(event := await self.event(), h11.EndOfMessage):
            assert not isinstance(event, h11.ConnectionClosed), "closed in the middle of an answer"
            body += event.data
        return Answer(head.status_code, headers_of(head), body)


def headers_of(head: h11.Response) -> Headers:
    return {name.decode(): value.decode() for name, value in head.headers}


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[Wire, None]:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        assert isinstance(stream, trio.SocketStream)
        yield Wire(stream)


@asynccontextmanager
async def meanwhile(call: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> AsyncGenerator[list[T]]:
    """Make a call during the block, which is left after its end. Yields a list that is empty until then."""
    answers: list[T] = []

    async def make() -> None:
        answers.append(await call(*args, **kwargs))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(make)
        yield answers


async def at_once(times: int, call: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> list[T]:
    """The results of a call that is made several times at the same time."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(meanwhile(call, *args, **kwargs)) for _ in range(times)]
    return [answer for (answer,) in made]


class Events:
    """Server-sent events of a response whose head was read, to its end. Comments are left out."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._text = ""
        self._ready: list[Sse] = []

    def __aiter__(self) -> "Events":
        return self

    async def __anext__(self) -> Sse:
        while not self._ready:
            event = await self._wire.event()
            if isinstance(event, h11.EndOfMessage):
                raise StopAsyncIteration
            assert isinstance(event, h11.Data), "the stream was cut"
            self._text += bytes(event.data).decode()
            *whole, self._text = self._text.split("\n\n")
            self._ready.extend(_parse(block) for block in whole if not block.startswith(":"))
        return self._ready.pop(0)


def _parse(block: str) -> Sse:
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    return Sse(int(fields["id"]) if "id" in fields else None, fields["event"], json.loads(fields["data"]))
