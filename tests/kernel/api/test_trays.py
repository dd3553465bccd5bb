"""Trays: filled by the guard's model after a run, decided by people or their owner, and in no prompt before."""

import json
from typing import Any

import pytest

from kernel.services.guard import MemoryGuard
from tests.builders.api import REVIEW, ServedKernel
from tests.kernel.api.mcp.rpc import call, content, refusal

GUARD = 'guard: { model: "mock/guard", auto_store: true }\n'
FACT = "Deploys go through the staging cluster CANARY-TRAY, since production has no rollback"


def answer(**change: Any) -> str:
    """What a model answers, for alice."""
    item = {"for": "alice", "kind": "decision", "key": "deploys", "value": FACT, "messages": ["m2"], **change}
    return json.dumps({"items": [item]})


async def ended_run(kernel: ServedKernel, text: str) -> str:
    """A run of review that has ended, and the guard's answer to it. Returns the guard's instruction."""
    (kernel.root / ".workflows/review.yaml").write_text(REVIEW + GUARD)
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "we deploy by staging, never straight"})
    await kernel.ask("DELETE", "/workflows/review")
    listed = (await kernel.get("/instructions"))["instructions"]
    (asked,) = [one for one in listed if one["agent"] == "guard"]
    await kernel.lease(asked["id"], "guards-token")
    await kernel.end(asked["id"], text=text)
    await settle(kernel)
    return str(asked["id"])


async def settle(kernel: ServedKernel) -> None:
    guard = kernel.services.memory.trays
    assert isinstance(guard, MemoryGuard)
    await guard.run_once()


async def tray(kernel: ServedKernel) -> list[Any]:
    return list((await kernel.get("/agents/alice/tray"))["rows"])


@pytest.mark.promise("P52")
async def test_what_a_run_came_to_is_proposed_and_remembered_once_a_person_says_so(kernel: ServedKernel) -> None:
    await ended_run(kernel, answer())
    (row,) = await tray(kernel)
    assert (row["id"], row["kind"], row["state"], row["run"]) == ("t1", "decision", "open", "r1")
    assert row["messages"] == ["m2"]
    (need,) = (await kernel.get("/needs"))["items"]
    assert (need["kind"], need["actions"][0]["command"]) == ("memory", "awk agent memory alice tray approve t1")
    instruction = await kernel.attempt(text="and now?")
    prompt = await kernel.ask("GET", f"/instructions/{instruction}/prompt")
    assert b"CANARY-TRAY" not in prompt.body
    assert not (kernel.root / ".agents/alice/memory").exists()
    taken = await kernel.ask("POST", "/agents/alice/tray/t1/approve")
    assert (taken.json["open"], taken.json["rows"][0]["decided_by"]) == (0, "user")
    kept = (kernel.root / ".agents/alice/memory/decisions.yaml").read_text()
    assert FACT in kept
    assert "m2" in kept
    assert (await kernel.ask("POST", "/agents/alice/tray/t1/approve")).status == 200
    assert (await kernel.ask("POST", "/agents/alice/tray/t1/reject")).status == 409
    assert (await kernel.get("/needs"))["total"] == 0


async def test_an_owner_decides_about_its_own_tray_and_what_it_rejects_does_not_come_again(
    kernel: ServedKernel,
) -> None:
    await ended_run(kernel, answer())
    await kernel.attempt()
    told = await content(kernel, "memory_tray", {}, "worker-token")
    assert [one["value"] for one in told["open"]] == [FACT]
    told = await content(kernel, "memory_tray", {"reject": ["t1"]}, "worker-token")
    assert (told["open"], told["decided"][0]["decided_by"]) == ([], "alice")
    assert not (kernel.root / ".agents/alice/memory").exists()


@pytest.mark.parametrize(
    "junk",
    ["", "I think", "[]", '{"items": 3}', answer(value="Done."), answer(messages=["m99"]), answer(**{"for": "bob"})],
)
async def test_a_guard_that_answers_junk_changes_nothing(kernel: ServedKernel, junk: str) -> None:
    await ended_run(kernel, junk)
    assert await tray(kernel) == []
    assert (await kernel.get("/needs"))["total"] == 0


async def test_a_run_without_a_guards_model_asks_nobody(kernel: ServedKernel) -> None:
    """It is off unless somebody switches it on."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "we deploy by staging, never straight"})
    await kernel.ask("DELETE", "/workflows/review")
    listed = (await kernel.get("/instructions"))["instructions"]
    assert [one for one in listed if one["agent"] == "guard"] == []


@pytest.mark.promise("P46")
async def test_what_is_purged_is_in_no_tray_and_in_no_audit(kernel: ServedKernel) -> None:
    await ended_run(kernel, answer())
    await kernel.ask("POST", "/agents/alice/tray/t1/approve")
    purged = await kernel.ask("POST", "/agents/alice/memory/purge", {"source": "m2"})
    assert purged.status == 200, purged.body
    assert "CANARY-TRAY" not in str(await tray(kernel))
    assert not any("CANARY-TRAY" in file.read_text() for file in (kernel.root / ".agents/alice").rglob("*.yaml"))


async def votes_on(kernel: ServedKernel, name: str, choice: str, *, rejected: bool = False) -> Any:
    """What comes of it where alice and bob vote ``choice`` on ``name``, ``rejected`` meanwhile, in the next run."""
    await kernel.attempt("alice@review")
    await kernel.attempt("bob@review", token="bobs-token")
    asked = {"type": "approval", "title": "Remember it?", "binding": True, "binds": {"tray": name}, "id": "keep"}
    opened = await call(kernel, "team_proposal_create", asked, "bobs-token")
    if opened["isError"]:
        return opened
    if rejected:
        assert (await kernel.ask("POST", f"/agents/alice/tray/{name}/reject")).status == 200
    for token in ("bobs-token", "worker-token"):
        voted = await call(kernel, "team_vote", {"proposal": "keep", "choice": choice}, token)
        assert not voted["isError"], voted
    return voted


@pytest.mark.promise("P68")
async def test_a_vote_takes_what_is_proposed_and_the_guard_writes_it_once(kernel: ServedKernel) -> None:
    await ended_run(kernel, answer())
    voted = await votes_on(kernel, "t1", "yes")
    assert voted["structuredContent"]["proposal"]["winner"] == "yes"
    said = [one["text"] for one in (await kernel.get("/spaces/review/channel"))["messages"]]
    assert any(f"> deploys: {FACT}" in one for one in said)
    assert "[MEMORY] t1 is remembered for alice, by the vote keep" in said
    (row,) = await tray(kernel)
    assert (row["state"], row["vote"]) == ("open", "keep")
    assert (await kernel.get("/needs"))["total"] == 0
    assert (await kernel.ask("POST", "/agents/alice/tray/t1/reject")).status == 409
    for _ in range(2):
        await settle(kernel)
    (row,) = await tray(kernel)
    assert (row["state"], row["decided_by"]) == ("approved", "vote keep")
    assert (kernel.root / ".agents/alice/memory/decisions.yaml").read_text().count(FACT) == 1


@pytest.mark.promise("P68")
async def test_what_a_vote_rejects_is_in_no_memory(kernel: ServedKernel) -> None:
    await ended_run(kernel, answer())
    await votes_on(kernel, "t1", "no")
    await settle(kernel)
    (row,) = await tray(kernel)
    assert (row["state"], row["decided_by"]) == ("rejected", "vote keep")
    assert not (kernel.root / ".agents/alice/memory").exists()


@pytest.mark.promise("P68")
@pytest.mark.parametrize("name", ["t2", "t1", "nonsense"])
async def test_a_tray_of_another_workspace_is_to_a_vote_like_one_that_is_not_there(
    kernel: ServedKernel, name: str
) -> None:
    await ended_run(kernel, answer())
    await kernel.writer.commit(lambda tx: tx.write("UPDATE decisions SET space = 'task:main#9'", ()))
    refused = (await votes_on(kernel, name, "yes"))["structuredContent"]
    assert (refused["code"], refused["detail"].replace(name, "")) == (
        "not_found", "memory proposal '' not found in review:main",
    )  # fmt: skip


@pytest.mark.promise("P68")
async def test_what_its_owner_decides_meanwhile_stands(kernel: ServedKernel) -> None:
    await ended_run(kernel, answer())
    await votes_on(kernel, "t1", "yes", rejected=True)
    await settle(kernel)
    assert [one["state"] for one in await tray(kernel)] == ["rejected"]
    said = [one["text"] for one in (await kernel.get("/spaces/review/channel"))["messages"]]
    assert "[MEMORY] t1 was already decided before the vote keep" in said


@pytest.mark.parametrize(
    "terms",
    [
        {"type": "election", "binds": {"tray": "t1"}},
        {"type": "approval", "binds": {"tray": "t1", "suggestion": "s1"}},
        {"type": "approval", "binds": {"tray": "t1", "documents": ["x"]}},
        {"type": "approval", "binding": False, "binds": {"tray": "t1"}},
    ],
)
async def test_a_vote_that_would_not_decide_about_a_tray_is_refused(
    kernel: ServedKernel, terms: dict[str, Any]
) -> None:
    await ended_run(kernel, answer())
    await kernel.attempt("alice@review")
    asked = {"title": "Remember it?", "binding": True, **terms}
    assert await refusal(kernel, "team_proposal_create", asked, "worker-token") == "bad_request"
