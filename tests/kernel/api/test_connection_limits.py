"""Many connections and many unfinished bodies: bounded, and the owner is served."""

import errno
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from kernel.api import requests
from kernel.api.server import HttpServer
from kernel.policy import access
from protocol.discovery import BODY_LIMIT_BYTES
from tests.builders.api import TOKEN, ServedKernel, serve_kernel
from tests.kernel.api.client import Wire, connected

pytestmark = pytest.mark.promise("P9", "P10")

LIMIT = 8


@pytest.fixture
async def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[ServedKernel]:
    """A kernel with room for few."""
    monkeypatch.setattr(access, "STRANGERS_LIMIT", LIMIT)
    monkeypatch.setattr(access, "EACH_ATTEMPT_LIMIT", LIMIT)
    async with serve_kernel(tmp_path) as built:
        yield built


@asynccontextmanager
async def crowd(kernel: ServedKernel, count: int) -> AsyncGenerator[list[Wire]]:
    """So many open connections, in the order in which they were accepted."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connected(kernel.port)) for _ in range(count)]


async def ended(wire: Wire) -> bool:
    """Whether the server closed the connection; waits until it says so or answers what is asked."""
    try:
        return await wire.stream.receive_some(1) == b""
    except trio.BrokenResourceError:
        return True


async def ask(kernel: ServedKernel, wire: Wire, token: str | None, path: str = "/health", method: str = "GET") -> int:
    """The status of an answer on a connection that stays open (406: admitted, and silent on what it takes)."""
    data = b"{}" if method == "POST" else b""
    fields = kernel.headers(token, Content_Length=str(len(data)), Content_Type="application/json")
    await wire.send(method, path, fields.items(), data)
    status = (await wire.answer()).status
    wire.h11.start_next_cycle()
    return status


async def test_the_oldest_connection_without_a_token_gives_way(crowded: ServedKernel) -> None:
    with trio.fail_after(10):
        async with crowd(crowded, LIMIT + 5) as wires:
            assert [await ended(wire) for wire in wires[:5]] == [True] * 5
            assert await ask(crowded, wires[5], None) == 200
            assert await ask(crowded, wires[-1], TOKEN, "/agents") == 200


@pytest.mark.parametrize(("token", "stays"), [(TOKEN, True), ("wrong", False), (None, False)])
async def test_only_a_valid_token_makes_a_connection_stay(
    crowded: ServedKernel, token: str | None, stays: bool
) -> None:
    with trio.fail_after(10):
        async with connected(crowded.port) as first:
            assert await ask(crowded, first, token, "/agents") == (200 if stays else 401)
            async with crowd(crowded, LIMIT + 5) as wires:
                assert await ended(wires[0])
                if stays:
                    assert await ask(crowded, first, token, "/agents") == 200
                else:
                    assert await ended(first)


async def test_an_attempt_has_a_share_of_its_own(crowded: ServedKernel) -> None:
    await crowded.attempt(token="worker")
    with trio.fail_after(10):
        async with connected(crowded.port) as owner:
            assert await ask(crowded, owner, TOKEN, "/agents") == 200
            async with crowd(crowded, LIMIT) as wires, connected(crowded.port) as one_more:
                for wire in [*wires[1:], one_more]:
                    assert await ask(crowded, wire, "worker", "/mcp", "POST") == 406
                async with connected(crowded.port) as too_many:
                    assert await ask(crowded, too_many, "worker", "/mcp", "POST") == 406
                    assert await ended(wires[1])
                    assert await ask(crowded, wires[2], "worker", "/mcp", "POST") == 406
            assert await ask(crowded, owner, TOKEN, "/agents") == 200


@pytest.mark.promise("PF17")
async def test_without_descriptors_we_wait_and_accept_again(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    del autojump_clock

    class Exhausted:
        """A listener for which there are no descriptors at first."""

        tries = 0

        async def __aenter__(self) -> None:
            await trio.lowlevel.checkpoint()

        async def __aexit__(self, *_: object) -> None:
            await trio.lowlevel.checkpoint()

        async def accept(self) -> trio.SocketStream:
            self.tries += 1
            if self.tries < 30:
                raise OSError(errno.EMFILE, "Too many open files")
            if self.tries == 30:
                return trio.SocketStream(trio.socket.from_stdlib_socket(ours))
            await trio.sleep_forever()
            raise AssertionError

    ours, theirs = socket.socketpair()
    server = HttpServer(cast("object", None), access.shares(1024))  # type: ignore[arg-type]
    served = trio.Event()

    async def serve(stream: trio.SocketStream, begun: bytes = b"", node: str = "") -> None:
        await stream.aclose()
        served.set()

    server.serve = serve  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.accept, cast(trio.SocketListener, Exhausted()), nursery)
        await served.wait()
        nursery.cancel_scope.cancel()
    theirs.close()
    assert 0 < len(caplog.records) <= 10
    assert not any(record.exc_info for record in caplog.records)


async def half_sent(kernel: ServedKernel, wire: Wire, token: str, size: int) -> None:
    """Announce a body of the largest size, and send so much of it."""
    path = "/messages" if token == TOKEN else "/mcp"
    head = f"POST {path} HTTP/1.1\r\nHost: {kernel.host}\r\nAuthorization: Bearer {token}\r\n"
    await wire.stream.send_all(f"{head}Content-Length: {BODY_LIMIT_BYTES}\r\n\r\n".encode() + b"x" * size)


async def test_unfinished_bodies_take_a_bounded_amount_of_memory(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "ADMIN_BYTES", 1024 * 1024)
    with trio.fail_after(10):
        async with crowd(kernel, 3) as wires:
            await half_sent(kernel, wires[0], TOKEN, 600_000)
            await half_sent(kernel, wires[1], TOKEN, 600_000)
            first = trio.Event()
            answers = []
            async with trio.open_nursery() as nursery:

                async def listen(wire: Wire) -> None:
                    answers.append(await wire.stream.receive_some(65536))
                    first.set()

                nursery.start_soon(listen, wires[0])
                nursery.start_soon(listen, wires[1])
                await first.wait()
                nursery.cancel_scope.cancel()
            assert answers[0].startswith(b"HTTP/1.1 503 ")
            assert b'"busy"' in answers[0]
            assert (await kernel.ask("POST", "/messages", {"to": "alice", "text": "short"})).status == 202
        while (await kernel.ask("POST", "/messages", {"to": "alice", "text": "x" * 200_000})).status != 202:
            await trio.lowlevel.checkpoint()


async def test_an_attempts_bodies_do_not_keep_out_the_owners(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "ATTEMPTS_BYTES", 1024 * 1024)
    await kernel.attempt(token="worker")
    with trio.fail_after(10):
        async with crowd(kernel, 2) as wires:
            await half_sent(kernel, wires[0], "worker", 1_000_000)
            await half_sent(kernel, wires[1], "worker", 1_000_000)
            long = {"to": "alice", "text": "x" * 200_000}
            assert (await kernel.ask("POST", "/messages", long)).status == 202


@pytest.mark.parametrize(
    ("path", "token", "status"), [("/messages", "wrong", b"401"), ("/messages", "", b"401"), ("/health", "", b"400")]
)
async def test_bodies_without_a_valid_token_are_not_waited_for(
    kernel: ServedKernel, path: str, token: str, status: bytes
) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: {kernel.host}\r\nAuthorization: Bearer {token}\r\n"
    with trio.fail_after(5):
        async with connected(kernel.port) as wire:
            await wire.stream.send_all(f"{head}Content-Length: {BODY_LIMIT_BYTES}\r\n\r\nx".encode())
            assert (await wire.stream.receive_some(100)).startswith(b"HTTP/1.1 " + status)
