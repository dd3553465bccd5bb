"""The bridge, as the MCP SDK's own stdio client sees it: the real Daemon MCP, without its address or token."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from tests.builders.api import TOKEN, ServedKernel, serve_kernel
from tests.kernel.api.mcp.rpc import call as call_tool
from tests.worker.fake_daemon import FakeDaemon
from worker.backends.private_files import write
from worker.mcp_bridge import Bridge, BridgeConfig

SECONDS = 15


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[ServedKernel]:
    """A served kernel, whose alice is at work with the token ``worker-token``."""
    async with serve_kernel(tmp_path / "kernel") as built:
        await built.attempt()
        yield built


def mark(folder: Path) -> Path:
    """The file by which a worker learns that its program is connected."""
    return folder / "listed"


def key_file(url: str, folder: Path, token: str = "worker-token") -> Path:
    """What a program's bridge is told, as a worker writes it."""
    return write(
        folder / "daemon.json", msgspec.json.encode(BridgeConfig(url=url, token=token, mark=str(mark(folder)))).decode()
    )


@asynccontextmanager
async def client(url: str, folder: Path, mode: str = "auto", token: str = "worker-token") -> AsyncGenerator[Client]:
    """The SDK's client, connected to a bridge that it started itself."""
    file = key_file(url, folder, token)
    server = StdioServerParameters(command=sys.executable, args=["-I", "-m", "worker.mcp_bridge", str(file)], env={})
    with trio.fail_after(SECONDS):
        async with Client(stdio_client(server), mode=mode) as connected:
            yield connected


@pytest.mark.parametrize("mode", ["2026-07-28", "auto", "legacy"])
async def test_a_stdio_client_has_the_kernels_tools(kernel: ServedKernel, tmp_path: Path, mode: str) -> None:
    async with client(f"http://{kernel.host}/mcp", tmp_path, mode) as mcp:
        assert not mark(tmp_path).exists()
        tools = (await mcp.list_tools()).tools
        assert mark(tmp_path).exists()
        sent = await mcp.call_tool("channel_send", {"message": f"in {mode}"})
        read = await mcp.call_tool("channel_read", {})
        wrong = await mcp.call_tool("channel_send", {"message": 7})
    assert "memory_read" in {tool.name for tool in tools}
    assert not sent.is_error
    assert read.structured_content is not None
    assert read.structured_content["messages"][-1]["text"] == f"in {mode}"
    assert wrong.is_error


async def test_a_token_that_is_void_connects_nobody(kernel: ServedKernel, tmp_path: Path) -> None:
    async with client(f"http://{kernel.host}/mcp", tmp_path, "2026-07-28", token="yesterday's") as mcp:
        with pytest.raises(MCPError, match="unauthorized"):
            await mcp.list_tools()
    assert not mark(tmp_path).exists()


class Wire:
    """A bridge in this process, spoken to line by line."""

    def __init__(self, url: str, token: str, *, listens: bool = False) -> None:
        self.requests, self._in = trio.testing.memory_stream_one_way_pair()
        self._out, self.answers = trio.testing.memory_stream_one_way_pair()
        self.listed = 0
        key = BridgeConfig(url=url, token=token, mark="")
        self.bridge = Bridge(key, "origin", self._out, self._note, listens=listens)
        self._heard = b""

    def _note(self) -> None:
        self.listed += 1

    async def serve(self) -> None:
        await self.bridge.serve(self._in)
        await self._out.aclose()

    async def tell(self, *messages: dict[str, Any]) -> None:
        """Send messages, each on a line of its own."""
        await self.requests.send_all(b"".join(msgspec.json.encode(one) + b"\n" for one in messages))

    async def hear(self, count: int) -> dict[Any, dict[str, Any]]:
        """The next ``count`` answers, by their ids."""
        data = b""
        while data.count(b"\n") < count:
            data += bytes(await self.answers.receive_some())
        return {one["id"]: one for one in map(msgspec.json.decode, data.splitlines())}

    async def next(self) -> dict[str, Any]:
        while b"\n" not in self._heard:
            self._heard += bytes(await self.answers.receive_some())
        line, _, self._heard = self._heard.partition(b"\n")
        decoded: dict[str, Any] = msgspec.json.decode(line)
        return decoded


@asynccontextmanager
async def wire(daemon: FakeDaemon) -> AsyncGenerator[Wire]:
    """A bridge at work; leaving ends its input and sees it end."""
    async with bridging(Wire(daemon.url, daemon.token)) as made:
        yield made


@asynccontextmanager
async def bridging(made: Wire) -> AsyncGenerator[Wire]:
    """``made`` at work; leaving ends its input and sees it end."""
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.serve)
            yield made
            await made.requests.aclose()


def call(id_: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def test_a_call_that_waits_holds_nobody_up(daemon: FakeDaemon) -> None:
    async with wire(daemon) as bridge:
        await bridge.tell(call(1, "hang"), call(2, "channel_send", message="meanwhile"))
        assert (await bridge.hear(1))[2]["result"]["isError"] is False
        await bridge.tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await bridge.tell(call(3, "channel_send", message="after"))
        assert set(await bridge.hear(1)) == {3}
    assert daemon.said == ["meanwhile", "after"]


@pytest.mark.promise("P4")
async def test_an_answer_that_is_lost_is_asked_for_again_and_the_call_happens_once(daemon: FakeDaemon) -> None:
    daemon.refuse = [503]
    async with wire(daemon) as bridge:
        await bridge.tell(call(1, "channel_send", message="once"))
        assert (await bridge.hear(1))[1]["result"]["isError"] is False
        await bridge.tell(call(2, "channel_send", message="once"))
        assert (await bridge.hear(1))[2]["result"]["isError"] is False
    assert daemon.said == ["once", "once"]
    assert daemon.keys == ["sending.origin.1", "sending.origin.2"]


HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}


@pytest.mark.parametrize("end", [b"\n", b""])
async def test_what_was_asked_before_the_input_ended_is_answered(
    kernel: ServedKernel, tmp_path: Path, end: bytes
) -> None:
    file = key_file(f"http://{kernel.host}/mcp", tmp_path)
    asked = b"\n".join(map(msgspec.json.encode, (HELLO, call(2, "channel_send", message="piped")))) + end
    command = [sys.executable, "-I", "-m", "worker.mcp_bridge", str(file), "--listen"]
    with trio.fail_after(SECONDS):
        ran = await trio.run_process(command, stdin=asked, capture_stdout=True, env={})
    answers = {one["id"]: one["result"] for one in map(msgspec.json.decode, ran.stdout.splitlines())}
    assert (answers[1]["protocolVersion"], answers[2]["isError"]) == ("2025-11-25", False)


async def test_a_stream_does_not_outlive_the_input(kernel: ServedKernel) -> None:
    bridge = Wire(f"http://{kernel.host}", TOKEN, listens=True)
    async with bridging(bridge):
        await bridge.tell(HELLO)
        await bridge.next()
        await bridge.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await call_tool(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
        assert (await bridge.next())["method"] == "notifications/needs"
    assert await bridge.answers.receive_some() == b""


async def test_what_is_no_request_is_passed_over(daemon: FakeDaemon) -> None:
    async with wire(daemon) as bridge:
        await bridge.requests.send_all(b"Traceback:\n\xff\n[1]\n\n" + b'{"jsonrpc":"2.0","method":"notifications/x"}\n')
        await bridge.tell(
            {"jsonrpc": "2.0", "id": "a", "method": "no/such/method"}, call(2, "channel_send", message="x")
        )
        answers = await bridge.hear(2)
    assert "error" in answers["a"]
    assert answers[2]["result"]["isError"] is False
    assert bridge.listed == 0


async def test_a_kernel_that_is_gone_is_said(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.daemon_mcp.RETRY_SECONDS", (0.0,))
    daemon.refuse = [503, 503]
    async with wire(daemon) as bridge:
        await bridge.tell(call(1, "channel_send", message="x"))
        assert "cannot be reached" in (await bridge.hear(1))[1]["error"]["message"]


@pytest.mark.promise("P58")
async def test_what_the_kernel_pushes_is_passed_on(kernel: ServedKernel) -> None:
    async with bridging(Wire(f"http://{kernel.host}", TOKEN, listens=True)) as bridge:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        await bridge.tell({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        assert (await bridge.next())["result"]["protocolVersion"] == "2025-11-25"
        await bridge.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await call_tool(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
        told = await bridge.next()
    assert (told["method"], told["params"]["total"]) == ("notifications/needs", 1)


@pytest.mark.promise("P58")
async def test_a_client_of_the_newest_revision_listens_over_the_bridge(kernel: ServedKernel) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    wanted = {"_meta": meta, "notifications": {"agent-worker": {"needs": True}}}
    async with bridging(Wire(f"http://{kernel.host}", TOKEN, listens=True)) as bridge:
        for id_ in ("a", "b"):
            await bridge.tell({"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": wanted})
            assert (await bridge.next())["method"] == "notifications/subscriptions/acknowledged"
        await bridge.tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}})
        await call_tool(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
        told = await bridge.next()
        assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "b"}
        kernel.services.kernel.shutdown.closing.set()
        assert (await bridge.next())["id"] == "b"
    async with bridging(Wire("http://127.0.0.1:9", TOKEN, listens=True)) as nowhere:
        await nowhere.tell({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": wanted})
        assert "subscribe again" in (await nowhere.next())["error"]["message"]
