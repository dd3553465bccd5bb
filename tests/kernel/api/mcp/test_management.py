"""Management tools: the REST API by other names, for people's own MCP clients, with the official SDK's client."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from mcp.client import Client

from kernel.api.mcp.tools import MANAGEMENT
from kernel.store import workflows
from tests.builders.api import TOKEN, ServedKernel
from tests.kernel.api.client import meanwhile
from tests.kernel.api.mcp.rpc import call, content, post, refusal
from tests.kernel.api.mcp.test_clients import MODES, client
from tests.kernel.api.test_tokens import made

pytestmark = pytest.mark.promise("P58")

LOOK = {name for name, tool in MANAGEMENT.items() if tool.row.needs == "read"}
OPERATE = {name for name, tool in MANAGEMENT.items() if tool.row.needs == "operate"}


def test_only_who_may_approve_decides_approvals() -> None:
    """contracts 5: so its scope is the route's, and only a person who may approve decides approvals."""
    assert set(MANAGEMENT) - LOOK - OPERATE == {"approval_decide", "unblock"}
    assert all(not tool.row.changes for name, tool in MANAGEMENT.items() if name in LOOK)


@asynccontextmanager
async def leading(kernel: ServedKernel, mode: str, token: str = TOKEN) -> AsyncGenerator[Client, None]:
    """A client of the SDK that speaks for a person."""
    with trio.fail_after(20):
        async with client(kernel, mode, token) as mcp:
            yield mcp


@pytest.mark.parametrize("mode", MODES)
async def test_the_sdks_client_leads_a_team(kernel: ServedKernel, mode: str) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review", "tag": "pr-1"})
    await kernel.ask("PUT", "/spaces/review:pr-1/documents/a/b.md", {"content": "x"})
    await kernel.attempt()
    waiting = await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
    steps: list[tuple[str, dict[str, Any]]] = [
        ("agents_list", {}),
        ("agents_info", {"name": "alice"}),
        ("workflow_start", {"workflow": "review"}),
        ("send", {"to": "@review", "text": "@alice look"}),
        ("channel_read", {"space": "review:main"}),
        ("instruction_show", {"id": "i2"}),
        ("instruction_cancel", {"id": "i2"}),
        ("workflow_run", {"workflow": "task", "tag": "t1", "timeout_seconds": 60}),
        ("workflow_status", {}),
        ("workflow_status", {"run": "task:t1"}),
        ("workflow_wait", {"run": "task:t1", "timeout_seconds": 0}),
        ("workflow_stop", {"workflow": "task", "tag": "t1"}),
        ("workflow_wait", {"run": "task:t1"}),
        ("needs_list", {}),
        ("approval_list", {"limit": 5}),
        ("approval_decide", {"id": waiting["structuredContent"]["id"], "decision": "approve", "reason": "fine"}),
        ("events_read", {"since": 0, "limit": 3}),
        ("events_read", {"type": "message", "space": "review:main"}),
        ("document_list", {"space": "review:pr-1"}),
        ("document_read", {"space": "review:pr-1", "path": "a/b.md"}),
    ]
    given: dict[str, Any] = {}
    async with leading(kernel, mode) as mcp:
        listed = {tool.name: tool for tool in (await mcp.list_tools()).tools}
        for name, arguments in steps:
            answer = await mcp.call_tool(name, arguments)
            assert not answer.is_error, (name, answer.content)
            given[name] = answer.structured_content
        failed = await mcp.call_tool("instruction_retry", {"id": "i2"})
    assert set(listed) == set(MANAGEMENT)
    assert listed["send"].annotations is not None
    assert not listed["send"].annotations.read_only_hint
    assert given["channel_read"]["messages"][-1]["text"] == "@alice look"
    assert given["workflow_wait"]["status"] == "cancelled"
    assert given["workflow_status"]["report"]["messages"] == []
    assert given["approval_decide"]["state"] == "granted"
    assert {event["type"] for event in given["events_read"]["events"]} == {"message"}
    assert given["document_read"]["content"] == "x"
    assert failed.is_error, "it was cancelled, and that is refused as over REST"


@pytest.mark.parametrize(
    ("scope", "listed"),
    [
        ("read", LOOK),
        ("operate", LOOK | OPERATE),
        ("approve", set(MANAGEMENT)),
        ("approve:alice", set(MANAGEMENT) - {"unblock"}),
    ],
)
async def test_what_a_token_does_not_open_is_not_listed_and_refused(
    kernel: ServedKernel, scope: str, listed: set[str]
) -> None:
    token = await made(kernel, scope)
    async with leading(kernel, "2026-07-28", token) as mcp:
        assert {tool.name for tool in (await mcp.list_tools()).tools} == listed
    for name in set(MANAGEMENT) - listed:
        answer = await call(kernel, name, {"no such": "argument"}, token)
        assert answer["isError"], name
        assert answer["structuredContent"]["code"] == "forbidden"


async def test_an_attempt_has_none_of_them_and_a_person_none_of_its_tools(kernel: ServedKernel) -> None:
    await kernel.attempt()
    for name, token in (("agents_list", "worker-token"), ("team_members", TOKEN)):
        answer = await post(
            kernel, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}, token
        )
        assert b"Unknown tool" in answer.body or answer.status == 400


async def test_a_call_that_is_sent_again_happens_once(kernel: ServedKernel) -> None:
    operate = await made(kernel, "operate")
    await kernel.ask(
        "POST", "/messages", {"to": "alice", "text": "by REST"}, headers=kernel.headers(Idempotency_Key="one")
    )
    again = [
        await call(kernel, "send", {"to": "alice", "text": "hi"}, token, **{"agent-worker/call": "one"})
        for token in (TOKEN, TOKEN, operate)
    ]
    first, second, third = [answer["structuredContent"]["message_id"] for answer in again]
    assert first == second != third


async def test_wrong_arguments_are_told_which_there_are(kernel: ServedKernel) -> None:
    answer = await content(kernel, "send", {"to": "alice", "message": "hi"}, TOKEN)
    assert answer["code"] == "bad_request"
    assert answer["hint"] == "it takes: to (needed), text (needed)"


async def test_people_only_holds_over_mcp_too(kernel: ServedKernel) -> None:
    kernel.below.append(True)
    for name, arguments in (
        ("workflow_start", {"workflow": "review"}),
        ("workflow_run", {"workflow": "task"}),
        ("approval_decide", {"id": "a1", "decision": "approve"}),
    ):
        assert await refusal(kernel, name, arguments, TOKEN) == "forbidden", name


async def test_a_run_that_is_led_waits_for_what_needs_a_person(kernel: ServedKernel) -> None:
    """Its leader sees that in needs_list: it does not end because nobody is at a terminal."""
    await call(kernel, "workflow_run", {"workflow": "task"}, TOKEN)
    (run,) = kernel.reader.now(workflows.running_runs, kernel.services.store.now_ms())
    assert run.options.attended


async def test_the_end_of_a_run_is_waited_for(kernel: ServedKernel) -> None:
    run = (await content(kernel, "workflow_run", {"workflow": "task"}, TOKEN))["id"]
    waits = {"run": run, "timeout_seconds": 600}
    with trio.fail_after(10):
        async with meanwhile(content, kernel, "workflow_wait", waits, TOKEN) as reports:
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert reports == []
            await kernel.ask("DELETE", "/workflows/task")
    assert reports[0]["status"] == "cancelled"


async def test_the_next_event_is_waited_for(kernel: ServedKernel) -> None:
    since = (await content(kernel, "events_read", {"limit": 1}, TOKEN))["next"]
    waits = {"since": since, "type": "message", "wait_seconds": 600}
    with trio.fail_after(10):
        async with meanwhile(content, kernel, "events_read", waits, TOKEN) as pages:
            await trio.testing.wait_all_tasks_blocked(0.05)
            await kernel.ask("POST", "/messages", {"to": "alice", "text": "news"})
    assert [event["data"]["text"] for event in pages[0]["events"]] == ["news"]
