"""Spaces below a run's: who is in one speaks, reads and works there; to all others of the run it is missing."""

from typing import Any

import pytest

from kernel.store import spaces
from kernel.store.attempts import narrow
from protocol.agent import SCOPES, Scope
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import CALL_KEY, content

pytestmark = pytest.mark.promise("P64")

LEAD, HAND = "leads-token", "hands-token"
OPTIONS = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]


@pytest.fixture
async def kernel(kernel: ServedKernel) -> ServedKernel:
    """A kernel whose workflow review runs: alice (LEAD) may open spaces, bob (HAND) may not."""
    instruction = await kernel.attempt("alice@review", token=LEAD)
    opens: frozenset[Scope] = frozenset({"spaces"})
    await kernel.writer.commit(narrow, instruction, 1, SCOPES | opens)
    await kernel.attempt("bob@review", token=HAND)
    return kernel


async def does(kernel: ServedKernel, tool: str, token: str = LEAD, key: str | None = None, **asked: Any) -> Any:
    """What a tool is answered; of a refusal its code is in it."""
    return await content(kernel, tool, asked, token, **({} if key is None else {CALL_KEY: key}))


async def test_who_opens_a_space_and_whom_it_names_are_in_it_and_hear_each_other_there(kernel: ServedKernel) -> None:
    made = await does(kernel, "space_create", key="k", name="design", members=["bob"])
    assert (made["space"], made["name"], made["members"]) == ("review:main~design", "design", ["alice", "bob"])
    assert await does(kernel, "space_create", key="k", name="design", members=["bob"]) == made
    said = await does(kernel, "channel_send", message="@bob a secret", space="design")
    (work,) = said["instruction_ids"]
    await kernel.end("i2")
    await kernel.lease(work, "bob-there")
    assert (await does(kernel, "team_members", "bob-there"))["space"] == "review:main~design"
    heard = await does(kernel, "channel_read", "bob-there")
    assert [one["text"] for one in heard["messages"]][-1] == "@bob a secret"
    await does(kernel, "team_doc_write", "bob-there", file="plan.md", content="ours\n")
    assert (await does(kernel, "team_doc_read", LEAD, file="plan.md", space="design"))["content"] == "ours\n"
    assert (await does(kernel, "team_doc_read", LEAD, file="plan.md"))["code"] == "not_found"
    await kernel.end(work, text="the answer")
    there = (await kernel.get("/spaces/review:main~design/channel"))["messages"]
    assert [one["text"] for one in there][-1] == "the answer"
    here = (await kernel.get("/spaces/review/channel"))["messages"]
    assert not [one for one in here if "secret" in one["text"] or "design" in one["text"]]


async def test_to_who_is_not_in_a_space_it_is_missing_as_one_that_never_was(kernel: ServedKernel) -> None:
    await does(kernel, "space_create", name="design", members=["alice"])
    for tool, asked in (
        ("channel_read", {}),
        ("channel_send", {"message": "let me in"}),
        ("ask_agent", {"agent": "alice", "query": "what is it?"}),
        ("team_doc_read", {}),
        ("team_doc_list", {}),
        ("resource_read", {"id": "0" * 20}),
    ):
        hidden = await does(kernel, tool, HAND, space="design", **asked)
        missing = await does(kernel, tool, HAND, space="absent", **asked)
        assert hidden["code"] == missing["code"] == "not_found"
        assert hidden["detail"].replace("design", "absent") == missing["detail"]
    assert (await does(kernel, "space_create", HAND, name="mine", members=[]))["code"] == "forbidden"


async def test_who_leaves_has_lost_the_space_and_the_work_there_at_the_next_call(kernel: ServedKernel) -> None:
    await does(kernel, "space_create", name="design", members=["bob"])
    (work,) = (await does(kernel, "channel_send", message="@bob look", space="design"))["instruction_ids"]
    await kernel.end("i2")
    await kernel.lease(work, "bob-there")
    left = await does(kernel, "space_members", name="design", remove=["bob"])
    assert left["members"] == ["alice"]
    answer = await kernel.ask("POST", "/mcp", {}, headers=kernel.headers("bob-there"))
    assert answer.status == 401, "its token is worth nothing"
    assert (await kernel.get(f"/instructions/{work}"))["status"] == "cancelled"
    await kernel.attempt("bob@review", token="bob-here")
    assert (await does(kernel, "channel_read", "bob-here", space="design"))["code"] == "not_found"
    assert (await does(kernel, "space_members", name="design", add=["bob"]))["members"] == ["alice", "bob"]
    assert (await does(kernel, "channel_read", "bob-here", space="design"))["total"] > 0


async def test_who_opened_it_is_woken_once_all_work_there_has_ended(kernel: ServedKernel) -> None:
    await does(kernel, "space_create", name="design", members=["bob"])
    (work,) = (await does(kernel, "channel_send", message="@bob look", space="design"))["instruction_ids"]
    await kernel.end("i1")
    assert [one["state"] for one in (await kernel.get("/spaces"))["spaces"]] == ["open"]
    await kernel.end("i2")
    await kernel.lease(work, "bob-there")
    vote = await does(kernel, "team_proposal_create", "bob-there", type="decision", title="y", options=OPTIONS)
    assert "code" not in vote
    await kernel.end(work, text="the first part")
    asked = (await kernel.get("/instructions?space=review~design"))["instructions"]
    (voting,) = [one["id"] for one in asked if one["status"] == "queued"]
    await kernel.lease(voting, "alice-there")
    await kernel.end(voting, text="all is\n- done")
    (row,) = (await kernel.get("/spaces"))["spaces"]
    assert (row["state"], row["opener"], row["run"]) == ("closed", "alice", "r1")
    queue = (await kernel.get("/instructions?space=review"))["instructions"]
    woken = next(one for one in queue if one["status"] == "queued")
    told = (await kernel.get(f"/instructions/{woken['id']}/prompt"))["messages"][-1]["text"]
    assert "[SPACE] design, which you opened, is closed" in told
    assert "> all is" in told
    sent = await kernel.ask("POST", "/messages", {"to": "bob@review~design", "text": "more"})
    assert sent.json["code"] == "workflow_not_running"
    (ballot,) = (await kernel.get("/proposals"))["proposals"]
    assert (ballot["space"], ballot["state"]) == ("review:main~design", "cancelled")


async def test_people_see_change_and_close_what_agents_opened(kernel: ServedKernel) -> None:
    await does(kernel, "space_create", name="design", members=["bob"])
    path = "/spaces/review:main~design"
    sent = await kernel.ask("POST", "/messages", {"to": "bob@review~design", "text": "for you"})
    assert sent.status == 202, sent.body
    gone = await kernel.ask("POST", f"{path}/members", {"remove": ["bob"]})
    assert gone.json["members"] == ["alice"]
    assert (await kernel.ask("POST", f"{path}/members", {"remove": ["alice"]})).json["code"] == "conflict"
    assert (await kernel.ask("POST", f"{path}/members", {"add": ["mallory"]})).json["code"] == "not_a_participant"
    assert (await kernel.get(f"{path}/members"))["members"][0]["name"] == "alice"
    closed = (await kernel.ask("DELETE", path)).json
    assert (closed["schema"], closed["state"]) == ("awk/space/1", "closed")
    assert (await kernel.ask("DELETE", path)).json == closed
    assert (await does(kernel, "channel_send", message="x", space="design"))["code"] == "not_found"
    assert (await kernel.ask("DELETE", "/spaces/review:main")).json["code"] == "conflict"
    assert (await kernel.get("/spaces/review:main~absent/channel"))["code"] == "not_found"
    cleared = await kernel.ask("POST", f"{path}/clear")
    assert cleared.status == 200, cleared.body
    assert all(not one["text"] for one in (await kernel.get(f"{path}/channel"))["messages"])


async def test_a_space_ends_with_its_run(kernel: ServedKernel) -> None:
    await does(kernel, "space_create", name="design", members=["bob"])
    (work,) = (await does(kernel, "channel_send", message="@bob look", space="design"))["instruction_ids"]
    stopped = await kernel.ask("DELETE", "/workflows/review")
    assert stopped.status == 200, stopped.body
    assert (await kernel.get(f"/instructions/{work}"))["status"] == "cancelled"
    (row,) = (await kernel.get("/spaces?run=r1"))["spaces"]
    assert row["state"] == "closed"
    assert (await kernel.get("/spaces/review~design/channel?run=r1"))["total"] > 1
    assert kernel.reader.now(spaces.open_below, "review:main#1") == ()
