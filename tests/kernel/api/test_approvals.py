"""Approvals over HTTP: a worker asks over Daemon MCP, the administrator decides over REST, and nobody else does."""

import hashlib
from typing import Any

import h11
import msgspec
import pytest
import trio

from kernel.store.transitions.close import close
from kernel.store.transitions.lease import lease
from kernel.store.transitions.requeue import Requeue, requeue
from tests.builders.api import ServedKernel
from tests.kernel.api.client import Answer, Wire, connected, meanwhile
from tests.kernel.api.mcp.rpc import CALL_KEY, REVISION, call, call_of, refusal

BASH = {"tool": "bash", "input": {"command": "git push"}}
PROMPT = {"tool_name": "Bash", "input": {"command": "git push"}, "tool_use_id": "toolu_1"}


async def asked(kernel: ServedKernel, key: str = "0.0:c", token: str = "worker-token", **more: Any) -> dict[str, Any]:
    """What a worker of our own is answered, which never waits."""
    result = await call(kernel, "auth_request", {**BASH, "wait_seconds": 0, **more}, token, **{CALL_KEY: key})
    assert not result["isError"], result
    content: dict[str, Any] = result["structuredContent"]
    return content


async def pending(kernel: ServedKernel) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await kernel.get("/approvals"))["approvals"]
    return rows


async def decide(kernel: ServedKernel, what: str, approval: str = "a1", **body: Any) -> Answer:
    return await kernel.ask("POST", f"/approvals/{approval}/{what}", body or None)


async def send_prompt(kernel: ServedKernel, wire: Wire) -> None:
    """A permission prompt, of which nobody has heard the answer yet."""
    body = msgspec.json.encode(call_of("auth_request", PROMPT))
    fields = kernel.headers("worker-token") | {
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": REVISION, "Mcp-Method": "tools/call",
        "Mcp-Name": "auth_request", "Content-Type": "application/json", "Content-Length": str(len(body)),
    }  # fmt: skip
    await wire.send("POST", "/mcp", fields.items(), body)


async def until_pending(kernel: ServedKernel) -> None:
    """Until a request is there."""
    with trio.fail_after(5), kernel.feed.subscribe() as events:
        while not await pending(kernel):
            await anext(events)


@pytest.mark.parametrize("attended", [False, True])
async def test_who_cannot_approve_is_answered_that_somebody_has_to(kernel: ServedKernel, attended: bool) -> None:
    """contracts 7: exit 7; in a workspace that somebody watches the request has a deadline, and is not waited for."""
    started = await kernel.ask("POST", "/workflows", {"workflow": "review"})
    assert started.status == 201
    await kernel.writer.commit(lambda tx: tx.conn.execute("UPDATE workflows SET attended = 1"))
    body = {"to": "alice@review", "text": "push it", "attended": attended}
    with trio.fail_after(5), kernel.feed.subscribe() as events:
        async with meanwhile(kernel.ask, "POST", "/serve", body) as answered:
            while (await anext(events)).type != "instruction.queued":
                pass
            await kernel.lease("i1", "worker-token")
            assert (await asked(kernel))["decision"] == "pending"
            await kernel.writer.commit(requeue, "i1", 1, Requeue(status="queued", outcome="yielded"))
            if attended:
                assert not answered
                await decide(kernel, "deny")
                await kernel.lease("i1", "another")
                await kernel.end("i1", 2)
    (result,) = answered[0].json["results"]
    expected = ("done", None) if attended else ("waiting", "approval")
    assert (result["status"], result.get("waits_for")) == expected


@pytest.mark.parametrize(("what", "state"), [("approve", "granted"), ("deny", "denied")])
async def test_a_decision_is_what_the_same_call_is_answered_from_then_on(
    kernel: ServedKernel, what: str, state: str
) -> None:
    await kernel.attempt()
    await asked(kernel)
    decided = await decide(kernel, what, reason="so")
    assert (decided.status, decided.json["state"], decided.json["decided_by"]) == (200, state, "user")
    first, again = await asked(kernel), await asked(kernel)
    assert (first["decision"], first["reason"], first["first"]) == (state, "so", True)
    assert (again["decision"], "first" in again) == (state, False)
    assert await pending(kernel) == []
    other = await decide(kernel, "deny" if what == "approve" else "approve")
    assert other.refusal == (409, "conflict")


@pytest.mark.parametrize("path", ["/approvals/a1/approve", "/approvals/a1/deny", "/approvals"])
async def test_a_worker_cannot_decide_for_itself(kernel: ServedKernel, path: str) -> None:
    """Admin scope only: the token of an attempt is refused, and nothing has changed."""
    await kernel.attempt()
    await asked(kernel)
    method = "GET" if path == "/approvals" else "POST"
    assert (await kernel.ask(method, path, headers=kernel.headers("worker-token"))).refusal == (403, "forbidden")
    assert (await asked(kernel))["decision"] == "pending"


async def test_a_rule_that_is_kept_answers_later_calls_and_can_be_taken_back(kernel: ServedKernel) -> None:
    """approve --always, pending --rules, deny r1."""
    await kernel.attempt()
    await asked(kernel)
    wrong = await decide(kernel, "approve", always="git *")
    assert wrong.refusal == (400, "bad_request")
    assert (await decide(kernel, "approve", always='{"command":"git *"}')).status == 200
    assert (await asked(kernel, "1.0:c"))["decision"] == "granted"
    (rule,) = (await kernel.get("/approvals/rules"))["rules"]
    assert (rule["id"], rule["agent"], rule["tool"]) == ("r1", "alice", "bash")
    assert (await kernel.ask("DELETE", "/approvals/rules/r1")).json["rules"] == []
    assert (await asked(kernel, "2.0:c"))["decision"] == "pending"
    assert (await kernel.ask("DELETE", "/approvals/rules/r1")).status == 404


@pytest.mark.promise("P22")
async def test_a_repeated_decision_with_its_key_is_the_same_answer(kernel: ServedKernel) -> None:
    await kernel.attempt()
    await asked(kernel)
    headers = kernel.headers() | {"Idempotency-Key": "k"}
    answers = [await kernel.ask("POST", "/approvals/a1/approve", {}, headers=headers) for _ in range(2)]
    assert answers[0].body == answers[1].body
    unknown = await decide(kernel, "approve", "a9")
    assert unknown.refusal == (404, "not_found")
    assert (await kernel.ask("GET", "/approvals/a9")).status == 404


@pytest.mark.parametrize(
    ("approval", "decision"), [("auto", "granted"), ("never", "granted"), ("deny", "denied"), ("reads", "pending")]
)
async def test_an_agents_policy_answers_where_nobody_has_to_be_asked(
    kernel: ServedKernel, approval: str, decision: str
) -> None:
    """approval: auto, ask, all, deny; never and reads are other words for the first two."""
    file = kernel.root / ".agents/alice.yaml"
    await trio.Path(file).write_text(f"model: mock/x\napproval: {approval}\nmock:\n  - text: done\n")
    await kernel.attempt()
    assert (await asked(kernel))["decision"] == decision
    assert len(await pending(kernel)) == (decision == "pending")


async def test_a_run_has_its_own_policy(kernel: ServedKernel) -> None:
    async with trio.open_nursery() as nursery:
        with kernel.feed.subscribe() as events:
            nursery.start_soon(kernel.ask, "POST", "/serve", {"workflow": "task", "approve": "deny"})
            while (await anext(events)).type != "instruction.queued":
                pass
        token = hashlib.sha256(b"worker-token").digest()
        leased = await kernel.writer.commit(lease, "i1", token)
        assert leased is not None
        assert leased.approval == "deny"
        assert (await asked(kernel))["decision"] == "denied"
        nursery.cancel_scope.cancel()


@pytest.mark.promise("P4")
async def test_what_was_allowed_unasked_meanwhile_and_broke_off_is_in_doubt(kernel: ServedKernel) -> None:
    await kernel.attempt()
    assert (await asked(kernel))["decision"] == "pending"
    alice = kernel.root / ".agents/alice.yaml"
    asks = alice.read_text()
    alice.write_text(f"{asks}approval: auto\n")
    assert (await asked(kernel))["decision"] == "granted"
    await kernel.writer.commit(requeue, "i1", 1, Requeue(status="queued", outcome="crash"))
    alice.write_text(asks)
    await decide(kernel, "approve")
    await kernel.lease("i1", "another")
    again = await asked(kernel, token="another")
    assert (again["decision"], "first" in again) == ("granted", False)
    other = await asked(kernel, "toolu_9", "another")
    assert (other["decision"], other["id"]) == ("pending", "a2")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("approve", {"behavior": "allow", "updatedInput": {"command": "git push"}}),
        ("deny", {"behavior": "deny", "message": "denied: so"}),
    ],
)
async def test_a_permission_prompt_is_kept_waiting_and_answered_in_its_own_words(
    kernel: ServedKernel, what: str, words: dict[str, Any]
) -> None:
    await kernel.attempt()
    async with meanwhile(call, kernel, "auth_request", PROMPT) as held:
        await until_pending(kernel)
        (row,) = (await kernel.get("/ps"))["agents"]
        assert (row["state"], row["reason"]) == ("waiting", "approval")
        assert held == []
        await decide(kernel, what, reason="so")
    assert msgspec.json.decode(held[0]["content"][0]["text"]) == words
    assert "structuredContent" not in held[0]
    (row,) = (await kernel.get("/ps"))["agents"]
    assert row["state"] == "running"


async def test_a_call_waits_as_long_as_it_says(kernel: ServedKernel) -> None:
    await kernel.attempt()
    prompted = await call(kernel, "auth_request", {**PROMPT, "wait_seconds": 0.05})
    assert msgspec.json.decode(prompted["content"][0]["text"])["behavior"] == "deny"
    result = await call(kernel, "auth_request", {"tool": "Bash", "input": PROMPT["input"], "wait_seconds": 0.05})
    assert result["structuredContent"] == {"decision": "pending", "id": "a1"}
    (row,) = (await kernel.get("/ps"))["agents"]
    assert (row["state"], len(await pending(kernel))) == ("running", 1)


@pytest.mark.parametrize("ending", ["closed", "parked"])
async def test_a_call_ends_with_its_attempt(kernel: ServedKernel, ending: str) -> None:
    await kernel.attempt()
    async with meanwhile(call, kernel, "auth_request", PROMPT) as held:
        await until_pending(kernel)
        commit = kernel.writer.commit
        if ending == "closed":
            await commit(close, "i1", 1, status="failed", cause="invalid")
        else:
            await commit(requeue, "i1", 1, Requeue(status="yielded", outcome="yielded"))
    assert held[0]["structuredContent"]["code"] == "stale_attempt"
    assert len(await pending(kernel)) == (ending == "parked")


async def test_a_client_that_leaves_is_noticed_and_its_request_stays(kernel: ServedKernel) -> None:
    await kernel.attempt()
    with trio.fail_after(5), kernel.feed.subscribe() as events:
        async with connected(kernel.port) as wire:
            await send_prompt(kernel, wire)
            while (await anext(events)).type != "approval.requested":
                pass
        while (await kernel.get("/ps"))["agents"][0]["state"] != "running":
            pass
    assert len(await pending(kernel)) == 1


async def test_an_answer_that_takes_long_comes_as_a_stream_that_shows_it_lives(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel.api.responses.PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr("kernel.api.responses.SIGN_SECONDS", 0.01)
    await kernel.attempt()
    heard = b""
    with trio.fail_after(5):
        async with connected(kernel.port) as wire:
            await send_prompt(kernel, wire)
            while heard.count(b": a person is asked\n\n") < 2:
                event = await wire.event()
                heard += bytes(event.data) if isinstance(event, h11.Data) else b""
            await decide(kernel, "approve")
            while b"\ndata: " not in heard:
                event = await wire.event()
                heard += bytes(event.data) if isinstance(event, h11.Data) else b""
    _, _, answer = heard.partition(b"event: message\ndata: ")
    (content,) = msgspec.json.decode(answer.strip())["result"]["content"]
    assert msgspec.json.decode(content["text"])["behavior"] == "allow"


@pytest.mark.parametrize(
    "arguments",
    [
        {"input": {}},
        {"tool": "", "input": {}},
        {"tool": "x", "input": []},
        {"tool": "x", "input": {}, "wait_seconds": -1},
        {"tool": "x", "input": {}, "approve": True},
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(kernel: ServedKernel, arguments: dict[str, Any]) -> None:
    await kernel.attempt()
    assert await refusal(kernel, "auth_request", arguments) == "bad_request"
    assert await pending(kernel) == []
