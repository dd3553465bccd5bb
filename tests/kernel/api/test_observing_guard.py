"""The guard between runs: quiet conversations fill trays, and much work leads to suggestions for a soul."""

import hashlib
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import trio

from kernel.rule.draft import Draft
from kernel.services.guard import MemoryGuard
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import append
from kernel.store.transitions.close import close
from kernel.store.transitions.lease import lease
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import personal_space
from tests.builders.api import REVIEW, ServedKernel

FACT = "Deploys go through the staging cluster, since production has no rollback"
GUARD = 'guard: {{ model: "mock/guard", auto_store: true, quiet: 60s{} }}\n'


@pytest.fixture
def guard(kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch) -> MemoryGuard:
    """The guard of ``kernel``, which looks at every call."""
    monkeypatch.setattr("kernel.services.guard.GATHER_SECONDS", 0.0)
    return kernel.services.memory.guard


def configure(tmp_path: Path, more: str = "") -> None:
    (tmp_path / "project/moniro.yaml").write_text(GUARD.format(more))


def pass_seconds(guard: MemoryGuard, seconds: int) -> None:
    now = guard.log.now_ms() + seconds * 1000
    guard.log = guard.log._replace(now_ms=lambda: now)


async def talk(kernel: ServedKernel, *texts: str, reply: str = "fine", to: str = "alice", space: str = "") -> None:
    """Instructions of ``to`` that have ended, one for each of ``texts``, in one commit."""

    def said(tx: Transaction) -> None:
        for text in texts:
            draft = Draft(kind="said", space=space or personal_space(to), sender=USER, text=text, to=(to,))
            (instruction,) = append(tx, draft).instruction_ids
            leased = lease(tx, instruction, hashlib.sha256(instruction.encode()).digest())
            assert leased is not None
            close(tx, instruction, leased.epoch, status="done", text=reply)

    await kernel.services.store.writer.commit(said)


async def questions(kernel: ServedKernel) -> list[tuple[str, str]]:
    """Open questions to guards: the instruction and the text."""
    sql = """SELECT 'i' || i.id, m.text FROM instructions AS i JOIN messages AS m ON m.seq = i.message
      WHERE i.name = 'guard' AND i.ended_ms IS NULL ORDER BY i.id"""
    now = kernel.services.store.reader.now
    return now(lambda conn: [(str(id_), str(text)) for id_, text in conn.execute(sql)])


async def answer(kernel: ServedKernel, guard: MemoryGuard, text: str) -> str:
    """Answer the one open question with ``text`` about its first message, and settle it. Returns the question."""
    ((instruction, question),) = await questions(kernel)
    text = text.replace("FIRST", next(iter(re.findall(r"^\[(m\d+)\]", question, re.MULTILINE)), ""))
    await kernel.lease(instruction, instruction)
    await kernel.end(instruction, text=text)
    await guard.run_once()
    return question


def item(**change: Any) -> str:
    made = {"for": "alice", "kind": "decision", "key": "deploys", "value": FACT, "messages": ["FIRST"], **change}
    return json.dumps({"items": [made]})


async def tray(kernel: ServedKernel) -> list[Any]:
    return list((await kernel.ask("GET", "/agents/alice/tray")).json["rows"])


@pytest.mark.promise("P69")
async def test_direct_messages_are_read_once_they_are_quiet_and_each_only_once(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    configure(tmp_path)
    await talk(kernel, "we deploy by staging", "thanks")
    assert await guard.run_once() == 60.0
    assert await questions(kernel) == []
    pass_seconds(guard, 60)
    await guard.run_once()
    question = await answer(kernel, guard, item())
    assert "[m1] user:\n> we deploy by staging" in question
    (row,) = await tray(kernel)
    assert (row["state"], row["kind"], row["messages"], row["run"]) == ("open", "decision", ["m1"], None)
    assert (await guard.run_once(), await questions(kernel)) == (60.0, [])
    await talk(kernel, "what next?")
    await guard.run_once()
    assert "staging" not in await answer(kernel, guard, item())
    assert len(await tray(kernel)) == 1


async def test_a_started_workflow_is_read_while_it_is_quiet_and_its_end_reads_the_rest(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    (tmp_path / "project/.workflows/review.yaml").write_text(REVIEW + GUARD.format(""))
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "first words"})
    pass_seconds(guard, 60)
    await guard.run_once()
    assert "first words" in await answer(kernel, guard, item())
    assert [row["run"] for row in await tray(kernel)] == ["r1"]
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "last words"})
    await kernel.ask("DELETE", "/workflows/review")
    question = await answer(kernel, guard, "{}")
    assert ("last words" in question, "first words" in question) == (True, False)


@pytest.mark.promise("P69")
async def test_a_conversation_that_never_rests_is_read_from_its_oldest_message_without_a_gap(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    configure(tmp_path)
    await talk(kernel, *(f"message {n} {'x' * 1500}" for n in range(49)))
    await guard.run_once()
    assert await questions(kernel) == []
    await talk(kernel, *(f"message {n} {'x' * 1500}" for n in range(49, 150)))
    await guard.run_once()
    asked = [await answer(kernel, guard, "{}")]
    pass_seconds(guard, 60)
    await guard.run_once()
    while await questions(kernel):
        asked.append(await answer(kernel, guard, "{}"))
    shown = re.findall(r"^> message (\d+) ", "\n".join(asked), re.MULTILINE)
    assert shown == [str(n) for n in range(150)]


async def fail(kernel: ServedKernel, guard: MemoryGuard) -> int:
    """Let the open questions fail, and look again. Returns their number."""
    failed = await questions(kernel)
    sql = "UPDATE instructions SET state = 'failed', ended_ms = 1 WHERE name = 'guard' AND ended_ms IS NULL"
    await kernel.services.store.writer.commit(lambda tx: tx.write(sql, ()))
    await guard.run_once()
    return len(failed)


async def test_a_question_that_failed_is_repeated_after_a_pause_a_few_times_even_after_the_end(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project/.workflows/review.yaml").write_text(REVIEW + GUARD.format(""))
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "lasting words"})
    await kernel.ask("DELETE", "/workflows/review")
    pass_seconds(guard, 60)
    assert [await fail(kernel, guard), await fail(kernel, guard)] == [1, 0]
    monkeypatch.setattr("kernel.services.guard.PAUSE_SECONDS", 0.0)
    guard.paused.clear()
    await guard.run_once()
    assert "lasting words" in (await questions(kernel))[0][1]
    assert [await fail(kernel, guard) for _ in range(4)] == [1, 1, 1, 0]


async def test_direct_messages_wake_no_guard_but_are_found_by_a_running_one(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel.services.guard.LOOK_SECONDS", 0.01)
    configure(tmp_path)
    guard.settings = settings = Mock(wraps=guard.settings)
    kinds = frozenset({"instruction.queued"})
    queued = kernel.services.store.feed.new_wake(kinds, lambda event: event.agent != "guard")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(guard.run)
        guard.wake.clear()
        await talk(kernel, *(f"message {n}" for n in range(60)))
        await queued.wait()
        nursery.cancel_scope.cancel()
    assert (len(await questions(kernel)), {one.args for one in settings.mock_calls}) == (1, {("dm:guard",)})


@pytest.mark.parametrize(
    ("kind", "file"), [("decision", "decisions.yaml"), ("pattern", "patterns.yaml"), ("work_log", "work-log.yaml")]
)
async def test_an_approved_kind_is_stored_without_a_decision_in_the_file_of_its_kind(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path, kind: str, file: str
) -> None:
    configure(tmp_path, f", auto_approve: [{kind}]")
    pass_seconds(guard, 60)
    for reply in (item(kind=kind), item(kind=kind, value=f"Never {FACT}, or so they say in Lyon")):
        await talk(kernel, "we deploy by staging")
        await guard.run_once()
        await answer(kernel, guard, reply)
    text = (tmp_path / f"project/.agents/alice/memory/{file}").read_text()
    assert (text.count(FACT), "deploys-2" in text) == (2, True)
    assert {(row["state"], row["decided_by"]) for row in await tray(kernel)} == {("approved", "auto_approve")}
    assert (await kernel.ask("GET", "/needs")).json["total"] == 0


@pytest.mark.parametrize(("number", "trust"), [(2, "tool"), (3, "web")])
async def test_what_a_tool_or_the_web_was_shown_in_waits_for_a_person_whatever_its_kind(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path, number: int, trust: str
) -> None:
    configure(tmp_path, ", auto_approve: [decision, pattern]")
    await talk(kernel, "we deploy by staging")
    await kernel.services.store.writer.commit(lambda tx: tx.write("UPDATE instructions SET trust = ?", (number,)))
    pass_seconds(guard, 60)
    await guard.run_once()
    await answer(kernel, guard, item())
    assert [(row["state"], row["trust"]) for row in await tray(kernel)] == [("open", trust)]


async def test_what_cannot_be_written_waits_in_a_bounded_tray_and_is_retried_after_a_pause(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configure(tmp_path, ", auto_approve: [decision]")
    memory = tmp_path / "project/.agents/alice/memory"
    memory.mkdir(parents=True)
    (memory / "decisions.yaml").write_text("- no entry\n")
    pass_seconds(guard, 60)
    for n in range(4):
        await talk(kernel, "we deploy by staging")
        await guard.run_once()
        values = [hashlib.sha256(f"{n} {k}".encode()).hexdigest() for k in range(20)]
        many = [json.loads(item(key=one, value=f"{one} is {one[:9]} of {one[9:20]}"))["items"][0] for one in values]
        await answer(kernel, guard, json.dumps({"items": many}))
    assert (len(await tray(kernel)), caplog.text.count("guard.not_written")) == (50, 1)
    (memory / "decisions.yaml").unlink()
    guard.paused.clear()
    await guard.run_once()
    assert {row["state"] for row in await tray(kernel)} == {"approved"}


async def test_a_renamed_agent_is_not_asked_about_again(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    configure(tmp_path)
    await kernel.ask("POST", "/agents", {"name": "carol", "model": "mock/x", "mock": [{"text": "hi"}]})
    await talk(kernel, "we deploy by staging", to="carol")
    pass_seconds(guard, 60)
    await guard.run_once()
    await answer(kernel, guard, "{}")
    (tmp_path / "project/.agents/erin.yaml").write_text("model: mock/x\nmock: [{ text: hi }]\n")
    assert (await kernel.ask("POST", "/agents/carol/rename", {"to": "erin"})).status == 200
    await guard.run_once()
    assert await questions(kernel) == []


@pytest.mark.promise("P69")
async def test_of_planted_decisions_in_500_instructions_nearly_all_are_proposed_and_none_twice(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    """The model misses one of thirty, and proposes every tenth a second time, in other letters."""
    configure(tmp_path)
    chance = random.Random(7)
    pass_seconds(guard, 60)
    planted = [f"Decision {n}: {chance.getrandbits(160):x} goes first" for n in range(250)]
    texts = [text for one in planted for text in (one, "how are you today?")]
    seen: list[str] = []
    while texts:
        size = chance.randint(1, 70)
        await talk(kernel, *texts[:size])
        del texts[:size]
        await guard.run_once()
        while asked := await questions(kernel):
            ((instruction, question),) = asked
            shown = re.findall(r"^\[(m\d+)\] user:\n> (Decision .*)$", question, re.MULTILINE)
            again = [(shown[0][0], chance.choice(seen).upper())] if shown and seen and chance.random() < 0.1 else []
            seen += [value for _, value in shown]
            items = [
                {"for": "alice", "kind": "decision", "key": value[:20], "value": value, "messages": [id_]}
                for id_, value in (*again, *shown)
                if chance.random() > 1 / 30
            ]
            await kernel.lease(instruction, instruction)
            await kernel.end(instruction, text=json.dumps({"items": items}))
            await guard.run_once()
        await kernel.services.store.writer.commit(lambda tx: tx.write("UPDATE decisions SET state = 'rejected'", ()))
    count = Counter(row["value"].casefold() for row in await tray(kernel))
    assert set(count.values()) == {1}
    assert len(count.keys() & {one.casefold() for one in planted}) >= 0.9 * len(planted)


SMALL_TALK = ("Hello, how are you today?", "Thanks, that was very quick", "Done.", "ok", "I am still working on it now")


@pytest.mark.promise("P69")
async def test_a_thousand_small_talks_add_nothing_whatever_the_model_makes_of_them(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    configure(tmp_path, ", auto_approve: [decision, pattern, work_log]")
    pass_seconds(guard, 60)
    for _ in range(20):
        await talk(kernel, *(SMALL_TALK[n % len(SMALL_TALK)] for n in range(50)))
        await guard.run_once()
        for instruction, question in await questions(kernel):
            id_ = re.findall(r"\[(m\d+)\]", question)[0]
            made = [{"for": "alice", "kind": "work_log", "key": "k", "value": v, "messages": [id_]} for v in SMALL_TALK]
            await kernel.lease(instruction, instruction)
            await kernel.end(instruction, text=json.dumps({"items": made}))
        await guard.run_once()
    assert await tray(kernel) == []
    assert not (tmp_path / "project/.agents/alice/memory").exists()


def traits(*changes: dict[str, Any]) -> str:
    seen = {"observation": "It explains plans", "instructions": ["i1", "i2", "i3"]}
    return json.dumps(
        {"traits": [{"trait": "expertise", "value": "Query plans", **seen, **change} for change in changes]}
    )


OBSERVES = ", observe: true, soul_evolution: {}"
PRINCIPLE = {"trait": "principles", "value": "Explain trade-offs"}


async def observed(kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path, mode: str) -> None:
    """20 instructions of alice, and the open question about them."""
    configure(tmp_path, OBSERVES.format(mode))
    await talk(kernel, *(f"task {n}" for n in range(19)))
    await guard.run_once()
    assert await questions(kernel) == []
    await talk(kernel, "task 19", reply="because of trade-offs")
    await guard.run_once()


@pytest.mark.promise("P52")
async def test_much_work_leads_to_suggestions_with_evidence_and_only_low_risk_is_applied(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    await observed(kernel, guard, tmp_path, "auto")
    question = await answer(kernel, guard, traits({}, PRINCIPLE))
    assert "[i20] done, asked:\n> task 19\nReply:\n> because of trade-offs" in question
    soul = (await kernel.ask("GET", "/agents/alice/soul")).json
    assert soul["soul"] == {"expertise": ["Query plans"]}
    waiting, applied = soul["proposals"]
    assert (applied["state"], applied["decided_by"], applied["author"], applied["risk"]) == (
        "approved", "auto", "guard", "low",
    )  # fmt: skip
    assert (waiting["state"], waiting["risk"], waiting["messages"]) == ("open", "significant", ["m1", "m4", "m7"])
    newest = soul["versions"][0]
    assert (newest["author"], newest["reason"]) == ("guard", "It explains plans (seen in i1 done, i2 done, i3 done)")
    (need,) = (await kernel.ask("GET", "/needs")).json["items"]
    assert need["actions"][0]["command"] == "awk agent soul alice approve p2"
    back = await kernel.ask("POST", "/agents/alice/soul/rollback", {"version": 1})
    assert back.json["soul"] == {}
    taken = await kernel.ask("POST", "/agents/alice/soul/p2/approve")
    assert taken.json["soul"] == {"principles": ["Explain trade-offs"]}


@pytest.mark.promise("P52")
async def test_with_propose_every_suggestion_waits_and_what_was_rejected_does_not_return(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    await observed(kernel, guard, tmp_path, "disabled")
    assert await questions(kernel) == []
    configure(tmp_path, OBSERVES.format("propose"))
    await guard.run_once()
    await answer(kernel, guard, traits({}))
    assert (await kernel.ask("POST", "/agents/alice/soul/p1/reject")).json["soul"] == {}
    await talk(kernel, *(f"task {n}" for n in range(20)))
    await guard.run_once()
    later = [f"i{n}" for n in range(23, 26)]
    await answer(kernel, guard, traits({"instructions": later}, {**PRINCIPLE, "instructions": ["i1", "i2", "i3"]}))
    assert [row["state"] for row in (await kernel.ask("GET", "/agents/alice/soul")).json["proposals"]] == ["rejected"]


@pytest.mark.promise("P46")
async def test_a_cleared_conversation_is_in_no_question_and_leads_to_no_suggestion(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    await observed(kernel, guard, tmp_path, "auto")
    ((instruction, _),) = await questions(kernel)
    assert (await kernel.ask("POST", "/spaces/dm:alice/clear")).status == 200
    await guard.run_once()
    sql = "SELECT m.text FROM instructions AS i JOIN messages AS m ON m.seq = i.message WHERE 'i' || i.id = ?"
    assert kernel.services.store.reader.now(lambda conn: conn.execute(sql, (instruction,)).get) == ""
    assert (await kernel.ask("GET", "/agents/alice/soul")).json["proposals"] == []


async def in_run(kernel: ServedKernel, more: str) -> list[str]:
    """20 instructions of alice in a run of a workflow with ``more`` in its file. Returns their ids."""
    (kernel.root / ".workflows/review.yaml").write_text(REVIEW + more)
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await talk(kernel, *(f"SECRET task {n}" for n in range(20)), space="review:main#1")
    await kernel.services.memory.guard.run_once()
    sql = "SELECT 'i' || id FROM instructions WHERE space = 'review:main#1' AND state = 'done'"
    return kernel.services.store.reader.now(lambda conn: [str(id_) for (id_,) in conn.execute(sql)])


@pytest.mark.promise("P46")
async def test_work_in_memory_only_is_in_no_question(kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path) -> None:
    configure(tmp_path, OBSERVES.format("auto"))
    assert len(await in_run(kernel, "workspace: { provider: memory }\n")) == 20
    assert await questions(kernel) == []


@pytest.mark.promise("P46")
async def test_a_suggestion_is_cleared_with_the_run_that_it_quotes(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path
) -> None:
    """The guard of the run has the same model as the project's, so that its work is observed."""
    configure(tmp_path, OBSERVES.format("auto"))
    work = await in_run(kernel, GUARD.format("").replace("60s", "1h").replace("auto_store: true, ", ""))
    seen = {"instructions": work[:3], "observation": "It knows the SECRET"}
    await answer(kernel, guard, traits(seen, {**PRINCIPLE, **seen}))
    assert b"SECRET" in (await kernel.ask("GET", "/agents/alice/soul")).body
    await kernel.ask("DELETE", "/workflows/review")
    assert (await kernel.ask("POST", "/spaces/review/clear")).status == 200
    soul = await kernel.ask("GET", "/agents/alice/soul")
    assert (soul.json["soul"], b"SECRET" in soul.body) == ({"expertise": ["Query plans"]}, False)


@pytest.mark.parametrize(("code", "left"), [("busy", 2), ("unknown_agent", 0)])
async def test_an_answer_about_work_is_kept_while_the_store_refuses_commits(
    kernel: ServedKernel, guard: MemoryGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, left: int
) -> None:
    with (tmp_path / "project/.agents/alice.yaml").open("a") as file:
        file.write("soul: { role: critic }\n")
    await observed(kernel, guard, tmp_path, "auto")
    roles = ({"trait": "role", "value": one} for one in ("Judge of plans", "critic"))
    with monkeypatch.context() as patch:
        patch.setattr("kernel.store.souls.observe", Mock(side_effect=Refused(code, "nothing was written")))
        await answer(kernel, guard, traits(*roles))
    await guard.run_once()
    assert len((await kernel.ask("GET", "/agents/alice/soul")).json["proposals"]) == left
