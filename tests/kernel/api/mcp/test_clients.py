"""The SDK's own client, in the modern revision and in the handshake ones (contracts 5)."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.extension import ClientExtension
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from kernel.policy.tools import LONE
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call

MODES = ["2026-07-28", "auto", "legacy"]


@asynccontextmanager
async def client(
    kernel: ServedKernel, mode: str, token: str = "worker-token", extensions: Sequence[ClientExtension] = ()
) -> AsyncGenerator[Client, None]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, verify=False, trust_env=False) as http:
        transport = streamable_http_client(f"http://{kernel.host}/mcp", http_client=http)
        async with Client(transport, mode=mode, extensions=extensions) as connected:
            yield connected


@pytest.mark.parametrize("mode", MODES)
async def test_the_sdks_client_lists_and_calls_our_tools(kernel: ServedKernel, mode: str) -> None:
    await kernel.attempt()
    async with client(kernel, mode) as mcp:
        tools = (await mcp.list_tools()).tools
        sent = await mcp.call_tool("channel_send", {"message": f"in {mode}"})
        read = await mcp.call_tool("channel_read", {})
        wrong = await mcp.call_tool("channel_send", {"message": 7})
    assert {tool.name for tool in tools} == LONE | {"auth_request"}
    assert all(tool.annotations for tool in tools)
    assert [tool.name for tool in tools if not tool.output_schema] == ["auth_request"]
    assert not sent.is_error
    assert read.structured_content is not None
    assert read.structured_content["messages"][-1]["text"] == f"in {mode}"
    assert wrong.is_error


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_gives_what_its_schema_says(kernel: ServedKernel, mode: str) -> None:
    await kernel.attempt("alice@review")
    arguments: dict[str, dict[str, Any]] = {
        "ask_agent": {"agent": "bob", "query": "what?"},
        "auth_request": {"tool": "bash", "input": {"command": "ls"}, "wait_seconds": 0},
        "channel_send": {"message": "@bob hi"},
        "feedback_submit": {"text": "this was easy"},
        "memory_write": {"key": "auth", "value": "JWT", "tier": "core", "source": {"messages": [], "class": "agent"}},
        "memory_forget": {"key": "auth"},
        "memory_ask": {"agent": "bob", "query": "tokens"},
        "share_with": {"agent": "bob", "keys": ["shared"]},
        "soul_suggest": {"observation": "I name the risk"},
        "memory_recall": {"query": "auth"},
        "history_search": {"query": "work"},
        "history_read": {"limit": 5, "since": "2020-01-01"},
        "note_write": {"content": "Tokens expire.", "title": "Auth"},
        "todo_add": {"text": "Review PR 12"},
        "todo_done": {"id": 1},
        "my_inbox_ack": {"ids": ["m1"]},
        "my_status_set": {"task": "PR 12", "state": "reviewing", "metadata": {"file": "a.py"}},
        "handover_write": {"done": "all of a.py", "next": "b.py", "open": "what of c?", "files": ["a.py"]},
        "resource_create": {"content": "kept"},
        "resource_read": {"id": hashlib.sha256(b"review:main#1\0kept").hexdigest()[:20]},
        "team_proposal_create": {"type": "approval", "title": "Ship it?"},
        "team_doc_write": {"content": "a", "file": "a.md"},
        "team_doc_append": {"content": "b"},
        "team_doc_create": {"content": "c", "file": "c.md"},
        "team_doc_delete": {"file": "c.md", "if_version": 1},
        "team_doc_history": {"file": "c.md"},
        "team_doc_suggest": {"suggestion": "d"},
        "team_doc_accept": {"suggestion": "s2"},
        "team_doc_reject": {"suggestion": "s1"},
        "team_vote": {"proposal": "p1", "choice": "yes"},
        "team_proposal_cancel": {"proposal": "p1"},
        "team_task_plan": {"tasks": [{"title": "one"}, {"title": "two"}, {"title": "three"}]},
        "team_task_claim": {"task": "t1"},
        "team_task_done": {"task": "t1"},
        "team_task_fail": {"task": "t3", "reason": "it cannot be"},
        "team_task_split": {"task": "t2", "tasks": [{"title": "a part"}]},
    }
    await kernel.attempt("bob@review", token="bobs-token")
    await call(kernel, "team_doc_suggest", {"suggestion": "by bob", "file": "b.md"}, "bobs-token")
    await call(kernel, "team_doc_suggest", {"suggestion": "by bob", "file": "bb.md"}, "bobs-token")
    async with client(kernel, mode) as mcp:
        for tool in (await mcp.list_tools()).tools:
            if tool.name == "team_task_fail":  # it is for what is claimed
                await mcp.call_tool("team_task_claim", {"task": "t3"})
            if tool.name == "share_with":  # a private entry is not
                shared = {"key": "shared", "value": "JWT", "visibility": "shareable"}
                await mcp.call_tool("memory_write", shared)
            assert not (await mcp.call_tool(tool.name, arguments.get(tool.name, {}))).is_error, tool.name


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_every_handshake_revision_is_spoken(kernel: ServedKernel, revision: str) -> None:
    await kernel.attempt()
    headers = kernel.headers("worker-token") | {"Accept": "application/json, text/event-stream"}
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "cli", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = await kernel.ask("POST", "/mcp", hello, headers=headers)
    assert answer.json["result"]["protocolVersion"] == revision
    assert "mcp-session-id" not in answer.headers
    headers["MCP-Protocol-Version"] = revision
    ready = await kernel.ask("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    assert ready.status == 202
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "team_members", "arguments": {}}}
    result = await kernel.ask("POST", "/mcp", asked, headers=headers)
    assert (result.status, result.json["result"]["isError"]) == (200, False)


@pytest.mark.promise("HF06")
@pytest.mark.parametrize("mode", MODES)
async def test_a_client_is_shut_out_the_moment_its_attempt_ends(kernel: ServedKernel, mode: str) -> None:
    instruction = await kernel.attempt()
    async with client(kernel, mode) as mcp:
        assert not (await mcp.call_tool("team_members", {})).is_error
        await kernel.end(instruction)
        with pytest.raises(MCPError):
            await mcp.call_tool("channel_send", {"message": "too late"})
    channel = (await kernel.get("/spaces/dm:alice/channel"))["messages"]
    assert "too late" not in [message["text"] for message in channel]
