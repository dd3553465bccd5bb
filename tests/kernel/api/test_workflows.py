"""Workflows and runs over REST: started, followed to their end, stopped; a client that leaves stops nothing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import trio

from kernel.store.transitions.runs import stop_workflow
from tests.builders.api import ServedKernel
from tests.kernel.api.client import Events, connected, meanwhile


@asynccontextmanager
async def posting(kernel: ServedKernel, path: str, body: Any, **more: str) -> AsyncGenerator[Events, None]:
    data = msgspec.json.encode(body)
    headers = kernel.headers(Content_Type="application/json", Content_Length=str(len(data)), **more)
    async with connected(kernel.port) as wire:
        await wire.send("POST", path, headers.items(), data)
        head = await wire.event()
        assert (head.status_code, b"text/event-stream") == (200, dict(head.headers)[b"content-type"].split(b";")[0])
        yield Events(wire)


async def stop(kernel: ServedKernel, space: str = "task:main#1", status: str = "done", exit_code: int = 0) -> None:
    """End a run as the service that watches runs would."""
    await kernel.writer.commit(stop_workflow, space, status, exit_code)


async def test_agents_of_a_workflow_are_listed_while_it_runs(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/agents", {"model": "mock/x", "mock": [{"text": "hi"}], "name": "helper"})
    for tag in ("main", "pr-1"):
        assert (await kernel.ask("POST", "/workflows", {"workflow": "review", "tag": tag})).status == 201
    rows = (await kernel.get("/agents"))["agents"]
    assert {row["name"]: (row["source"], row["file"], row["state"]) for row in rows} == {
        "alice": ("file", ".agents/alice.yaml", "idle"),
        "bob@review": ("workflow", None, "idle"),
        "bob@review:pr-1": ("workflow", None, "idle"),
        "helper": ("ephemeral", None, "idle"),
    }
    await kernel.ask("DELETE", "/workflows/review/main")
    names = [row["name"] for row in (await kernel.get("/agents"))["agents"]]
    assert names == ["alice", "bob@review:pr-1", "helper"]


async def test_starting_what_runs_or_is_not_there_is_refused(kernel: ServedKernel) -> None:
    """contracts 7: a name:tag that is live."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    assert (await kernel.ask("POST", "/workflows", {"workflow": "review"})).refusal == (409, "already_running")
    assert (await kernel.ask("POST", "/workflows", {"workflow": "nothing"})).code == "unknown_workflow"
    assert (await kernel.ask("POST", "/run", {"workflow": "review", "tag": "x"})).code == "no_kickoff"
    assert (await kernel.ask("POST", "/workflows", {"workflow": "review", "tag": "../x"})).code == "bad_request"


async def test_a_broken_workflow_file_is_refused_with_every_place(kernel: ServedKernel) -> None:
    """contracts 9: path, line, column, hint."""
    path = kernel.root / ".workflows/bad.yaml"
    path.write_text("agents:\n  bob: { ref: nobody }\nkickof: x\n")
    answer = await kernel.ask("POST", "/workflows", {"workflow": "bad"})
    assert answer.refusal == (422, "bad_definition")
    assert {error["path"] for error in answer.json["errors"]} == {".workflows/bad.yaml"}
    assert (await kernel.get("/runs"))["runs"] == []


@pytest.mark.promise("P19")
async def test_setup_needs_trust(kernel: ServedKernel) -> None:
    """Exit 7 at the client, 403 here; nothing was run."""
    path = kernel.root / ".workflows/shell.yaml"
    path.write_text("agents:\n  alice: { ref: alice }\nsetup:\n  - shell: touch ran\nkickoff: '@alice go'\n")
    assert (await kernel.ask("POST", "/run", {"workflow": "shell"})).refusal == (403, "untrusted")
    assert not (kernel.root / "ran").exists()


async def test_a_run_is_streamed_from_its_acceptance_to_its_report(kernel: ServedKernel) -> None:
    """contracts 4: POST /run; the last event is the report."""
    with trio.fail_after(10):
        async with posting(kernel, "/run", {"workflow": "task"}) as events:
            first = await anext(events)
            assert (first.event, first.data["run"]) == ("accepted", "task:main")
            await stop(kernel)
            seen = [event async for event in events]
    assert {event.data["space"] for event in seen[:-1]} == {"task:main"}
    kinds = [event.data["data"]["kind"] for event in seen if event.event == "message"]
    assert kinds[:2] == ["status", "kickoff"]
    assert (seen[-1].event, seen[-1].data["status"], seen[-1].data["exit_code"]) == ("result", "done", 0)
    assert [message["kind"] for message in seen[-1].data["messages"]] == kinds


@pytest.mark.promise("HF14")
async def test_a_client_that_leaves_does_not_stop_the_run(kernel: ServedKernel) -> None:
    async with posting(kernel, "/run", {"workflow": "task"}) as events:
        await anext(events)
    assert (await kernel.get("/workflows/task"))["state"] == "running"
    assert (await kernel.get("/runs/task:main"))["status"] == "running"
    await stop(kernel, status="failed", exit_code=1)
    report = await kernel.get("/runs/task")
    assert (report["status"], report["exit_code"]) == ("failed", 1)


@pytest.mark.parametrize(
    ("query", "code"),
    [("", 130), ("?signal=INT", 130), ("?signal=TERM", 143), ("?signal=HUP", 129), ("?signal=PIPE", 141)],
)
async def test_a_run_that_a_client_stopped_ends_with_the_clients_exit_code(
    query: str, code: int, kernel: ServedKernel
) -> None:
    """contracts 7: 130 and 143, in the report as in the shell."""
    async with posting(kernel, "/run", {"workflow": "task"}) as events:
        await anext(events)
        assert (await kernel.ask("DELETE", f"/workflows/task/main{query}")).status == 200
    report = await kernel.get("/runs/task:main")
    assert (report["status"], report["exit_code"]) == ("cancelled", code)
    assert (await kernel.ask("DELETE", "/workflows/task/main?signal=KILL")).status == 400


async def test_a_message_is_streamed_to_its_result(kernel: ServedKernel) -> None:
    with trio.fail_after(10):
        async with posting(kernel, "/run", {"to": "alice", "text": "work"}) as events:
            accepted = await anext(events)
            (instruction,) = accepted.data["instruction_ids"]
            await kernel.lease(instruction, "worker-token")
            await kernel.end(instruction)
            seen = [event async for event in events]
    assert accepted.event == "accepted"
    assert [event.event for event in seen][-2:] == ["instruction.ended", "result"]
    assert {event.data["instruction"] for event in seen[:-1]} == {instruction}
    assert [(row["status"], row["text"]) for row in seen[-1].data["results"]] == [("done", "the reply")]


@pytest.mark.promise("LF04")
async def test_a_client_that_does_not_wait_for_its_answer_is_forgotten(kernel: ServedKernel) -> None:
    async with connected(kernel.port) as wire:
        body = b'{"to": "alice", "text": "work"}'
        fields = {**kernel.headers(), "Content-Type": "application/json", "Content-Length": str(len(body))}
        await wire.send("POST", "/serve", fields.items(), body)
        await kernel.until_watched()
    await kernel.until_watched(watched=False)


async def test_serve_waits_and_gives_the_report_as_one_answer(kernel: ServedKernel) -> None:
    """contracts 4: POST /serve, for a message and for a workflow."""
    serve = partial(meanwhile, kernel.ask, "POST", "/serve")
    async with serve({"to": "alice", "text": "work"}) as of_message, serve({"workflow": "task"}) as of_workflow:
        with trio.fail_after(10):
            await until_running(kernel, "task")
            await kernel.lease("i1", "worker-token")
            await kernel.end("i1")
            await stop(kernel)
    assert of_message[0].json["results"][0]["text"] == "the reply"
    assert (of_workflow[0].json["schema"], of_workflow[0].json["status"]) == ("awk/run/1", "done")


async def test_serve_of_a_message_that_wakes_nobody_ends_at_once(kernel: ServedKernel) -> None:
    """A message without a mention is pull only."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    answer = await kernel.ask("POST", "/serve", {"to": "@review", "text": "just so you know"})
    assert (answer.status, answer.json["results"]) == (200, [])


@pytest.mark.promise("P8")
async def test_serve_is_refused_when_the_kernel_stops_first(kernel: ServedKernel) -> None:
    async with meanwhile(kernel.ask, "POST", "/serve", {"to": "alice", "text": "work"}) as answers:
        with trio.fail_after(5):
            while not (await kernel.get("/agents/alice/queue"))["instructions"]:
                pass
            kernel.services.kernel.shutdown.closing.set()
    assert answers[0].refusal == (503, "stopping")


async def test_what_is_neither_a_workflow_nor_a_message_is_refused(kernel: ServedKernel) -> None:
    for body in ({}, {"workflow": "task", "to": "alice", "text": "x"}, {"to": "alice"}, {"text": "x"}):
        assert (await kernel.ask("POST", "/run", body)).code == "bad_request"


async def until_running(kernel: ServedKernel, workflow: str) -> None:
    while (await kernel.ask("GET", f"/workflows/{workflow}")).status != 200:
        pass
    while not (await kernel.get("/agents/alice/queue"))["instructions"]:
        pass
