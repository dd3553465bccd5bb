"""The guard's model before a memory is written, and between a question and what a colleague knows."""

import json
from typing import Any

import pytest
import trio

from kernel.services.guard import MemoryGuard
from kernel.store.transitions.lease import lease
from kernel.store.transitions.requeue import Requeue, requeue
from protocol.memory_files import StoredEntry
from protocol.names import AgentKey
from tests.builders.api import REVIEW, ServedKernel
from tests.kernel.api.client import meanwhile
from tests.kernel.api.mcp.rpc import CALL_KEY, call, content

GUARD = 'guard: { model: "mock/guard", llm_curation: true }\n'
KEEP = {"keep": True, "tier": "working", "why": "good"}
FORGET = {"keep": False, "tier": "archive", "why": "junk"}
MOVE = {"keep": True, "tier": "archive", "why": "temporary"}
KNOWN = """\
deploy: {value: deploys go through the staging cluster, visibility: shareable, source: {messages: [m1], class: user}}
deploy-web: {value: deploys of others need a ticket, visibility: public, source: {messages: [m1], class: web}}
deploy-secret: deploys need the password CANARY-PRIVATE
deploy-there: {value: deploys of task CANARY-ELSEWHERE, visibility: public, space_only: "task:main"}
"""

pytestmark = pytest.mark.promise("P67")


@pytest.fixture
async def kernel(kernel: ServedKernel) -> ServedKernel:
    """A kernel whose workflow review runs with a guard; alice has the worker-token, bob the bobs-token."""
    (kernel.root / ".workflows/review.yaml").write_text(REVIEW + GUARD)
    await kernel.attempt("alice@review")
    await kernel.attempt("bob@review", token="bobs-token")
    return kernel


def knows(kernel: ServedKernel) -> None:
    """Have alice know what KNOWN says."""
    folder = kernel.root / ".agents/alice/memory"
    folder.mkdir(parents=True)
    (folder / "working.yaml").write_text(KNOWN)


def guard_of(kernel: ServedKernel) -> MemoryGuard:
    guard = kernel.services.memory.guard
    assert isinstance(guard, MemoryGuard)
    return guard


async def questions(kernel: ServedKernel) -> list[Any]:
    """What the guard was asked, the newest first."""
    found: list[Any] = []
    while (told := await kernel.ask("GET", f"/instructions/i{len(found) + 1}")).status == 200:
        found.append(told.json)
    return [one for one in reversed(found) if one["agent"] == "guard"]


async def answered(
    kernel: ServedKernel, tool: str, arguments: Any, answer: Any, token: str = "worker-token", **meta: Any
) -> tuple[Any, str]:
    """What a call is answered for which the guard's model says ``answer``; and what the model was asked."""
    wake = kernel.feed.new_wake(frozenset({"instruction.queued"}))
    async with meanwhile(content, kernel, tool, arguments, token, **meta) as results:
        with trio.fail_after(10):
            await wake.wait()
        instruction = str((await questions(kernel))[0]["id"])
        assert guard_of(kernel).asking()
        await kernel.lease(instruction, f"guards-token-{instruction}")
        asked = await kernel.get(f"/messages/{(await questions(kernel))[0]['message_ids'][0]}")
        await kernel.end(instruction, text=answer if isinstance(answer, str) else json.dumps(answer))
        await guard_of(kernel).run_once()
    assert not guard_of(kernel).asking()
    return results[0], json.dumps(asked)


async def kept(kernel: ServedKernel) -> dict[str, str]:
    """The tiers of what alice knows, by key."""
    return {one["key"]: one["tier"] for one in (await kernel.get("/agents/alice/memory"))["entries"]}


async def audited(kernel: ServedKernel) -> list[Any]:
    return list((await kernel.get("/audit"))["rows"])


CRASHED = Requeue(status="queued", outcome="crash", cause="crash", charge="crash")
WRITE = {"key": "status", "value": "the tests CANARY-JUNK are running now"}


async def test_what_the_guard_does_not_keep_is_in_no_file_and_the_agent_and_the_audit_say_so(
    kernel: ServedKernel,
) -> None:
    told, _ = await answered(kernel, "memory_write", WRITE, FORGET)
    assert told["entry"] is None
    assert "did not store it" in told["note"]
    assert await kept(kernel) == {}
    assert not any("CANARY-JUNK" in one.read_text() for one in (kernel.root / ".agents").rglob("*.yaml"))
    (row,) = await audited(kernel)
    assert (row["kind"], row["owner"], row["receiver"], row["note"]) == ("refused", "alice", "guard", "junk")
    assert (row["given"][0]["key"], row["withheld"]) == ("status", 1)
    assert "CANARY-JUNK" not in json.dumps(row)
    assert (await kernel.get("/needs"))["total"] == 0


async def test_what_the_guard_moves_is_in_that_tier(kernel: ServedKernel) -> None:
    told, _ = await answered(kernel, "memory_write", WRITE, MOVE)
    assert told["entry"]["tier"] == "archive"
    assert "in archive instead of working" in told["note"]
    assert (await audited(kernel))[0]["note"] == "working to archive: temporary"
    told, _ = await answered(kernel, "memory_write", {**WRITE, "key": "other"}, KEEP)
    assert (told["entry"]["tier"], told["note"]) == ("working", "")
    assert await kept(kernel) == {"status": "archive", "other": "working"}
    assert len(await audited(kernel)) == 1


@pytest.mark.parametrize("said", ["", "Sure! I kept it.", "[]", '{"keep": false}', {**FORGET, "why": "x"}, "{" * 5000])
async def test_a_bad_answer_changes_nothing(kernel: ServedKernel, said: Any) -> None:
    told, _ = await answered(kernel, "memory_write", WRITE, said)
    assert (told["entry"]["tier"], told["note"]) == ("working", "")
    assert await kept(kernel) == {"status": "working"}
    assert await audited(kernel) == []


@pytest.mark.parametrize("answer_seconds", [0.0])
async def test_a_guard_that_does_not_answer_is_waited_for_once_and_its_question_is_ended(kernel: ServedKernel) -> None:
    for number in range(3):
        told = await call(kernel, "memory_write", {**WRITE, "key": f"k{number}"})
        assert told["structuredContent"]["note"] == ""
    assert await kept(kernel) == {"k0": "working", "k1": "working", "k2": "working"}
    (asked,) = await questions(kernel)
    assert asked["status"] == "cancelled"
    assert (await kernel.get("/needs"))["total"] == 0
    assert not guard_of(kernel).asking()


async def test_a_guard_without_money_a_key_or_trust_changes_nothing(kernel: ServedKernel) -> None:
    wake = kernel.feed.new_wake(frozenset({"instruction.queued"}))
    async with meanwhile(content, kernel, "memory_write", WRITE) as results:
        await wake.wait()
        instruction = str((await questions(kernel))[0]["id"])
        await kernel.lease(instruction, "guards-token")
        parked = Requeue(status="waiting", outcome="credentials", waits_for="credentials", wait_key="anthropic")
        await kernel.writer.commit(requeue, instruction, 1, parked)
        await guard_of(kernel).run_once()
    assert results[0]["entry"]["tier"] == "working"
    assert (await questions(kernel))[0]["status"] == "cancelled"
    assert (await kernel.get("/needs"))["total"] == 0


async def test_the_same_call_after_a_crash_has_the_same_answer_and_asks_nobody_again(kernel: ServedKernel) -> None:
    key = {CALL_KEY: "i1.3"}
    first, _ = await answered(kernel, "memory_write", WRITE, FORGET, **key)
    again = await content(kernel, "memory_write", WRITE, **key)
    assert again == first
    writer = kernel.writer
    await writer.commit(requeue, "i1", 1, CRASHED)
    await kernel.lease("i1", "second")
    again = await content(kernel, "memory_write", WRITE, "second", **key)
    assert again == first
    assert (len(await questions(kernel)), len(await audited(kernel)), await kept(kernel)) == (1, 1, {})


async def test_the_guard_is_shown_what_the_agent_may_see_here_and_trusts_no_less(kernel: ServedKernel) -> None:
    knows(kernel)
    told, asked = await answered(kernel, "memory_write", {"key": "deploys", "value": "how deploys go"}, KEEP)
    assert told["entry"]["key"] == "deploys"
    assert "staging cluster" in asked
    assert "CANARY-PRIVATE" in asked  # her own
    assert "CANARY-ELSEWHERE" not in asked
    assert "ticket" not in asked


async def test_people_and_agents_without_a_guard_are_asked_nothing(kernel: ServedKernel) -> None:
    assert (await kernel.ask("PUT", "/agents/alice/memory/k", {"value": "a state of work"})).status == 200
    await kernel.writer.commit(requeue, "i1", 1, CRASHED)
    await kernel.ask("DELETE", "/workflows/review")
    await kernel.attempt("alice", token="own-token")
    await call(kernel, "memory_write", WRITE, "own-token")
    assert sorted(await kept(kernel)) == ["k", "status"]
    assert await questions(kernel) == []


async def test_in_personal_spaces_the_guard_of_the_project_judges(kernel: ServedKernel) -> None:
    (kernel.root / "moniro.yaml").write_text(GUARD)
    await kernel.ask("DELETE", "/workflows/review")
    await kernel.attempt("alice", token="own-token")
    told, _ = await answered(kernel, "memory_write", WRITE, FORGET, "own-token")
    assert told["entry"] is None
    (row,) = await audited(kernel)
    assert (row["kind"], row["space"]) == ("refused", "dm:alice")


async def test_what_is_purged_is_in_no_question_and_no_audit(kernel: ServedKernel) -> None:
    write = {"key": "what the tests CANARY-PURGED do", "value": "the tests CANARY-PURGED run in Lyon"}
    await answered(kernel, "memory_write", write, MOVE)
    await kernel.end("i1", text="done")
    assert (await kernel.ask("POST", "/agents/alice/memory/purge", {"source": "user"})).status == 200
    (row,) = await audited(kernel)
    (asked,) = await questions(kernel)
    said = await kernel.ask("GET", f"/messages/{asked['message_ids'][0]}")
    assert "CANARY-PURGED" not in json.dumps([row, asked, said.json])


async def asks(kernel: ServedKernel, answer: Any) -> tuple[Any, str]:
    """What bob is told of alice's memory, and what the model was asked."""
    knows(kernel)
    arguments = {"agent": "alice", "query": "how do deploys go?"}
    return await answered(kernel, "memory_ask", arguments, answer, "bobs-token")


async def test_a_colleague_is_given_a_summary_as_little_trusted_as_the_least_of_its_sources(
    kernel: ServedKernel,
) -> None:
    told, asked = await asks(kernel, {"summary": "By staging, with a ticket.\n# Obey"})
    summary = told["summary"]
    assert summary["text"] == "> By staging, with a ticket.\n> # Obey"
    assert (sorted(summary["keys"]), summary["trust"]) == (["deploy", "deploy-web"], "web")
    assert summary["source"] == {"messages": ["m1"], "class": "web", "by": "guard"}
    assert told["given"] == []
    assert "CANARY" not in asked
    (row,) = await audited(kernel)
    assert sorted(one["key"] for one in row["given"]) == ["deploy", "deploy-web"]
    assert row["note"] == "2 in a summary of 37 characters"


@pytest.mark.parametrize("said", ["", "staging", '{"summary": 3}', {"summary": ""}, {"summary": "x" * 5000}])
async def test_without_a_summary_a_colleague_is_given_the_excerpts(kernel: ServedKernel, said: Any) -> None:
    told, _ = await asks(kernel, said)
    assert told["summary"] is None
    assert {one["text"] for one in told["given"]} == {
        "> deploys go through the staging cluster",
        "> deploys of others need a ticket",
    }


async def test_where_nothing_may_be_given_nobody_is_asked(kernel: ServedKernel) -> None:
    knows(kernel)
    told = await call(kernel, "memory_ask", {"agent": "alice", "query": "password"}, "bobs-token")
    assert (told["structuredContent"]["given"], told["structuredContent"]["summary"]) == ([], None)
    assert await questions(kernel) == []


CHOOSES = 'guard: { model: "mock/guard", llm_recall: true }\n'


def of_memory(kernel: ServedKernel) -> list[StoredEntry]:
    """What a search finds of KNOWN, in this order: of a person, of the web, and two more of a person."""
    knows(kernel)
    contexts = kernel.services.files.contexts
    return list(contexts.memory(contexts.place(AgentKey("alice"), None)).kept)


async def chosen(kernel: ServedKernel, answer: str | None, scope: trio.CancelScope) -> tuple[list[str], str]:
    """The keys of what is recalled, if the guard's model says ``answer`` (None: nothing), and what it was asked."""
    leased = await kernel.writer.commit(lease, await kernel.send("bob@review", "deploys\n# Obey"), b"own")
    assert leased is not None
    wake, found = kernel.feed.new_wake(frozenset({"instruction.queued"})), of_memory(kernel)
    recalled: list[str] = []

    async def choose() -> None:
        settings = guard_of(kernel).settings(leased.space)
        shown = await guard_of(kernel).relevant(leased, scope, settings, "deploys\n# Obey", found)
        recalled.extend(one.entry.key for one in shown)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(choose)
            await wake.wait()
            assert guard_of(kernel).asking()
            (asked,) = await questions(kernel)
            if answer is None:
                scope.cancel()
            else:
                await kernel.lease(asked["id"], "guards-token")
                await kernel.end(asked["id"], text=answer)
                await guard_of(kernel).run_once()
    assert not guard_of(kernel).asking()
    return recalled, (await kernel.get(f"/messages/{asked['message_ids'][0]}"))["message"]["text"]


ALL = ["deploy", "deploy-web", "deploy-secret", "deploy-there"]


@pytest.mark.parametrize(
    ("answer", "keys"),
    [
        ('{"relevant": [3, 1, 3]}', ["deploy", "deploy-secret", "deploy-there"]),
        ('{"relevant": []}', ["deploy", "deploy-secret", "deploy-there"]),
        ('{"relevant": [2]}', ["deploy", "deploy-secret", "deploy-there", "deploy-web"]),
        *((said, ALL) for said in ("", "3", '{"relevant": [0]}', '{"relevant": [5]}', '{"relevant": "all"}')),
        (None, ALL),
    ],
)
async def test_the_guard_chooses_what_a_prompt_recalls_but_a_text_keeps_out_none_that_is_trusted_more(
    kernel: ServedKernel, answer: str | None, keys: list[str]
) -> None:
    (kernel.root / ".workflows/review.yaml").write_text(REVIEW + CHOOSES)
    await kernel.ask("DELETE", "/workflows/review")
    assert (await kernel.ask("POST", "/workflows", {"workflow": "review"})).status == 201
    recalled, asked = await chosen(kernel, answer, trio.CancelScope())
    assert recalled == keys
    assert "The work:\n> deploys\n> # Obey\n" in asked
    assert "- 2:\n> deploy-web: deploys of others need a ticket\n" in asked


@pytest.mark.parametrize("answer_seconds", [0.0])
async def test_a_prompt_waits_once_for_a_guard_that_does_not_answer_and_never_without_the_setting(
    kernel: ServedKernel,
) -> None:
    found = of_memory(kernel)
    await kernel.ask("DELETE", "/workflows/review")
    leased = await kernel.writer.commit(lease, await kernel.send("alice", "deploys"), b"own")
    assert leased is not None
    for setting, count in (("", 0), (CHOOSES, 1), (CHOOSES, 1)):
        (kernel.root / "moniro.yaml").write_text(setting)
        settings = guard_of(kernel).settings(leased.space)
        shown = await guard_of(kernel).relevant(leased, trio.CancelScope(), settings, "deploys", found)
        assert list(shown) == found
        assert len(await questions(kernel)) == count
    assert (await questions(kernel))[0]["status"] == "cancelled"
