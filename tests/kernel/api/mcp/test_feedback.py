"""feedback_submit, GET and POST /feedback: what is said about the work itself."""

import pytest

from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import CALL_KEY, call


async def test_what_agents_and_people_say_is_kept_and_wakes_nobody(kernel: ServedKernel) -> None:
    """contracts 5: in the agent's own name and space; REST lists it, oldest first, and adds the user's."""
    await kernel.attempt("alice@review")
    said = await call(kernel, "feedback_submit", {"text": "@bob: grep is slow"})
    assert (said["isError"], said["structuredContent"]) == (False, {"id": "f1"})
    added = await kernel.ask("POST", "/feedback", {"text": " mine "})
    assert (added.status, added.json["schema"], added.json["feedback"]["id"]) == (201, "awk/feedback-add/1", "f2")
    found = await kernel.get("/feedback")
    assert [(one["id"], one["author"], one["space"], one["text"]) for one in found["feedback"]] == [
        ("f1", "alice", "review:main", "@bob: grep is slow"),
        ("f2", "user", None, "mine"),
    ]
    queue = (await kernel.get("/agents/bob@review:main/queue"))["instructions"]
    assert [row["lane"] for row in queue if row["status"] == "queued" and "grep" in str(row)] == []


@pytest.mark.promise("P4")
async def test_a_repeated_call_is_one(kernel: ServedKernel) -> None:
    await kernel.attempt()
    answers = [await call(kernel, "feedback_submit", {"text": "x"}, **{CALL_KEY: "k1"}) for _ in range(2)]
    assert answers[0] == answers[1]
    await call(kernel, "feedback_submit", {"text": "x"})
    await call(kernel, "feedback_submit", {"text": "x"})
    assert len((await kernel.get("/feedback"))["feedback"]) == 3


@pytest.mark.promise("HF18", "P10")
async def test_nothing_and_too_much_are_refused(kernel: ServedKernel) -> None:
    await kernel.attempt()
    for text in ("", "x" * 20_001, 7):
        assert (await call(kernel, "feedback_submit", {"text": text}))["isError"]
    assert (await kernel.ask("POST", "/feedback", {"text": "  "})).status == 400


async def test_clearing_a_space_clears_what_was_said_of_it_there(kernel: ServedKernel) -> None:
    """contracts 9: clear removes the bytes."""
    instruction = await kernel.attempt()
    await call(kernel, "feedback_submit", {"text": "secret"})
    await kernel.ask("POST", "/feedback", {"text": "mine"})
    await kernel.end(instruction)
    await kernel.ask("POST", "/spaces/dm:alice/clear", {})
    assert [one["text"] for one in (await kernel.get("/feedback"))["feedback"]] == ["mine"]
