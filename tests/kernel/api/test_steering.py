"""Steering work over REST: agents, workflows and instructions are held back, let go, taken back and tried again."""

from typing import Any

import apsw
import pytest
import trio

from kernel.operations.context import AttemptActivity
from kernel.services.worker_link import Elapsed
from kernel.store.agents import set_agent_state
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from kernel.store.transitions.lease import lease
from protocol.ipc import Entry
from protocol.names import AgentKey
from tests.builders.api import ServedKernel
from tests.kernel.api.client import meanwhile
from tests.kernel.api.test_approvals import asked
from tests.kernel.api.test_workflows import posting

SEND = {"to": "alice", "text": "work"}


async def shown(kernel: ServedKernel, instruction: str) -> dict[str, Any]:
    found: dict[str, Any] = await kernel.get(f"/instructions/{instruction}")
    return found


async def failed(kernel: ServedKernel) -> str:
    instruction = await kernel.attempt()
    writer = kernel.writer
    await writer.commit(journal, instruction, 1, Entry(k=0, kind="reply", text="so far"))
    await writer.commit(
        close, instruction, 1, status="failed", cause="invalid", exit="1", stderr_tail="Traceback: boom"
    )
    return instruction


async def test_what_failed_shows_its_last_words_and_is_retried(kernel: ServedKernel) -> None:
    """contracts 9: the tail of stderr is shown; retry keeps the steps unless it is fresh."""
    instruction = await failed(kernel)
    assert (await shown(kernel, instruction))["attempts"][0]["stderr_tail"] == "Traceback: boom"
    kept = await kernel.ask("POST", f"/instructions/{instruction}/retry", {"fresh": False})
    assert (kept.json["status"], kept.json["standing"], len(kept.json["steps"])) == ("queued", "runnable", 1)
    assert (await kernel.ask("POST", f"/instructions/{instruction}/retry")).refusal == (409, "conflict")
    assert (await kernel.get("/dead"))["instructions"] == []
    queue = await kernel.get("/agents/alice/queue")
    assert ([row["id"] for row in queue["instructions"]], queue["last"]) == ([instruction], None)


async def test_the_queue_of_an_idle_agent_names_its_last_work(kernel: ServedKernel) -> None:
    for last in (None, "i1", "i2"):
        assert (await kernel.get("/agents/alice/queue"))["last"] == last
        await kernel.end(await kernel.attempt(token=f"token-{last}"))


async def test_calls_that_failed_are_shown_with_what_they_gave(kernel: ServedKernel) -> None:
    """contracts 7: a refusal is told from a success, in the events and afterwards; also where it is long."""
    instruction = await kernel.attempt()
    for entry in (
        Entry(k=0, kind="reply"),
        Entry(k=1, kind="tool", name="read", text="fine"),
        Entry(k=2, kind="reply"),
        Entry(k=3, kind="tool", name="write", text="not allowed", is_error=True, refused="denied"),
        Entry(k=4, kind="tool", name="bash", text="x" * 100_000, is_error=True),
    ):
        await kernel.writer.commit(journal, instruction, 1, entry)
    first, second = (await shown(kernel, instruction))["steps"]
    assert first["failed"] == []
    assert [(call["tool"], call["why"], call["text"][:11]) for call in second["failed"]] == [
        ("write", "denied", "not allowed"),
        ("bash", "failed", "x" * 11),
    ]


async def test_a_fresh_retry_forgets_the_steps(kernel: ServedKernel) -> None:
    """contracts 7: retry ID --fresh."""
    instruction = await failed(kernel)
    fresh = await kernel.ask("POST", f"/instructions/{instruction}/retry", {"fresh": True})
    assert (fresh.json["status"], fresh.json["steps"]) == ("queued", [])


@pytest.mark.parametrize(
    ("what", "state"), [("pause", "paused"), ("stop", "stopped"), ("resume", "idle"), ("reset", "idle")]
)
async def test_an_agent_is_held_and_let_go(kernel: ServedKernel, what: str, state: str) -> None:
    """contracts 4: POST /agents/:name/{reset,pause,resume,stop}, also of an agent whose file has just come."""
    (kernel.root / ".agents/carol.yaml").write_text("model: mock/x\nmock: [{ text: hi }]\n")
    for name in ("alice", "carol"):
        for _ in range(2):
            answer = await kernel.ask("POST", f"/agents/{name}/{what}")
            assert (answer.status, answer.json["state"]) == (200, state)
    assert (await kernel.ask("POST", f"/agents/nobody/{what}")).code == "unknown_agent"


async def test_a_stopped_agent_keeps_its_messages_until_it_is_resumed(kernel: ServedKernel) -> None:
    """contracts 7: the work is queued, and its sender is told what it waits for."""
    await kernel.ask("POST", "/agents/alice/stop")
    receipt = (await kernel.ask("POST", "/messages", SEND)).json
    (instruction,) = receipt["instruction_ids"]
    assert receipt["held"] == {instruction: "stopped"}
    assert (await shown(kernel, instruction))["standing"] == "person"
    assert [row["state"] for row in (await kernel.get("/ps"))["agents"]] == ["stopped"]
    await kernel.ask("POST", "/agents/alice/resume")
    assert (await shown(kernel, instruction))["standing"] == "runnable"
    assert (await kernel.ask("POST", "/messages", SEND)).json["held"] == {}


@pytest.mark.promise("TF21")
async def test_a_restart_ends_what_the_agent_does_and_clears_what_kept_it(kernel: ServedKernel) -> None:
    """contracts 7: after `restart TARGET` its backoff is over."""

    def back_off(tx: Transaction) -> None:
        tx.conn.execute("UPDATE agents SET crash_streak = 3, resume_at_ms = ? WHERE key = 'alice'", (tx.now_ms + 9000,))

    await kernel.writer.commit(back_off)
    assert [row["state"] for row in (await kernel.get("/ps"))["agents"]] == ["backoff"]
    assert (await kernel.ask("POST", "/agents/alice/restart")).json["state"] == "idle"
    assert kernel.interrupted == ["alice"]
    assert [row["state"] for row in (await kernel.get("/ps"))["agents"]] == ["idle"]


async def test_an_agent_is_shown_and_changed_in_the_words_of_ps(kernel: ServedKernel) -> None:
    """contracts 9: one set of states, wherever an agent is shown; what was decided is said at once."""

    def back_off(tx: Transaction) -> None:
        tx.conn.execute("UPDATE agents SET resume_at_ms = ? WHERE key = 'alice'", (tx.now_ms + 9000,))

    await kernel.writer.commit(back_off)
    (row,) = (await kernel.get("/ps"))["agents"]
    assert row["state"] == "backoff" and row["until"]
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    for space in ("dm:alice", "review:main"):
        members = (await kernel.get(f"/spaces/{space}/members"))["members"]
        assert members[0]["state"] == "backoff"
    for answer in [await kernel.ask("GET", "/agents/alice"), await kernel.ask("POST", "/agents/alice/resume")]:
        assert [answer.json[key] for key in ("state", "reason", "until")] == [
            row[key] for key in ("state", "reason", "until")
        ]
    await kernel.ask("POST", "/agents/alice/reset")
    await kernel.attempt()
    assert (await kernel.get("/agents/alice"))["state"] == "running"
    assert (await kernel.ask("POST", "/agents/alice/pause")).json["state"] == "paused"
    assert (await kernel.ask("POST", "/agents/alice/resume")).json["state"] == "running"


async def test_a_restart_that_is_asked_for_again_does_not_stop_the_new_worker(kernel: ServedKernel) -> None:
    """contracts 4: a replayed Idempotency-Key changes nothing and gets the same answer."""
    keyed = kernel.headers() | {"Idempotency-Key": "k1"}
    answers = [(await kernel.ask("POST", "/agents/alice/restart", headers=keyed)).json for _ in range(2)]
    assert answers[0] == answers[1]
    assert kernel.interrupted == ["alice"]
    await kernel.ask("POST", "/agents/alice/restart", headers=kernel.headers() | {"Idempotency-Key": "k2"})
    assert kernel.interrupted == ["alice", "alice"]


async def test_why_an_agent_is_in_error_is_shown_where_people_look_until_it_is_reset(kernel: ServedKernel) -> None:
    await kernel.writer.commit(set_agent_state, AgentKey("alice"), "error", "5 crashes in 60 s")
    (row,) = (await kernel.get("/ps"))["agents"]
    status = await kernel.get("/status")
    assert (row["state"], row["reason"]) == ("error", "5 crashes in 60 s")
    assert (status["state"], status["held"][0]["reason"]) == ("degraded", "5 crashes in 60 s")
    assert (await kernel.ask("POST", "/agents/alice/reset")).json["state"] == "idle"


async def test_a_workflow_is_paused_resumed_and_continued(kernel: ServedKernel) -> None:
    """contracts 4: POST /workflows/:name[/:tag]/{pause,resume,continue}."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    for path in ("/workflows/review", "/workflows/review/main"):
        assert (await kernel.ask("POST", f"{path}/pause")).json["paused"] is True
        instruction = await kernel.send("@review", "@alice work")
        assert (await shown(kernel, instruction))["waits_for"] == "paused"
        assert (await kernel.ask("POST", f"{path}/continue")).json["paused"] is True
        assert (await kernel.ask("POST", f"{path}/resume")).json["paused"] is False
        assert (await shown(kernel, instruction))["status"] == "queued"
    assert (await kernel.ask("POST", "/workflows/review/pr-1/pause")).code == "workflow_not_running"


async def unblocked(kernel: ServedKernel, target: str) -> tuple[Any, ...]:
    done = (await kernel.ask("POST", "/unblock", {"target": target})).json
    return tuple(done[name] for name in ("action", "subject", "because", "instructions"))


async def test_unblock_chooses_by_the_state_of_the_target(kernel: ServedKernel) -> None:
    """An agent, a workflow through its member, dead work by its id and by its agent; a second time nothing is left."""
    instruction = await kernel.send("bob@review")
    for word, path in (("paused", "/workflows/review/pause"), ("stopped", "/agents/bob@review:main/stop")):
        subject = "@review" if word == "paused" else "bob@review"
        for target in ("bob@review", "@review", instruction):
            await kernel.ask("POST", path)
            assert await unblocked(kernel, target) == (
                "resume", subject if target != instruction or word == "paused" else "bob@review:main#1", word, []
            )  # fmt: skip
            assert (await shown(kernel, instruction))["standing"] == "runnable"
            refused = await kernel.ask("POST", "/unblock", {"target": target})
            assert (refused.refusal, "is not blocked" in refused.json["detail"]) == ((409, "conflict"), True)
    for target in ("i2", "alice"):
        dead = await failed(kernel) if target == "i2" else "i2"
        assert dead == "i2"
        assert await unblocked(kernel, target) == ("retry", target, "failed" if target == "i2" else "dead", ["i2"])
        if target == "i2":
            await kernel.lease("i2", "again")
            await kernel.writer.commit(close, "i2", 2, status="failed", cause="invalid")


async def test_unblock_renews_a_limit_and_resets_an_error(kernel: ServedKernel) -> None:
    def spend(tx: Transaction) -> None:
        tx.conn.execute("UPDATE workflows SET limited = 1, limited_by = 'hops' WHERE state = 'running'")
        tx.conn.execute("UPDATE agents SET state = 'error', reason = 'crashes' WHERE key = 'alice'")

    await kernel.send("bob@review")
    await kernel.writer.commit(spend)
    assert await unblocked(kernel, "@review") == ("continue", "@review", "hops", [])
    assert await unblocked(kernel, "@review") == ("reset", "alice@review", "error", [])
    assert (await kernel.ask("POST", "/unblock", {"target": "@review"})).code == "conflict"


@pytest.mark.parametrize("target", ["alice", "i1"])
async def test_unblock_restarts_an_agent_whose_step_is_silent(kernel: ServedKernel, target: str) -> None:
    """Only after ``timeouts.quiet``, and neither for another agent nor for work that waits behind the step."""
    leased = await kernel.writer.commit(lease, await kernel.send(), b"%032d" % 1)
    behind = [await kernel.send("bob@review"), await kernel.send()]
    for is_quiet, others in ((False, [target, *behind]), (True, behind)):
        elapsed = Elapsed(age_s=9, step_age_s=6, silent_s=4, is_quiet=is_quiet)
        kernel.live["i1"] = AttemptActivity(pid=None, elapsed=elapsed, leased=leased)
        for other in others:
            refused = (await kernel.ask("POST", "/unblock", {"target": other})).json["detail"]
            assert refused == f"{other} is not blocked"
    assert kernel.interrupted == []
    assert await unblocked(kernel, target) == ("restart", "alice", "silent", [])
    assert kernel.interrupted == ["alice"]


async def test_unblock_decides_nothing_for_the_user_and_refuses_what_is_not_there(kernel: ServedKernel) -> None:
    await kernel.attempt()
    await asked(kernel)
    await kernel.writer.commit(lambda tx: tx.conn.execute("UPDATE instructions SET waits_for = 'approval'"))
    for target in ("alice", "i1"):
        refused = await kernel.ask("POST", "/unblock", {"target": target})
        assert (refused.code, refused.json["hint"]) == ("conflict", "decide the call: awk needs --approvals")
    for target, code in (
        ("nobody", "unknown_agent"), ("i99", "not_found"), ("bob@review", "workflow_not_running"),
        ("a b", "bad_request"),
    ):  # fmt: skip
        assert (await kernel.ask("POST", "/unblock", {"target": target})).code == code
    assert (await kernel.get("/approvals"))["total"] == 1


async def test_an_inbox_shows_what_is_not_handled(kernel: ServedKernel) -> None:
    """contracts 9: inbox, by space."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await kernel.send()
    await kernel.send("@review", "@alice work")
    for query, space in (("", "dm:alice"), ("?space=review:main", "review:main")):
        inbox = await kernel.get(f"/agents/alice/inbox{query}")
        assert (inbox["agent"], inbox["space"]) == ("alice", space)
        assert [(row["from"], row["state"]) for row in inbox["deliveries"]] == [("user", "queued")]
    assert (await kernel.ask("GET", "/agents/nobody/inbox")).code == "unknown_agent"


@pytest.mark.promise("P26")
async def test_who_waits_for_an_answer_is_told_when_only_a_person_can_help(kernel: ServedKernel) -> None:
    """Serve and run end when the agent goes into error, and say so; they never hang."""
    async with meanwhile(kernel.ask, "POST", "/serve", SEND) as answers:
        with trio.fail_after(5):
            while not (await kernel.get("/agents/alice/queue"))["instructions"]:
                pass
        async with posting(kernel, "/run", SEND) as stream:
            assert (await anext(stream)).event == "accepted"
            await kernel.writer.commit(set_agent_state, AgentKey("alice"), "error", "5 crashes")
            with trio.fail_after(5):
                last = [event async for event in stream][-1]
    for report in (answers[0].json, last.data):
        (result,) = report["results"]
        assert (result["status"], result["waits_for"]) == ("waiting", "error")


@pytest.mark.promise("P26")
async def test_a_wait_for_a_paused_agent_ends_at_once(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/agents/alice/pause")
    (result,) = (await kernel.ask("POST", "/serve", SEND)).json["results"]
    assert (result["status"], result["waits_for"]) == ("waiting", "paused")
    assert len((await kernel.get("/agents/alice/queue"))["instructions"]) == 1


async def test_a_field_that_a_route_does_not_know_is_refused_where_it_takes_none_too(kernel: ServedKernel) -> None:
    """A body that nobody reads was meant to do something: 400, and nothing is done."""
    bodies: tuple[object, ...] = ({"until": "tomorrow"}, [], "now", {"agents": ["bob"]})
    for body in bodies:
        assert (await kernel.ask("POST", "/agents/alice/pause", body)).refusal == (400, "bad_request")
    assert (await kernel.get("/agents/alice"))["state"] == "idle"
    assert (await kernel.ask("POST", "/agents/alice/pause", {})).status == 200
    assert (await kernel.get("/agents/alice"))["state"] == "paused"


@pytest.mark.promise("SF03", "SF11")
@pytest.mark.parametrize("on_disk", [True])
async def test_a_kernel_that_cannot_write_is_not_ready_and_says_why_until_it_can(kernel: ServedKernel) -> None:
    services = kernel.services
    assert (await kernel.ask("GET", "/ready")).status == 200

    def patience(tx: Transaction, milliseconds: int) -> None:
        tx.conn.set_busy_timeout(milliseconds)

    await services.store.writer.commit(patience, 0)
    stranger = apsw.Connection(str(services.files.catalog.root.parent / "kernel.db"))
    stranger.execute("BEGIN IMMEDIATE")
    assert (await kernel.ask("POST", "/messages", {"to": "alice", "text": "x"})).code == "busy"
    ready = await kernel.ask("GET", "/ready")
    assert (ready.status, ready.json) == (503, {"ready": False, "status": "busy"})
    status = await kernel.get("/status")
    assert (status["state"], status["storage"]) == ("degraded", "busy")
    assert "another program has locked the database" in status["notice"]
    stranger.execute("ROLLBACK")
    stranger.close()
    assert await kernel.get("/ready") == {"ready": True, "status": "ok"}
    assert (await kernel.get("/status"))["state"] == "up"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/agents/alice/stop"), ("DELETE", "/workflows/review"), ("DELETE", "/workflows/review/main")],
)
async def test_a_stop_is_answered_when_nothing_runs_any_more_unless_nobody_wants_to_wait(
    kernel: ServedKernel, method: str, path: str
) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    tree_gone = trio.Event()
    kernel.awaited.append(tree_gone)
    assert (await kernel.ask(method, f"{path}?wait=no")).status == 400
    with kernel.feed.subscribe() as events:
        async with meanwhile(kernel.ask, method, path) as answers:
            await anext(events)  # it is stopped, and its tree is not gone
            await trio.testing.wait_all_tasks_blocked()
            assert answers == []
            tree_gone.set()
    assert answers[0].json["state"] == "stopped"
    if method == "POST":
        kernel.awaited.append(trio.Event())
        assert (await kernel.ask(method, f"{path}?wait=false")).status == 200
