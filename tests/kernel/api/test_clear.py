"""Removal over REST: a space, an agent made at run time, and what a reader of events is told of what is gone."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernel.store.transaction import Transaction
from kernel.store.transitions.close import cancel
from kernel.store.transitions.retention import sweep_events
from protocol.voting import ProposalInfo
from tests.builders.api import REVIEW, ServedKernel
from tests.kernel.api.mcp.rpc import CALL_KEY, call
from tests.kernel.api.test_events import say


def stored(folder: Path) -> bytes:
    read = b"".join(file.read_bytes() for file in folder.glob("kernel.db*"))
    assert read
    return read


async def ask(kernel: ServedKernel, method: str, path: str, **headers: str) -> Any:
    return await kernel.ask(method, path, headers=kernel.headers(**headers))


async def test_a_space_is_cleared_once_for_a_key(kernel: ServedKernel) -> None:
    """contracts 4 and 9: bodies are redacted, kind and seq stay; the same key is answered the same."""
    instruction = await kernel.attempt(text="a secret")
    refused = await ask(kernel, "POST", "/spaces/dm:alice/clear")
    assert refused.refusal == (409, "conflict")
    await kernel.end(instruction, text="another secret")
    done = await ask(kernel, "POST", "/spaces/dm:alice/clear", Idempotency_Key="k")
    assert (done.status, done.json) == (
        200,
        {
            "space": "dm:alice", "messages": 2, "instructions": 1, "worktrees": 0, "worktrees_kept": 0,
            "schema": "awk/clear/1",
        },
    )  # fmt: skip
    again = await ask(kernel, "POST", "/spaces/dm:alice/clear", Idempotency_Key="k")
    assert again.json == done.json
    channel = (await ask(kernel, "GET", "/spaces/dm:alice/channel")).json["messages"]
    assert [(said["kind"], said["text"], said["cleared"]) for said in channel] == [
        ("said", "", True),
        ("reply", "", True),
    ]
    events = (await kernel.ask("GET", "/events?since=0&follow=0")).body
    assert b"secret" not in events
    assert (await ask(kernel, "GET", f"/instructions/{instruction}")).json["text"] == ""


@pytest.mark.parametrize("on_disk", [True])
async def test_answers_to_requests_keep_no_words_of_what_was_cleared(kernel: ServedKernel, tmp_path: Path) -> None:
    """contracts 9: what was voted on and approved was answered too; the same key is answered still, without words."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    here = "/spaces/review:main/proposals"
    body = {"type": "approval", "title": "Sack Benedict?", "id": "benedict", "description": "Benedict knows."}
    keyed = {path: kernel.headers(Idempotency_Key=path) for path in ("put", "vote", "approve")}
    await kernel.ask("POST", here, body, headers=keyed["put"])
    choice = {"choice": "no", "reason": "Benedict is dear"}
    await kernel.ask("POST", f"{here}/benedict/vote", choice, headers=keyed["vote"])
    instruction = await kernel.attempt(to="alice@review")
    asked = {"tool": "bash", "input": {"command": "mail Benedict"}, "wait_seconds": 0, "reason": "for Benedict"}
    assert not (await call(kernel, "auth_request", asked, **{CALL_KEY: "0.0:c"}))["isError"]
    approve = {"reason": "Benedict agrees"}
    assert (await kernel.ask("POST", "/approvals/a1/approve", approve, headers=keyed["approve"])).status == 200
    await kernel.end(instruction)
    for one in (await kernel.get("/instructions?space=review:main"))["instructions"]:
        await kernel.writer.commit(cancel, one["id"])
    assert (await ask(kernel, "POST", "/spaces/review:main/clear")).status == 200
    assert b"enedict" not in stored(tmp_path)
    again = await kernel.ask("POST", here, body, headers=keyed["put"])
    assert (again.status, again.json["title"], again.json["type"]) == (201, "", "approval")
    assert (await kernel.get(here))["proposals"] == []
    msgspec.convert(again.json, ProposalInfo)


async def test_a_space_that_never_was_cannot_be_cleared(kernel: ServedKernel) -> None:
    assert (await ask(kernel, "POST", "/spaces/dm:nobody/clear")).json["code"] == "unknown_agent"
    assert (await ask(kernel, "POST", "/spaces/review:main/clear")).json["code"] == "workflow_not_running"


async def test_an_agent_that_is_deleted_leaves_no_words(kernel: ServedKernel) -> None:
    """contracts 9: agent delete removes the bytes; one of the same name begins with an empty thread."""
    made = {"name": "eve", "model": "mock/x", "mock": [{"text": "a secret"}]}
    assert (await kernel.ask("POST", "/agents", made)).status == 201
    await kernel.end(await kernel.attempt(to="eve", text="a secret", token="t2"))
    assert (await ask(kernel, "DELETE", "/agents/eve")).status == 200
    assert (await kernel.ask("POST", "/agents", made)).status == 201
    channel = (await ask(kernel, "GET", "/spaces/dm:eve/channel")).json["messages"]
    assert {said["text"] for said in channel} == {""}


async def test_a_reader_of_the_past_is_told_of_the_gap(kernel: ServedKernel) -> None:
    await say(kernel, "one")
    await say(kernel, "two")

    def forget(tx: Transaction) -> None:
        sweep_events(tx, (2, 4))

    await kernel.writer.commit(forget)
    answer = (await kernel.ask("GET", "/events?since=1&follow=0")).body.decode()
    assert 'event: gap\ndata: {"type":"gap"' in answer
    assert '"data":{"from":2,"to":4}' in answer
    assert "id: 3\n" not in answer
    assert "id: 5\n" in answer


@pytest.mark.parametrize("on_disk", [True])
@pytest.mark.parametrize("ended", [True, False])
async def test_what_a_guard_was_asked_about_a_space_goes_with_it(
    kernel: ServedKernel, tmp_path: Path, ended: bool
) -> None:
    guard = 'guard: { model: "mock/guard", auto_store: true }\n'
    (kernel.root / ".workflows/review.yaml").write_text(REVIEW + guard)
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "the CANARY-ASKED goes by staging"})
    await kernel.ask("DELETE", "/workflows/review")
    (asked,) = (await kernel.get("/instructions"))["instructions"]
    assert asked["agent"] == "guard"
    await kernel.lease(asked["id"], "guards-token")
    if ended:
        await kernel.end(asked["id"], text="CANARY-ASKED, I say")
    assert (await ask(kernel, "POST", "/spaces/review:main/clear")).status == 200
    assert b"CANARY-ASKED" not in stored(tmp_path)
    told = await kernel.get(f"/instructions/{asked['id']}")
    assert told["status"] == ("done" if ended else "cancelled")
    assert told["text"] == ""
