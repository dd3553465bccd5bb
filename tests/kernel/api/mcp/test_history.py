"""history_search, history_read and memory_recall over MCP, and the same for people over REST."""

from typing import Any

import pytest

from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call, content

pytestmark = pytest.mark.promise("P47", "P48")


async def use(kernel: ServedKernel, tool: str, token: str = "worker-token", **arguments: object) -> Any:
    return await content(kernel, tool, arguments, token)


async def test_an_agent_finds_its_own_words_in_all_its_spaces_and_nobody_else_s(kernel: ServedKernel) -> None:
    """contracts 5; "Own history" is what it said, what was delivered to it, and its entries."""
    await kernel.attempt("alice@review", "deploy the canary to Lyon")
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "the canary in private"})
    await kernel.ask("POST", "/messages", {"to": "bob@review", "text": "a canary for bob alone"})
    found = await use(kernel, "history_search", query="canaries")
    assert {(hit["turn"]["text"], hit["turn"]["space"]) for hit in found["found"]} == {
        ("deploy the canary to Lyon", "review:main"),
        ("the canary in private", "dm:alice"),
    }
    assert (found["total"], found["next"], found["behind"]) == (2, None, False)
    page = await use(kernel, "history_read", limit=1)
    assert ([turn["text"] for turn in page["turns"]], page["total"] >= 2) == (["the canary in private"], True)
    older = await use(kernel, "history_read", limit=1, before=page["next"])
    assert older["turns"][0]["text"] == "deploy the canary to Lyon"
    said = await kernel.ask("GET", "/agents/alice/thread/search?query=canary&limit=1")
    assert (said.status, said.json["total"], said.json["next"]) == (200, 2, 1)
    thread = await kernel.ask("GET", "/agents/alice/thread?space=review:main")
    assert [turn["text"] for turn in thread.json["turns"]] == ["deploy the canary to Lyon"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("history_search", {"query": "?"}),
        ("history_search", {"query": "x", "since": "yesterday"}),
        ("history_read", {"until": "2026-13-01"}),
        ("history_read", {"limit": 0}),
        ("memory_recall", {"query": ""}),
    ],
)
async def test_what_cannot_be_asked_is_refused(kernel: ServedKernel, tool: str, arguments: dict[str, object]) -> None:
    """An error result with a code, never a broken stream."""
    await kernel.attempt()
    refused = await call(kernel, tool, arguments)
    assert refused["isError"] and refused["structuredContent"]["code"] == "bad_request"


async def test_memory_is_recalled_by_words_and_the_archive_on_demand(kernel: ServedKernel) -> None:
    await kernel.attempt()
    await call(kernel, "memory_write", {"key": "office", "value": "the office is in Lyon", "tier": "core"})
    await call(kernel, "memory_write", {"key": "old", "value": "the office was in Paris", "tier": "archive"})
    await call(kernel, "memory_write", {"key": "here", "value": "an office of dm", "space_only": True})
    found = await use(kernel, "memory_recall", query="where is the office")
    assert [one["key"] for one in found["entries"]] == ["office", "here"]
    every = await use(kernel, "memory_recall", query="office", archive=True)
    assert {one["key"] for one in every["entries"]} == {"office", "here", "old"}
    await call(kernel, "memory_forget", {"key": "office"})
    assert [one["key"] for one in (await use(kernel, "memory_recall", query="office"))["entries"]] == ["here"]
    people = await kernel.ask("GET", "/agents/alice/memory/search?query=office&archive=1")
    assert {one["key"] for one in people.json["entries"]} == {"here", "old"}
