"""Bodies of 50 MB pass both ways in constant memory, and the model is found in them wherever it is."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import h11
import pytest
import trio

from tests.kernel.gateway.scripted import PATHS, Door, Hit, Line, credential, upstream

MIB = 1024 * 1024
PARTS = 50


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_kib() -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


async def document(*, model_first: bool) -> AsyncIterator[bytes]:
    yield b'{"model": "m1", "x": "' if model_first else b'{"x": "'
    for _ in range(PARTS):
        for _ in range(16):
            yield b"A" * (MIB // 16)
    yield b'"}' if model_first else b'", "model": "m1"}'


@pytest.mark.parametrize("model_first", [True, False])
async def test_a_large_request_and_a_large_response_use_constant_memory(door: Door, model_first: bool) -> None:
    async def script(line: Line, _hit: Hit) -> None:
        await line.begin()
        for _ in range(PARTS * 16):
            await line.send(h11.Data(data=b"data: " + b"B" * (MIB // 16 - 8) + b"\n\n"))
        await line.send(h11.EndOfMessage())

    async with upstream(script) as provider, door.client() as client:
        placeholder = door.admit(provider.url)
        assert (await door.ask(placeholder)).status_code == 200  # imports the HTTP client
        forget_peak()
        before, received = peak_kib(), 0
        headers: Any = credential("anthropic", placeholder)
        with trio.fail_after(60):
            content = document(model_first=model_first)
            asked = client.stream("POST", PATHS["anthropic"], headers=headers, content=content)
            async with asked as answer:
                assert answer.status_code == 200
                async for piece in answer.aiter_raw():
                    received += len(piece)
        grown = peak_kib() - before
    assert received == PARTS * MIB
    assert provider.hits[1].size > PARTS * MIB and "content-length" in provider.hits[1].fields
    assert grown < 16 * 1024


async def test_a_client_that_reads_slowly_slows_the_provider_down(door: Door) -> None:
    sent = 0

    async def script(line: Line, _hit: Hit) -> None:
        nonlocal sent
        await line.begin()
        while True:
            await line.send(h11.Data(data=b"x" * MIB))
            sent += 1

    async with upstream(script) as provider, door.client() as client:
        headers = credential("anthropic", door.admit(provider.url))
        async with client.stream("POST", PATHS["anthropic"], headers=headers, json={"model": "m1"}):
            await trio.testing.wait_all_tasks_blocked(0.1)
            assert sent < 32
