"""Through a node only attempts that were leased to it come in, and only to their tools."""

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from kernel.store.agents import AgentSpec, put_agents
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from kernel.store.transitions.lease import lease
from protocol.names import AgentKey
from tests.builders.api import TOKEN, ServedKernel
from tests.kernel.api.client import Answer, Wire
from tests.kernel.services.kernel_core import Core

pytestmark = pytest.mark.promise("P88", "P10")

LIST = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})


@asynccontextmanager
async def through(kernel: ServedKernel, node: str) -> AsyncGenerator[Wire]:
    """A connection that a node carries."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.services.nodes.door.enter, node, theirs)
        yield Wire(ours)  # type: ignore[arg-type]
        await ours.aclose()


async def ask(
    kernel: ServedKernel,
    node: str,
    token: str | None,
    method: str = "POST",
    path: str = "/mcp",
    more: Mapping[str, str] | None = None,
) -> Answer:
    """One request through ``node``."""
    fields = {"Host": "127.0.0.1:4711", "Accept": "application/json, text/event-stream", **(more or {})}
    if token is not None:
        fields["Authorization"] = f"Bearer {token}"
    body = LIST if method == "POST" else b""
    if body:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    with trio.fail_after(10):
        async with through(kernel, node) as wire:
            await wire.send(method, path, fields.items(), body)
            return await wire.answer()


async def leased(kernel: ServedKernel, token: str, node: str) -> str:
    """An attempt of alice on ``node``."""
    writer = kernel.writer
    (instruction,) = (await writer.commit(append, Core.draft())).instruction_ids
    assert await writer.commit(lease, instruction, hashlib.sha256(token.encode()).digest(), node) is not None
    return instruction


async def test_an_attempt_on_a_node_reaches_its_tools_through_it(kernel: ServedKernel) -> None:
    await leased(kernel, "t1", "n1")
    answer = await ask(kernel, "n1", "t1")
    assert answer.status == 200
    assert "memory_read" in {tool["name"] for tool in answer.json["result"]["tools"]}


async def test_a_connection_is_kept_for_further_calls(kernel: ServedKernel) -> None:
    await leased(kernel, "t1", "n1")
    fields = {"Host": "localhost:1", "Authorization": "Bearer t1", "Content-Type": "application/json"}
    fields |= {"Content-Length": str(len(LIST)), "Accept": "application/json, text/event-stream"}
    with trio.fail_after(10):
        async with through(kernel, "n1") as wire:
            for _ in range(3):
                await wire.send("POST", "/mcp", fields.items(), LIST)
                assert (await wire.answer()).status == 200
                wire.h11.start_next_cycle()


@pytest.mark.parametrize(
    ("node", "token", "method", "path", "more"),
    [
        ("n2", "t1", "POST", "/mcp", {}),
        ("n1", "here", "POST", "/mcp", {}),
        ("n1", TOKEN, "POST", "/mcp", {}),
        ("n1", TOKEN, "GET", "/ps", {}),
        ("n1", "nobody's", "POST", "/mcp", {}),
        ("n1", None, "POST", "/mcp", {}),
        ("n1", None, "GET", "/health", {}),
        ("n1", None, "GET", "/", {}),
        ("n1", None, "POST", "/call", {}),
        ("n1", "t1", "GET", "/mcp", {}),
        ("n1", "t1", "GET", "/instructions/i1", {}),
        ("n1", "t1", "POST", "/messages", {}),
        ("n1", "t1", "POST", "/mcp", {"Origin": "http://127.0.0.1:4711"}),
        ("n1", "t1", "GET", "/ws", {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }),
    ],
)  # fmt: skip
async def test_everything_else_is_forbidden_there(
    kernel: ServedKernel, node: str, token: str | None, method: str, path: str, more: dict[str, str]
) -> None:
    await leased(kernel, "t1", "n1")
    bob = AgentSpec(key=AgentKey("bob"), origin="file", definition=b'{"model":"mock/m"}')
    await kernel.writer.commit(put_agents, [bob])
    here = await kernel.writer.commit(append, Core.draft_to("bob"))
    await kernel.lease(here.instruction_ids[0], "here")
    answer = await ask(kernel, node, token, method, path, more)
    assert answer.refusal == (403, "forbidden")


async def test_a_token_of_a_node_opens_nothing_once_its_attempt_has_ended(kernel: ServedKernel) -> None:
    instruction = await leased(kernel, "t1", "n1")
    await kernel.writer.commit(close, instruction, 1, status="done", text="")
    assert (await ask(kernel, "n1", "t1")).status == 403


async def test_connections_of_a_node_take_the_place_of_its_own_alone(kernel: ServedKernel) -> None:
    doors = kernel.services.nodes.door
    async with trio.open_nursery() as nursery:
        ends = []
        for _ in range(100):
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(doors.enter, "n1", theirs)
            ends.append(ours)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await kernel.ask("GET", "/health", headers=kernel.headers(None))).status == 200
        await leased(kernel, "t2", "n2")
        assert (await ask(kernel, "n2", "t2")).status == 200
        for one in ends:
            await one.aclose()
