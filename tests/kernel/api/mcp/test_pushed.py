"""Notifications to people's programs: who mentions the user, and what needs a person; over HTTP, and to the SDK."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
import trio
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp_types import SubscriptionFilter
from pydantic import BaseModel

from kernel.api.mcp import pushed
from kernel.api.mcp.tools import MANAGEMENT
from tests.builders.api import TOKEN, ServedKernel
from tests.kernel.api.client import Wire, connected
from tests.kernel.api.mcp.rpc import ENVELOPE, REVISION, call
from tests.kernel.api.mcp.test_clients import client
from tests.kernel.api.test_tokens import made

pytestmark = pytest.mark.promise("P58")

SSE = "text/event-stream"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for the rest between two looks."""
    monkeypatch.setattr(pushed, "REST_SECONDS", 0.01)


class Heard:
    """What is pushed on one connection: events with their ids, signs of life left out."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._text = ""
        self.last = ""
        """The id of the last event."""

    async def next(self) -> dict[str, Any]:
        """The next message; ``{}`` is an event with an id and nothing else."""
        while "\n\n" not in self._text:
            self._text += bytes((await self._wire.event()).data).decode()
        block, _, self._text = self._text.partition("\n\n")
        fields = {name: text for name, _, text in (line.partition(": ") for line in block.split("\n"))}
        self.last = fields.get("id", self.last)
        if "data" not in fields:
            return await self.next()
        message: dict[str, Any] = json.loads(fields["data"] or "{}")
        return message

    async def ended(self) -> bool:
        """Whether the answer has ended, with nothing more in it than signs of life."""
        while getattr(event := await self._wire.event(), "data", b"") == b": ping\n\n":
            pass
        return not getattr(event, "data", b"")


@asynccontextmanager
async def pushing(
    kernel: ServedKernel, token: str = TOKEN, *, ours: dict[str, Any] | None = None, **headers: str
) -> AsyncGenerator[Heard]:
    """A GET stream; with ``ours``, the answer to subscriptions/listen for that."""
    fields = kernel.headers(token) | {"Accept": SSE} | {name.replace("_", "-"): text for name, text in headers.items()}
    body = b""
    if ours is not None:
        params = {"_meta": ENVELOPE, "notifications": {"agent-worker": ours, "toolsListChanged": True}}
        request = {"jsonrpc": "2.0", "id": "one", "method": "subscriptions/listen", "params": params}
        body = json.dumps(request).encode()
        fields |= {
            "Accept": f"application/json, {SSE}",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": REVISION,
            "Mcp-Method": "subscriptions/listen",
            "Content-Length": str(len(body)),
        }
    with trio.fail_after(10):
        async with connected(kernel.port) as wire:
            await wire.send("POST" if body else "GET", "/mcp", fields.items(), body)
            head = await wire.event()
            assert head.status_code == 200, await wire.event()
            assert dict(head.headers)[b"content-type"] == SSE.encode()
            yield Heard(wire)


async def mention(kernel: ServedKernel, text: str = "@user look") -> None:
    if not kernel.awaited:
        await kernel.attempt()
        kernel.awaited.append(trio.Event())
        kernel.awaited[0].set()
    said = await call(kernel, "channel_send", {"message": text})
    assert not said["isError"], said


async def test_a_mention_of_the_user_is_pushed_and_no_other_message(kernel: ServedKernel) -> None:
    async with pushing(kernel) as heard:
        assert await heard.next() == {}
        assert heard.last.isdigit()
        await kernel.ask("POST", "/messages", {"to": "alice", "text": "I am @user myself"})
        await mention(kernel, "nothing for you")
        await mention(kernel, "@user " + "long" * 1000)
        found = await heard.next()
    params = found["params"]
    assert found["method"] == "notifications/mention"
    assert (params["from"], params["space"], params["cut"], len(params["text"])) == ("alice", "dm:alice", True, 2000)
    assert str(params["seq"]) == heard.last


async def test_what_needs_a_person_is_pushed_as_it_stands(kernel: ServedKernel) -> None:
    await kernel.attempt()
    async with pushing(kernel) as heard:
        assert await heard.next() == {}
        asked = await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
        need = (await heard.next())["params"]
        assert (need["total"], need["items"][0]["kind"], need["items"][0]["id"]) == (
            1, "approval", asked["structuredContent"]["id"],
        )  # fmt: skip
        async with pushing(kernel) as other:
            assert await other.next() == {}
            assert (await other.next())["params"] == need
        await kernel.ask("POST", f"/approvals/{need['items'][0]['id']}/approve")
        assert (await heard.next())["params"]["total"] == 0


async def test_who_comes_back_is_told_what_it_missed(kernel: ServedKernel) -> None:
    async with pushing(kernel) as heard:
        await heard.next()
    for text in ("@user one", "@user two"):
        await mention(kernel, text)
    async with pushing(kernel, Last_Event_ID=heard.last) as again:
        await again.next()
        assert [(await again.next())["params"]["text"] for _ in range(2)] == ["@user one", "@user two"]
    async with pushing(kernel, ours={"mention": True, "since": int(heard.last)}) as listened:
        acknowledged = await listened.next()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {
            "agent-worker": {"mention": True, "needs": False, "since": int(heard.last)}
        }
        told = [(await listened.next())["params"] for _ in range(2)]
    assert [one["text"] for one in told] == ["@user one", "@user two"]
    assert {one["_meta"]["io.modelcontextprotocol/subscriptionId"] for one in told} == {"one"}
    wrong = await kernel.ask("GET", "/mcp", headers=kernel.headers(Accept=SSE, Last_Event_ID="x"))
    assert wrong.code == "bad_request"


async def test_only_what_is_asked_for_is_pushed(kernel: ServedKernel) -> None:
    async with pushing(kernel, ours={"needs": True}) as heard:
        await heard.next()
        await mention(kernel)
        await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
        assert (await heard.next())["method"] == "notifications/needs"


async def test_a_stream_ends_with_its_token(kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "PING_SECONDS", 0.05)
    token = await made(kernel, "read")
    async with pushing(kernel, token) as heard:
        await heard.next()
        await kernel.ask("DELETE", "/tokens/k1")
        await mention(kernel)
        assert await heard.ended()


async def test_a_stream_ends_with_a_result_when_the_kernel_stops(kernel: ServedKernel) -> None:
    async with pushing(kernel, ours={"needs": True}) as heard:
        await heard.next()
        kernel.services.kernel.shutdown.closing.set()
        assert (await heard.next())["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "one"


async def test_listeners_are_bounded(kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "EACH_LIMIT", 1)
    async with pushing(kernel):
        assert (await kernel.ask("GET", "/mcp", headers=kernel.headers(Accept=SSE))).code == "busy"
        async with pushing(kernel, await made(kernel, "read")) as other:
            await other.next()
    with trio.fail_after(5):
        while True:
            async with connected(kernel.port) as wire:
                await wire.send("GET", "/mcp", kernel.headers(Accept=SSE).items(), b"")
                if (await wire.event()).status_code == 200:
                    return


async def test_nothing_is_pushed_to_an_attempt_or_to_who_takes_no_stream(kernel: ServedKernel) -> None:
    """405, as MCP wants it of a server that has none; of a method that there is not, its error."""
    await kernel.attempt()
    for token, accept in (("worker-token", SSE), (TOKEN, "application/json")):
        answer = await kernel.ask("GET", "/mcp", headers=kernel.headers(token) | {"Accept": accept})
        assert answer.refusal == (405, "method_not_allowed")
    assert (await kernel.ask("DELETE", "/mcp")).status == 405
    params = {"_meta": ENVELOPE, "notifications": {"agent-worker": {"needs": True}}}
    headers = {"Accept": f"application/json, {SSE}", "MCP-Protocol-Version": REVISION}
    answer = await kernel.ask(
        "POST",
        "/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params},
        headers=kernel.headers("worker-token") | headers | {"Mcp-Method": "subscriptions/listen"},
    )
    assert answer.json["error"]["code"] == types.METHOD_NOT_FOUND


def test_what_is_pushed_is_open_to_every_token() -> None:
    assert {MANAGEMENT[name].row.needs for name in ("needs_list", "events_read", "channel_read")} == {"read"}


class Params(BaseModel, extra="allow"):
    """Whatever is in a notification."""


class Ours(ClientExtension):
    """Our notifications, for the client of the SDK for Python."""

    identifier = "io.github.agent-worker/pushed"

    def __init__(self) -> None:
        self.heard: dict[str, list[dict[str, Any]]] = {"mention": [], "needs": []}
        self.told = trio.Event()

    def notifications(self) -> list[NotificationBinding[Any]]:
        return [
            NotificationBinding(method=f"notifications/{kind}", params_type=Params, handler=self._note(kind))
            for kind in self.heard
        ]

    def _note(self, kind: str) -> Any:
        async def note(params: Params) -> None:
            self.heard[kind].append(params.model_dump())
            if all(self.heard.values()):
                self.told.set()

        return note


async def test_the_sdk_for_python_listens(kernel: ServedKernel) -> None:
    ours = Ours()
    wanted = SubscriptionFilter.model_validate({"agent-worker": {"mention": True, "needs": True, "since": 0}})
    token = await made(kernel, "read")
    async with client(kernel, REVISION, token, extensions=[ours]) as mcp, trio.open_nursery() as nursery:

        async def listen() -> None:
            params = types.SubscriptionsListenRequestParams(notifications=wanted)
            request = types.SubscriptionsListenRequest(params=params)
            await mcp.session.send_request(request, types.SubscriptionsListenResult)

        nursery.start_soon(listen)
        await mention(kernel)
        await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
        with trio.fail_after(10):
            await ours.told.wait()
        nursery.cancel_scope.cancel()
    assert ours.heard["mention"][0]["text"] == "@user look"
    assert ours.heard["needs"][0]["total"] == 1
