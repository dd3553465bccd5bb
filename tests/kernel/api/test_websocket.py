"""GET /ws: the events of GET /events over a WebSocket, messages the other way, and what is refused."""

import base64
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.connection import Connection
from wsproto.events import CloseConnection, Event, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError

from kernel.api import connection, websocket
from kernel.operations import events
from kernel.operations.tokens import RECHECK
from kernel.store import feed
from protocol.message import Event as KernelEvent
from tests.builders.api import TOKEN, ServedKernel
from tests.kernel.api.client import Answer, Wire, connected
from tests.kernel.api.test_tokens import made

pytestmark = pytest.mark.promise("P65")
assert WSConnection is not None

KEY: Final = base64.b64encode(bytes(16)).decode()


def handshake(kernel: ServedKernel, token: str | None = TOKEN, **more: str) -> dict[str, str]:
    fields = {
        "Upgrade": "websocket",
        "Connection": "Upgrade, close",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
    }
    return kernel.headers(token) | fields | {name.replace("_", "-"): value for name, value in more.items()}


class Socket:
    """A client, over a connection that was upgraded."""

    def __init__(self, wire: Wire, protocol: str | None) -> None:
        self.stream = wire.stream
        self.protocol = protocol
        self._frames = Connection(ConnectionType.CLIENT, trailing_data=bytes(wire.h11.trailing_data[0]))
        self._events = self._frames.events()
        self.pongs = True
        """It answers pings."""

    async def send(self, frame: Any) -> None:
        await self.tell(TextMessage(data=json.dumps(frame)))

    async def tell(self, event: Event) -> None:
        await self.stream.send_all(self._frames.send(event))

    async def hear(self) -> Event:
        with trio.fail_after(10):
            while True:
                event = next(self._events, None)
                if isinstance(event, Ping) and self.pongs:
                    await self.tell(event.response())
                if event is not None:
                    return event
                data = await self.stream.receive_some(65536)
                assert data, "the connection was cut"
                self._frames.receive_data(bytes(data))
                self._events = self._frames.events()

    async def frame(self) -> Any:
        while True:
            event = await self.hear()
            assert not isinstance(event, CloseConnection), f"closed: {event.code}"
            if isinstance(event, TextMessage):
                text = event.data
                while not event.message_finished:
                    event = await self.hear()
                    assert isinstance(event, TextMessage)
                    text += event.data
                return json.loads(text)

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        while not wanted(frame := await self.frame()):
            pass
        return frame

    async def closed(self) -> int:
        """The code that it is closed with; and that the connection ends."""
        while not isinstance(event := await self.hear(), CloseConnection):
            pass
        with suppress(LocalProtocolError, trio.BrokenResourceError):
            await self.tell(event.response())
        with trio.fail_after(10):
            try:
                while await self.stream.receive_some(65536):
                    pass
            except trio.BrokenResourceError:
                pass
        return event.code


@asynccontextmanager
async def opened(
    kernel: ServedKernel, query: str = "", token: str | None = TOKEN, **more: str
) -> AsyncGenerator[Socket, None]:
    async with connected(kernel.port) as wire:
        await wire.send("GET", f"/ws?{query}", handshake(kernel, token, **more).items(), b"")
        head = await wire.event()
        assert head.status_code == 101, head
        fields = {name.decode(): value.decode() for name, value in head.headers}
        assert fields["sec-websocket-accept"] == "ICX+Yqv66kxgM0FcWaLWlFLwTAI="
        assert "sec-websocket-extensions" not in fields
        yield Socket(wire, fields.get("sec-websocket-protocol"))


async def refused(kernel: ServedKernel, path: str = "/ws", /, **changed: str | None) -> Answer:
    fields = handshake(kernel) | {name.replace("_", "-"): value for name, value in changed.items() if value is not None}
    left_out = {name.replace("_", "-") for name, value in changed.items() if value is None}
    return await kernel.ask("GET", path, headers={name: fields[name] for name in fields if name not in left_out})


async def test_the_frames_are_those_of_the_stream(kernel: ServedKernel) -> None:
    async with opened(kernel, "since=0") as socket:
        await kernel.ask("POST", "/messages", {"to": "alice", "text": "one"})
        newest = kernel.reader.now(feed.event_range).newest
        frames = [await socket.frame()]
        while frames[-1]["seq"] < newest:
            frames.append(await socket.frame())
    answer = await kernel.ask("GET", "/events?since=0&follow=0")
    lines = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: ")]
    assert frames == lines
    async with opened(kernel, f"since={newest - 1}&type=message") as socket:
        await kernel.ask("POST", "/messages", {"to": "alice", "text": "two"})
        assert (await socket.frame())["data"]["text"] == "two"


async def test_a_message_is_sent_as_by_post(kernel: ServedKernel) -> None:
    async with opened(kernel, "type=nothing") as socket:
        sends = {"type": "send", "id": 7, "key": "k", "to": "alice", "text": "hello"}
        for _ in range(2):
            await socket.send(sends)
        first, again = await socket.frame(), await socket.frame()
        assert first == again
        assert (first["type"], first["id"], first["status"]) == ("sent", 7, 202)
        assert first["data"]["instruction_ids"] == ["i1"]
        for frame, status, code in (
            ({"type": "send", "to": "nobody", "text": "x"}, 404, "unknown_agent"),
            ({"type": "send", "to": "alice", "text": "x", "as": "bob"}, 400, "bad_request"),
            ({"type": "send", "id": "a", "key": "k", "to": "alice", "text": "other"}, 422, "key_reused"),
            ({"type": "send", "to": "alice", "text": "x", "key": 1}, 400, "bad_request"),
            ({"type": "send", "to": "alice", "text": "x", "id": []}, 400, "bad_request"),
            ({"type": "approve", "id": "a1"}, 400, "bad_request"),
            ([], 400, "bad_request"),
        ):
            await socket.send(frame)
            answer = await socket.frame()
            assert (answer["type"], answer["status"], answer["data"]["code"]) == ("refused", status, code), frame
        for text in ("{", '{"type": "send", "to": "alice", "to": "bob", "text": "x"}', "[" * 100_000, '"\\ud800"'):
            await socket.tell(TextMessage(data=text))
            assert (await socket.frame())["data"]["code"] == "bad_request"
    sent = await kernel.ask(
        "POST", "/messages", {"to": "alice", "text": "hello"}, headers=kernel.headers() | {"Idempotency-Key": "k2"}
    )
    assert sent.json["message_id"] != first["data"]["message_id"]


async def test_a_token_may_do_over_it_what_it_may_over_http(kernel: ServedKernel) -> None:
    async with opened(kernel, token=await made(kernel, "read")) as reads:
        await kernel.ask("POST", "/messages", {"to": "alice", "text": "hi"})
        assert (await reads.frame())["type"] == "message"
        await reads.send({"type": "send", "id": "x", "to": "alice", "text": "hi"})
        answer = await reads.until(lambda frame: frame["type"] == "refused")
        assert (answer["id"], answer["status"], answer["data"]["code"]) == ("x", 403, "forbidden")
    async with opened(kernel, "type=none", token=await made(kernel, "operate")) as operates:
        await operates.send({"type": "send", "to": "alice", "text": "hi", "trust": True})
        assert (await operates.frame())["data"]["code"] == "forbidden"
        await operates.send({"type": "send", "to": "alice", "text": "hi"})
        assert (await operates.frame())["type"] == "sent"
    await kernel.lease("i1", "worker-token")
    answer = await refused(kernel, Authorization="Bearer worker-token")
    assert answer.refusal == (403, "forbidden")


async def test_pages_show_their_token_as_a_subprotocol(kernel: ServedKernel) -> None:
    token = await made(kernel, "read")
    offer = f"agent-worker, agent-worker.token.{token}"
    async with opened(kernel, token=None, Sec_WebSocket_Protocol=offer, Origin=f"http://{kernel.host}") as socket:
        assert socket.protocol == "agent-worker"
    async with opened(kernel, Sec_WebSocket_Protocol="other, agent-worker") as socket:
        assert socket.protocol == "agent-worker"
    async with opened(kernel, Sec_WebSocket_Protocol="other") as socket:
        assert socket.protocol is None
    for wrong, status in (
        (f"agent-worker.token.{token}", 400),
        (f"{offer}, agent-worker.token.x", 400),
        ("agent-worker, agent-worker.token.wrong", 401),
        ("agent-worker", 401),
    ):
        assert (await refused(kernel, Authorization=None, Sec_WebSocket_Protocol=wrong)).status == status


@pytest.mark.promise("P17")
async def test_a_foreign_page_does_not_get_in(kernel: ServedKernel) -> None:
    for changed, status, code in (
        ({"Origin": "http://evil.example"}, 403, "forbidden_origin"),
        ({"Origin": "null"}, 403, "forbidden_origin"),
        ({"Origin": f"https://{kernel.host}"}, 403, "forbidden_origin"),
        ({"Host": "evil.example"}, 421, "forbidden_host"),
        ({"Authorization": "Bearer wrong"}, 401, "unauthorized"),
        ({"Authorization": None}, 401, "unauthorized"),
    ):
        answer = await refused(kernel, **changed)
        assert (answer.status, answer.code, answer.headers["connection"]) == (status, code, "close")
    assert (await refused(kernel, "/ws?since=x")).code == "bad_request"


@pytest.mark.promise("P17")
async def test_nothing_but_a_whole_handshake_upgrades_anything(kernel: ServedKernel) -> None:
    for changed in (
        {"Upgrade": "h2c"},
        {"Connection": "close"},
        {"Sec-WebSocket-Version": "8"},
        {"Sec-WebSocket-Key": "short"},
        {"Sec-WebSocket-Key": None},
    ):
        answer = await refused(kernel, **changed)
        assert answer.refusal == (400, "bad_request"), changed
    assert (await kernel.ask("POST", "/ws", {}, headers=handshake(kernel))).code == "bad_request"
    assert (await kernel.ask("GET", "/ws", raw=b"{}", headers=handshake(kernel))).code == "bad_request"
    assert (await refused(kernel, "/agents")).status == 200
    assert (await refused(kernel, "/ws/")).status == 404


MASK: Final = bytes(4)


def raw(first: int, payload: bytes, *, mask: bool = True, length: int | None = None) -> bytes:
    """A frame as bytes, with whatever length it claims."""
    size = len(payload) if length is None else length
    bits = 0x80 if mask else 0
    head = bytes([first, bits | size]) if size < 126 else bytes([first, bits | 127]) + size.to_bytes(8, "big")
    return head + (MASK if mask else b"") + payload


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (raw(0x81, b"{}", mask=False), 1002),
        (raw(0xC1, b"{}"), 1002),
        (raw(0x83, b""), 1002),
        (raw(0x89, bytes(126)), 1002),
        (raw(0x09, b""), 1002),
        (raw(0x80, b"{}"), 1002),
        (raw(0x01, b"{") + raw(0x81, b"}"), 1002),
        (raw(0x81, b"\xff"), 1007),
        (raw(0x82, b"{}"), 1003),
        (raw(0x88, b"\x03"), 1002),
        (raw(0x81, b" " * (websocket.MESSAGE_BYTES + 1)), 1009),
        (raw(0x01, b" " * websocket.MESSAGE_BYTES) + raw(0x80, b" "), 1009),
        (raw(0x81, b" " * (websocket.MESSAGE_BYTES + 1), length=2**40), 1009),
    ],
)
async def test_a_frame_that_is_broken_or_too_long_closes_it(kernel: ServedKernel, data: bytes, code: int) -> None:
    async with opened(kernel) as socket:
        with suppress(trio.BrokenResourceError):
            await socket.stream.send_all(data)
        assert await socket.closed() == code
    assert (await kernel.ask("GET", "/health")).status == 200


async def test_messages_in_pieces_and_pings_between_them_are_taken(kernel: ServedKernel) -> None:
    """As RFC 6455 has it; the longest there may be, too, and frames that come with the handshake's answer."""
    async with opened(kernel, "type=none") as socket:
        await socket.tell(TextMessage(data='{"type": "send", "to"', message_finished=False))
        await socket.tell(Ping(payload=b"there?"))
        await socket.tell(TextMessage(data=': "alice", "text": "in pieces"}'))
        assert await socket.hear() == Pong(payload=b"there?")
        assert (await socket.frame())["type"] == "sent"
        longest = json.dumps({"type": "send", "to": "alice", "text": "x" * 200_000, "id": ""})
        await socket.tell(TextMessage(data=longest + " " * (websocket.MESSAGE_BYTES - len(longest))))
        assert (await socket.frame())["type"] == "sent"
        await socket.tell(CloseConnection(code=1000))
        assert await socket.closed() == 1000


async def test_frames_before_the_handshake_is_answered_end_it(kernel: ServedKernel) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in handshake(kernel).items())
    data = f"GET /ws HTTP/1.1\r\n{head}\r\n".encode() + raw(0x81, b"{}")
    async with connected(kernel.port) as wire:
        await wire.stream.send_all(data)
        with trio.fail_after(5):
            while await wire.stream.receive_some(65536):
                pass
    await kernel.until_watched(watched=False)


@pytest.mark.promise("P57")
async def test_it_closes_as_its_token_is_taken_back(kernel: ServedKernel) -> None:
    token = await made(kernel, "operate")
    async with opened(kernel, token=token) as socket, opened(kernel) as admins:
        await kernel.ask("DELETE", "/tokens/k1")
        assert await socket.closed() == 4401
        await kernel.ask("POST", "/messages", {"to": "alice", "text": "after"})
        assert (await admins.frame())["data"]["text"] == "after"


async def test_it_says_goodbye_when_the_kernel_stops(kernel: ServedKernel) -> None:
    async with opened(kernel) as socket, opened(kernel):
        kernel.services.kernel.shutdown.closing.set()
        assert (await socket.frame())["type"] == "bye"
        assert await socket.closed() == 1001
        with trio.fail_after(5):
            await kernel.served.wait()


async def test_who_does_not_answer_pings_is_let_go(kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PING_SECONDS", 0.02)
    monkeypatch.setattr(websocket, "PONG_SECONDS", 0.05)
    async with opened(kernel) as socket, opened(kernel) as dead:
        for _ in range(5):
            assert isinstance(await socket.hear(), Ping)
        dead.pongs = False
        with pytest.raises(AssertionError, match="cut"):
            await dead.closed()
        assert isinstance(await socket.hear(), Ping)


@pytest.mark.promise("P10", "P22")
async def test_who_does_not_read_is_dropped_and_holds_up_nobody(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STALLED_SECONDS", 0.2)
    async with opened(kernel) as slow:
        messages = [{"to": "alice", "text": "x" * 16_000} for _ in range(200)]
        for _ in range(5):
            assert (await kernel.ask("POST", "/messages", {"messages": messages})).status == 202
        await kernel.until_watched(watched=False)
        assert slow.stream is not None


async def test_a_client_that_sends_without_reading_is_held_up(kernel: ServedKernel) -> None:
    frame = TextMessage(data=json.dumps({"type": "none", "id": "x" * 100_000}))
    async with opened(kernel, "type=none") as socket:
        with trio.move_on_after(1.0) as patience:
            for _ in range(1000):
                await socket.tell(frame)
        assert patience.cancelled_caught, "100 MB were taken from a client that reads no answers"
    await kernel.until_watched(watched=False)


@pytest.mark.promise("LF04")
async def test_one_that_leaves_is_forgotten(kernel: ServedKernel) -> None:
    for goodbye in (True, False):
        async with opened(kernel) as socket:
            await socket.send({"type": "send", "to": "alice", "text": "hi"})
            await socket.frame()
            if goodbye:
                await socket.tell(CloseConnection(code=1000))
                assert await socket.closed() == 1000
        await kernel.until_watched(watched=False)


async def test_random_bytes_harm_nobody(kernel: ServedKernel) -> None:
    for seed in range(30):
        async with opened(kernel) as socket:
            noise = os.urandom(200) if seed % 2 else raw(0x80 | seed % 16, os.urandom(seed))
            with suppress(trio.BrokenResourceError):
                await socket.stream.send_all(noise)
    await kernel.until_watched(watched=False)
    assert (await kernel.ask("GET", "/health")).status == 200


async def test_a_recheck_is_no_event(kernel: ServedKernel) -> None:
    async with opened(kernel) as socket:
        kernel.feed.live(KernelEvent(type=RECHECK, at=""))
        await kernel.ask("POST", "/messages", {"to": "alice", "text": "hi"})
        assert (await socket.frame())["type"] == "message"
