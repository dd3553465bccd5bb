"""How long a client is waited for, in seconds as they are.

The clock stands still but where a test moves it, so nobody waits and a machine under load changes nothing.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.builders.api import TOKEN, ServedKernel, serve_kernel
from tests.kernel.api.client import Wire, connected
from tests.kernel.api.test_events import say_much

pytestmark = pytest.mark.promise("HF09", "HF11", "P10")


@pytest.fixture
async def still(tmp_path: Path, mock_clock: MockClock) -> AsyncGenerator[ServedKernel]:
    """A kernel whose clock stands still. To end, it runs again: an end has deadlines too."""
    async with serve_kernel(tmp_path) as built:
        try:
            yield built
        finally:
            mock_clock.rate = 1.0


async def later(clock: MockClock, seconds: float) -> None:
    """Let the kernel take what was sent, move the clock, and let the kernel do what was due."""
    await wait_all_tasks_blocked(0.02)
    clock.jump(seconds)
    await wait_all_tasks_blocked(0.02)


def is_open(wire: Wire) -> bool:
    """Nothing has come from the server yet, an end neither."""
    try:
        wire.stream.socket._sock.recv(1)  # type: ignore[attr-defined]  # pyright: ignore
    except BlockingIOError:
        return True
    return False


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
async def test_a_head_has_ten_seconds(still: ServedKernel, mock_clock: MockClock, sent: bytes) -> None:
    async with connected(still.port) as wire:
        await wire.stream.send_all(sent)
        await later(mock_clock, 9)
        assert is_open(wire)
        await wire.stream.send_all(b"X")
        await later(mock_clock, 2)
        assert not is_open(wire)


async def test_a_body_has_thirty_seconds(still: ServedKernel, mock_clock: MockClock) -> None:
    head = (
        f"POST /messages HTTP/1.1\r\nHost: {still.host}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n"
    )
    async with connected(still.port) as wire:
        await wire.stream.send_all(head.encode())
        await later(mock_clock, 29)
        assert is_open(wire)
        await wire.stream.send_all(b"x")
        await later(mock_clock, 2)
        assert not is_open(wire)
        assert (await wire.stream.receive_some(100)).startswith(b"TTP/1.1 400 ")


async def test_between_requests_a_connection_may_be_idle_for_a_minute(
    still: ServedKernel, mock_clock: MockClock
) -> None:
    async with connected(still.port) as idle, connected(still.port) as begun:
        for wire in (idle, begun):
            await wire.send("GET", "/health", still.headers().items(), b"")
            await wire.answer()
        await later(mock_clock, 60)
        assert is_open(idle)
        await begun.stream.send_all(b"GET ")
        await later(mock_clock, 11)
        assert not is_open(begun)
        assert is_open(idle)
        await later(mock_clock, 10)
        assert not is_open(idle)


async def test_who_does_not_read_is_dropped_within_twenty_seconds(still: ServedKernel, mock_clock: MockClock) -> None:
    subscriptions = still.feed._subscriptions  # pyright: ignore[reportPrivateUsage]
    await say_much(still)
    async with connected(still.port) as wire:
        await wire.send("GET", "/events?since=0", still.headers().items(), b"")
        await wire.event()
        while not subscriptions:
            await wait_all_tasks_blocked(0.02)
        for _ in range(20):  # whenever in there it began to wait for the client
            await later(mock_clock, 1)
        assert not subscriptions
