"""Bad JSON-RPC, wrong types, unknown tools, old and unknown revisions: spec errors, never a 5xx."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
import trio
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from kernel.api.mcp import endpoint
from kernel.api.mcp.calls import ToolDispatcher
from kernel.api.mcp.tools import TOOLS
from kernel.operations.operation import Actor
from kernel.store.attempts import Identity
from protocol.message import RESOURCE_LIMIT_BYTES
from protocol.names import AgentKey, AgentName, InstructionId, SpaceId
from tests.builders.api import ServedKernel
from tests.kernel.api.client import meanwhile
from tests.kernel.api.mcp.rpc import ENVELOPE, call, call_of, content, post

pytestmark = pytest.mark.promise("HF17", "HF18", "HF19")

BAD_BODIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"7",
    b'"x"',
    b"\xff",
    b"[" * 100_000,
    b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
    b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}',
    b'{"id": 1, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": 7}',
    b'{"jsonrpc": "2.0", "id": 1}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "tools/list"}',
]


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25", "2024-11-05", "2099-01-01", None])
async def test_bad_json_rpc_is_an_error_of_the_protocol(kernel: ServedKernel, revision: str | None) -> None:
    await kernel.attempt()
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if revision is not None:
        headers["MCP-Protocol-Version"] = revision
    for data in BAD_BODIES:
        answer = await kernel.ask("POST", "/mcp", raw=data, headers=kernel.headers("worker-token") | headers)
        assert 200 <= answer.status < 500, data[:100]
        assert answer.status == 202 or "error" in answer.json, data[:100]
        assert "Traceback" not in answer.body.decode()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("channel_send", {}),
        ("channel_send", {"message": 7}),
        ("channel_send", {"message": ""}),
        ("channel_send", {"message": "x", "to": "bob"}),
        ("channel_send", {"message": None}),
        ("channel_send", {"message": "\ud800"}),
        ("channel_read", {"limit": "many"}),
        ("channel_read", {"limit": 0}),
        ("channel_read", {"limit": 10**9}),
        ("channel_read", {"since": -1}),
        ("my_inbox", {"agent": "bob"}),
        ("my_inbox_ack", {}),
        ("my_inbox_ack", {"ids": []}),
        ("my_inbox_ack", {"ids": ["nonsense"]}),
        ("my_inbox_ack", {"ids": ["m1"] * 201}),
        ("team_members", {"include_status": "yes"}),
    ],
)
async def test_wrong_arguments_are_a_result_that_says_what_is_wrong(
    kernel: ServedKernel, tool: str, arguments: Any
) -> None:
    await kernel.attempt(text="work")
    data = json.dumps(call_of(tool, arguments)).encode()
    headers = {"Accept": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    fields = kernel.headers("worker-token") | headers | {"Mcp-Name": tool}
    answer = await kernel.ask("POST", "/mcp", raw=data, headers=fields)
    assert answer.status == 200
    result = answer.json["result"]
    assert (result["isError"], result["structuredContent"]["code"]) == (True, "bad_request")
    channel = (await kernel.get("/spaces/dm:alice/channel"))["messages"]
    assert [message["text"] for message in channel] == ["work"]


@pytest.mark.promise("XF15", "HF05")
@pytest.mark.parametrize("name", ["agents_delete", "shutdown", "", "channel_send ", "x" * 100_000, "__class__"])
async def test_a_tool_that_is_not_there_is_invalid_params(kernel: ServedKernel, name: str) -> None:
    await kernel.attempt()
    answer = await post(kernel, call_of(name, {}), Mcp_Name=name[:1000].strip() or "-")
    assert answer.status == 400
    assert answer.json["error"]["code"] in (-32602, -32020)
    assert len(answer.body) < 1000


async def test_a_long_message_is_taken_whole_or_refused(kernel: ServedKernel) -> None:
    await kernel.attempt()
    text = "é" * (RESOURCE_LIMIT_BYTES // 2)
    assert (await call(kernel, "channel_send", {"message": text}))["isError"] is False
    said = (await content(kernel, "channel_read", {"limit": 1}))["messages"][0]["text"]
    name = said.rpartition("resource:")[2].partition(";")[0]
    whole = (await kernel.get(f"/resources/{name}"))["content"]
    assert whole == text
    refused = await call(kernel, "channel_send", {"message": text + "!"})
    assert (refused["isError"], "too_large" in str(refused)) == (True, True)


async def test_a_revision_we_do_not_speak_is_refused_with_those_we_do(kernel: ServedKernel) -> None:
    await kernel.attempt()
    body = call_of("team_members", {})
    body["params"]["_meta"] = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    answer = await post(kernel, body, MCP_Protocol_Version="2099-01-01")
    assert answer.status == 400
    assert "2026-07-28" in answer.json["error"]["data"]["supported"]


@pytest.mark.parametrize(
    "headers", [{"Mcp_Method": "tools/list"}, {"Mcp_Name": "channel_send"}, {"MCP_Protocol_Version": "2099-01-01"}]
)
async def test_headers_that_contradict_the_body_are_refused(kernel: ServedKernel, headers: dict[str, str]) -> None:
    await kernel.attempt()
    answer = await post(kernel, call_of("team_members", {}), **headers)
    assert answer.status == 400
    assert "error" in answer.json


@pytest.mark.promise("P17")
async def test_a_body_that_is_not_json_by_its_type_is_refused(kernel: ServedKernel) -> None:
    await kernel.attempt()
    answer = await post(kernel, call_of("channel_send", {"message": "x"}), Content_Type="text/plain")
    assert answer.refusal == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"arguments": {"message": ""}},
        {"arguments": {"message": "hello @alice"}, "name": "channel_send"},
        {"arguments": None},
        {"name": "nosuch"},
        {"name": "n" * 200, "arguments": None},
    ],
)
async def test_the_fast_path_and_the_sdk_give_the_same_answer(kernel: ServedKernel, change: dict[str, Any]) -> None:
    await kernel.attempt()
    body = call_of("team_members", {"include_status": True})
    body["params"] |= change
    body = {**body, "params": {key: value for key, value in body["params"].items() if value is not None}}
    if body["params"]["name"] == "channel_send":
        body["params"]["_meta"] = body["params"]["_meta"] | {"agent-worker/call": "same"}
    short = await post(kernel, body)
    longer = {**body, "params": body["params"] | {"_meta": body["params"]["_meta"] | {"progressToken": 1}}}
    sdk = await post(kernel, longer)
    assert short.status == sdk.status == (200 if body["params"]["name"] in TOOLS else 400)
    assert short.json == sdk.json
    assert short.headers["content-type"] == sdk.headers["content-type"]
    assert short.headers["cache-control"] == sdk.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
async def test_what_is_listed_is_the_same_both_ways(kernel: ServedKernel, method: str) -> None:
    await kernel.attempt()
    short = await post(kernel, {"jsonrpc": "2.0", "id": "a", "method": method, "params": {"_meta": ENVELOPE}})
    longer = {"_meta": ENVELOPE | {"progressToken": 1}}
    sdk = await post(kernel, {"jsonrpc": "2.0", "id": "a", "method": method, "params": longer})
    assert short.status == sdk.status == 200
    assert short.json == sdk.json


ALICE = Identity(
    agent=AgentKey("alice"), name=AgentName("alice"), space=SpaceId("dm:alice"), instruction=InstructionId("i1"),
    epoch=1, live=True,
)  # fmt: skip
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "cli", "version": "1"}}


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "ping"},
        {"id": "list", "method": "tools/list"},
        {"id": "list", "method": "tools/list", "params": {}},
        {"id": 2, "method": "tools/call", "params": {"name": "team_members", "arguments": {}}},
        {"id": 2, "method": "tools/call", "params": {"name": "channel_read", "arguments": {"limit": "x"}}},
        {"id": 2, "method": "tools/call", "params": {"name": "nosuch"}},
    ],
    ids=lambda message: str(message["method"]),
)
async def test_plain_requests_of_the_handshake_revisions_are_the_same_both_ways(
    kernel: ServedKernel, message: dict[str, Any]
) -> None:
    await kernel.attempt()
    headers = kernel.headers("worker-token") | {"Accept": "application/json, text/event-stream"}
    for revision in (None, *HANDSHAKE_PROTOCOL_VERSIONS):
        body = {"jsonrpc": "2.0", **message}
        named = {} if revision is None else {"MCP-Protocol-Version": revision}
        if revision is not None and message["method"] == "initialize":
            body["params"] = {**HELLO, "protocolVersion": revision}
        short = await kernel.ask("POST", "/mcp", body, headers=headers | named)
        sdk = await kernel.ask("POST", "/mcp", {**body, "more": "than plain"}, headers=headers | named)
        assert (short.status, short.body and short.json) == (sdk.status, sdk.body and sdk.json)
        assert short.headers["content-type"] == sdk.headers["content-type"]


async def test_a_tool_that_is_not_there_is_told_without_the_sdk(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "load_sdk", None)
    await kernel.attempt()
    modern = await post(kernel, call_of("nosuch", {}))
    older = kernel.headers("worker-token") | {"Accept": "application/json", "MCP-Protocol-Version": "2025-06-18"}
    params = {"name": "nosuch", "arguments": {}, "_meta": {"progressToken": 1}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    greeted = await kernel.ask("POST", "/mcp", body, headers=older)
    assert [answer.json["error"]["message"] for answer in (modern, greeted)] == ["Unknown tool: nosuch"] * 2


def test_the_sdk_is_not_imported_before_a_request_needs_it() -> None:
    code = "import sys, kernel.app; print([name for name in ('mcp', 'mcp_types', 'quart') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


async def test_a_call_under_way_is_answered_when_the_kernel_stops(kernel: ServedKernel) -> None:
    started = trio.Event()

    async def hang(**_: object) -> Any:
        started.set()
        await trio.sleep_forever()

    look = TOOLS["my_inbox"]
    stuck = msgspec.structs.replace(look, row=msgspec.structs.replace(look.row, handler=hang))
    calls = ToolDispatcher(kernel.services)
    with trio.fail_after(5):
        async with meanwhile(calls.call, stuck, Actor(identity=ALICE), {}) as answers:
            await started.wait()
            await calls.fail_after(0.01)
    assert [(answer.is_error, b"stopping" in answer.body) for answer in answers] == [(True, True)]
