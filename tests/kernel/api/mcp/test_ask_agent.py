"""ask_agent as it goes over the wire: what the caller learns at once, and what is refused."""

import pytest
import trio
import trio.testing

from kernel.store.transitions.close import close
from kernel.store.transitions.lease import lease
from kernel.store.transitions.requeue import Requeue, requeue
from tests.builders.api import ServedKernel
from tests.kernel.api.client import meanwhile
from tests.kernel.api.mcp.rpc import CALL_KEY, call


async def asked(kernel: ServedKernel, agent: str, *, to: str = "alice@review", key: str = "0.0:c") -> dict[str, object]:
    await kernel.attempt(to)
    result: dict[str, object] = await call(
        kernel, "ask_agent", {"agent": agent, "query": "how many, @alice?"}, **{CALL_KEY: key}
    )
    return result


@pytest.mark.promise("P4")
@pytest.mark.parametrize("name", ["bob", "@Bob"])
async def test_who_asks_is_told_at_once_whom_and_as_what(kernel: ServedKernel, name: str) -> None:
    """contracts 5: the answer follows; a repeated call asks nobody again."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    first = await asked(kernel, name)
    content = first["structuredContent"]
    assert isinstance(content, dict)
    assert (first["isError"], content["agent"], content["instruction_id"]) == (False, "bob", "i2")
    assert "next message" in str(content["note"])
    again = await call(kernel, "ask_agent", {"agent": name, "query": "how many, @alice?"}, **{CALL_KEY: "0.0:c"})
    assert again["structuredContent"] == content
    queue = (await kernel.get("/agents/bob@review:main/queue"))["instructions"]
    assert [(row["id"], row["lane"]) for row in queue] == [("i2", "immediate")]


@pytest.mark.parametrize(
    ("agent", "to", "code"),
    [
        ("alice", "alice@review", "conflict"),
        ("zoe", "alice@review", "not_a_participant"),
        ("bob", "alice", "not_a_participant"),
    ],
    ids=["oneself", "a stranger", "in a personal space"],
)
async def test_what_cannot_be_asked_is_a_result_that_says_what_to_do(
    kernel: ServedKernel, agent: str, to: str, code: str
) -> None:
    """contracts 5: a refusal is a result with a code; nobody is woken."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    result = await asked(kernel, agent, to=to)
    content = result["structuredContent"]
    assert isinstance(content, dict)
    assert (result["isError"], content["code"], bool(content["hint"])) == (True, code, True)
    queue = (await kernel.get("/agents/bob@review:main/queue"))["instructions"]
    assert queue == []


async def test_people_see_for_what_the_asker_waits(kernel: ServedKernel) -> None:
    """contracts 7: show and queue; once answered it is in its lane."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await asked(kernel, "bob")
    await kernel.writer.commit(requeue, "i1", 1, Requeue(status="yielded", outcome="yielded"))
    shown = await kernel.get("/instructions/i1")
    assert (shown["status"], shown["standing"], shown["waits_for"]) == ("waiting", "runnable", "answer")
    (row,) = (await kernel.get("/agents/alice/queue"))["instructions"]
    assert (row["status"], row["waits_for"]) == ("waiting", "answer")
    agents = (await kernel.get("/ps"))["agents"]
    assert [(one["state"], one["reason"]) for one in agents if one["name"] == "alice"] == [("waiting", "answer")]
    assert await kernel.writer.commit(lease, "i2", b"2" * 32) is not None
    await kernel.writer.commit(close, "i2", 1, status="done", text="42")
    assert (await kernel.get("/instructions/i1"))["status"] == "queued"


@pytest.mark.promise("P26")
async def test_who_is_waited_for_ends_the_wait_where_whom_it_asked_needs_a_person(kernel: ServedKernel) -> None:
    """POST /serve of alice neither returns while bob can go on, nor hangs once only a person can help it."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    commit = kernel.writer.commit
    async with meanwhile(kernel.ask, "POST", "/serve", {"to": "alice@review", "text": "hi"}) as answers:
        while not (await kernel.get("/agents/alice/queue"))["instructions"]:
            pass
        await kernel.lease("i1", "worker-token")
        await call(kernel, "ask_agent", {"agent": "bob", "query": "how many?"})
        await commit(requeue, "i1", 1, Requeue(status="yielded", outcome="yielded"))
        await kernel.lease("i2", "bobs-token")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert answers == []
        await commit(requeue, "i2", 1, Requeue(status="waiting", outcome="over budget", waits_for="budget"))
    (result,) = answers[0].json["results"]
    assert (result["instruction_id"], result["status"], result["waits_for"]) == ("i1", "waiting", "budget")
