"""The server's beginning, its bad clients, and its end."""

import logging
from pathlib import Path

import pytest
import trio

from kernel.api import server
from tests.builders.api import ServedKernel, serve_kernel
from tests.kernel.api.client import connected
from tests.kernel.api.test_events import say, say_much, watching

pytestmark = pytest.mark.promise("P8", "P9", "HF11")


async def test_streams_say_goodbye_and_the_server_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "GRACE_SECONDS", 300)
    caplog.set_level(logging.WARNING)
    async with serve_kernel(tmp_path) as kernel, connected(kernel.port) as idle, watching(kernel) as (_, events):
        await idle.send("GET", "/health", kernel.headers().items(), b"")
        await idle.answer()
        kernel.services.kernel.shutdown.closing.set()
        with trio.fail_after(30):
            assert [event.event async for event in events] == ["bye"]
            assert await idle.stream.receive_some(1) == b""
            await kernel.served.wait()
    assert caplog.text == ""


async def test_a_client_that_does_not_read_cannot_keep_the_server_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "GRACE_SECONDS", 0.2)
    caplog.set_level(logging.WARNING)
    async with serve_kernel(tmp_path) as kernel:
        await say(kernel, "x" * 250_000)
        await say_much(kernel)  # before there is a connection: one that asks nothing for long is closed
        async with connected(kernel.port) as wire:
            await wire.send("GET", "/events?since=0", kernel.headers().items(), b"")
            await wire.event()
            kernel.services.kernel.shutdown.closing.set()
            with trio.fail_after(5):
                await kernel.served.wait()
    assert caplog.text == ""


async def test_a_kept_connection_serves_many_requests(kernel: ServedKernel) -> None:
    async with connected(kernel.port) as wire:
        for _ in range(60):
            await wire.send("GET", "/health", kernel.headers().items(), b"")
            assert (await wire.answer()).status == 200
            wire.h11.start_next_cycle()


async def test_many_slow_clients_do_not_hold_up_the_others(kernel: ServedKernel) -> None:
    """200 connections that never finish their headers."""
    async with trio.open_nursery() as nursery:

        async def dawdle(*, task_status: trio.TaskStatus[None]) -> None:
            async with connected(kernel.port) as wire:
                await wire.stream.send_all(b"GET / HTTP/1.1\r\nX: ")
                task_status.started()
                await trio.sleep_forever()

        for _ in range(200):
            await nursery.start(dawdle)
        with trio.fail_after(5):
            assert (await kernel.ask("GET", "/health")).status == 200
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"\r\n" * 50_000,
        b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
        b"POST /messages HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
)
async def test_noise_on_the_wire_ends_that_connection_only(kernel: ServedKernel, noise: bytes) -> None:
    """What is no HTTP is answered 4xx or closed; the next client is served."""
    async with connected(kernel.port) as wire:
        with trio.fail_after(5):
            try:
                await wire.stream.send_all(noise)
                await wire.stream.send_eof()
                while received := await wire.stream.receive_some(65536):
                    assert not received.startswith(b"HTTP/1.1 500")
            except trio.BrokenResourceError:
                pass
    assert (await kernel.ask("GET", "/health")).status == 200


async def test_a_cancelled_server_lets_go_at_once(tmp_path: Path) -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            ready = trio.Event()

            async def live() -> None:
                async with serve_kernel(tmp_path) as kernel, watching(kernel) as (_, events):
                    ready.set()
                    await anext(events)

            nursery.start_soon(live)
            await ready.wait()
            nursery.cancel_scope.cancel()
