"""Daemon MCP as a worker speaks it, against the real SDK's server."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trio.testing

from protocol.ipc import Json, ToolCall
from tests.worker.conftest import fails
from tests.worker.fake_daemon import FakeDaemon
from worker.conversation import TOOL_RESULT_LIMIT_BYTES
from worker.daemon_mcp import DaemonMcp
from worker.io.trio_io import TrioIO
from worker.tool import ToolRunners


@pytest.fixture
async def client(daemon: FakeDaemon) -> AsyncIterator[DaemonMcp]:
    made = DaemonMcp(daemon.url, "token", TrioIO())
    yield made
    await made.aclose()


async def test_tools_are_listed_once(client: DaemonMcp, daemon: FakeDaemon) -> None:
    first, again = await client.tools(), await client.tools()
    assert [tool.name for tool in first] == ["channel_send", "big", "hang", "auth_request"]
    assert again == first
    assert daemon.methods == ["tools/list"]


@pytest.mark.promise("P4")
async def test_a_call_is_repeated_with_its_key_when_its_answer_was_lost(client: DaemonMcp, daemon: FakeDaemon) -> None:
    """The effect is there once, whatever was lost; 503 is a kernel that is busy, not one that refuses."""
    assert (await client.run("channel_send", {"message": "a"}, "k1")).text == "said 1"
    daemon.refuse = [503, 503]
    assert (await client.run("channel_send", {"message": "a"}, "k1")).text == "said 1"
    assert (await client.run("channel_send", {"message": "a"}, "k2")).text == "said 2"
    assert daemon.said == ["a", "a"]


async def test_a_connection_that_was_closed_is_made_again() -> None:
    connections: list[int] = []

    async def answer_once(stream: trio.SocketStream) -> None:
        connections.append(len(connections))
        await _read_request(stream)
        body = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok"}]}}'
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, answer_once, 0, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        client = DaemonMcp(f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp", "token", TrioIO())
        with trio.fail_after(5):
            texts = [(await client.run("any", {}, key)).text for key in ("k1", "k2", "k3")]
        await client.aclose()
        nursery.cancel_scope.cancel()
    assert texts == ["ok", "ok", "ok"]
    assert len(connections) == 3


async def _read_request(stream: trio.SocketStream) -> None:
    head, rest = b"", b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive_some()
    head, _, rest = head.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(rest) < int(lengths[0]):
        rest += await stream.receive_some()


@pytest.mark.promise("HF06", "HF07")
async def test_a_token_that_is_over_ends_the_attempt(daemon: FakeDaemon) -> None:
    client = DaemonMcp(daemon.url, "another", TrioIO())
    with fails("cancelled"):
        await client.run("channel_send", {"message": "a"}, "k1")
    await client.aclose()
    assert daemon.said == []


async def test_a_kernel_out_of_reach_is_a_network_failure(autojump_clock: trio.testing.MockClock) -> None:
    client = DaemonMcp("http://127.0.0.1:9/mcp", "token", TrioIO())
    with fails("network"):
        await client.tools()


@pytest.mark.parametrize("status", [413, 403, 400, 500])
async def test_what_the_kernel_refuses_is_a_result(client: DaemonMcp, daemon: FakeDaemon, status: int) -> None:
    """contracts 5: errors are results with a code, never a broken stream."""
    daemon.refuse, daemon.refusal = [status], "too_large"
    outcome = await client.run("channel_send", {"message": "a"}, "k1")
    assert (outcome.text, outcome.is_error) == ("too_large: not now", True)


@pytest.mark.promise("HF18")
async def test_wrong_arguments_are_a_result(client: DaemonMcp) -> None:
    assert (await client.run("channel_send", {}, "k1")).is_error


@pytest.mark.promise("P10")
async def test_a_big_result_is_shortened(client: DaemonMcp) -> None:
    hands = ToolRunners(kernel=client, own={}, seconds=5, waits=TrioIO())
    outcome = await hands.run(ToolCall(id="1", name="big", args=Json(b'{"size": 400000}')), "k")
    assert len(outcome.text) < TOOL_RESULT_LIMIT_BYTES
    assert "characters left out" in outcome.text


async def test_a_tool_that_never_answers_is_given_up(client: DaemonMcp) -> None:
    hands = ToolRunners(kernel=client, own={}, seconds=0.2, waits=TrioIO())
    with trio.fail_after(5):
        outcome = await hands.run(ToolCall(id="1", name="hang"), "k")
    assert outcome.is_error
    assert "outcome is unknown" in outcome.text
