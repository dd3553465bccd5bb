"""What the read routes tell: process table, status, spaces, instructions, providers."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
import trio

from kernel.operations.context import AttemptActivity
from kernel.operations.resource_usage import ResourceSampler
from kernel.store.agents import remove_agent
from kernel.store.transaction import Transaction
from protocol.names import AgentKey
from tests.builders.api import ServedKernel, serve_kernel

FIVE_REPLIES = """
INSERT INTO entries (instruction, k, epoch, kind, body, at_ms)
SELECT 1, value, 1, 'reply', CAST('{"kind": "reply", "text": "step"}' AS BLOB), 5 FROM json_each('[7, 8, 10, 11, 12]')
"""
CHILD = "import time\nwhile time.process_time() < 0.1: pass\nprint(0, flush=True); input()"
WORKER = f"""
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    child.stdout.readline()
    print("up", flush=True)
    input()
    child.communicate(b"0")
"""


async def test_the_process_table_shows_what_the_tree_of_a_worker_uses(kernel: ServedKernel) -> None:
    """contracts 9: pid, doing, CPU and RSS of the whole tree."""
    instruction = await kernel.attempt()
    piped = partial(trio.lowlevel.open_process, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with trio.fail_after(10):
        worker = await piped([sys.executable, "-c", WORKER])
        assert worker.stdin is not None and worker.stdout is not None
        await worker.stdout.receive_some()
        kernel.live[instruction] = AttemptActivity(pid=worker.pid, doing="thinking")
        (row,) = (await kernel.get("/ps"))["agents"]
        alone = psutil.Process(worker.pid).memory_info().rss
        await worker.stdin.send_all(b"\n")
        await worker.wait()
    assert (row["name"], row["state"], row["pid"], row["doing"]) == ("alice", "running", worker.pid, "thinking")
    assert row["rss_bytes"] > alone * 1.3, "the child of the worker counts too"
    assert row["cpu_percent"] > 0


def test_cpu_is_a_rate_since_the_last_look_and_a_dead_root_is_left_out() -> None:
    table = ResourceSampler()
    now_ms = 4_000_000_000_000
    assert table.measure({"me": os.getpid(), "gone": 2**22 + 1}, now_ms).keys() == {"me"}
    used = sum(os.times()[:2])
    while sum(os.times()[:2]) < used + 0.05:
        pass
    assert 4.0 <= table.measure({"me": os.getpid()}, now_ms + 1000)["me"].cpu_percent <= 100.0


async def test_an_agent_without_an_attempt_is_idle_and_has_no_pid(kernel: ServedKernel) -> None:
    (row,) = (await kernel.get("/ps"))["agents"]
    assert (row["name"], row["state"], row["pid"], row["rss_bytes"]) == ("alice", "idle", None, 0)


async def test_more_idle_agents_than_asked_for_are_only_counted(kernel: ServedKernel) -> None:
    for name in ("bob", "carl"):
        (kernel.root / f".agents/{name}.yaml").write_text("backend: mock\nmock: [{text: hi}]\n")
        await kernel.ask("POST", f"/agents/{name}/pause" if name == "bob" else f"/agents/{name}/reset")
    (kernel.root / ".agents/carl.yaml").write_text("mok: 1\n")
    few, most = await kernel.get("/ps?idle=1"), await kernel.get("/ps?idle=2")
    assert ([row["name"] for row in few["agents"]], few["idle"]) == (["bob"], 2), "a broken file hides no valid agent"
    assert (len(most["agents"]), most["idle"]) == (3, 0)


async def test_ps_names_agents_as_they_can_be_sent_to(kernel: ServedKernel) -> None:
    """contracts 9: space|null; the member's name in the space that is shown, and none where there are several."""
    folder = kernel.root / ".workflows"
    (folder / "al.yaml").write_text("agents:\n  boss: { ref: alice }\n")
    await kernel.ask("POST", "/workflows", {"workflow": "al"})
    (row,) = (await kernel.get("/ps"))["agents"]
    assert (row["name"], row["space"]) == ("boss", "al:main")
    (alone,) = (await kernel.get("/spaces/dm:alice/members"))["members"]
    assert (alone["name"], alone["agent"]) == ("alice", "alice")
    target = f"{row['name']}@{row['space']}"
    assert (await kernel.ask("POST", "/messages", {"to": target, "text": "work"})).status == 202
    await kernel.ask("POST", "/workflows", {"workflow": "al", "tag": "two"})
    (row,) = (await kernel.get("/ps"))["agents"]
    assert (row["name"], row["space"]) == ("alice", None)
    assert (await kernel.get("/agents/alice"))["state"] == row["state"]


async def test_a_member_is_named_by_its_target_also_if_it_has_a_file(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    at_home = await kernel.send("alice")
    for name, key in (("alice@review", "alice"), ("bob@review:main", "bob@review:main")):
        one = await kernel.get(f"/ps?agent={name}")
        assert [row["name"] for row in one["agents"]] == [key.partition("@")[0]]
        assert one["queue"] == await kernel.get(f"/agents/{name}/queue") == await kernel.get(f"/agents/{key}/queue")
        assert [row["id"] for row in one["queue"]["instructions"]] == ([at_home] if key == "alice" else [])
    assert (await kernel.get("/ps?agent=nobody"))["agents"] == []
    stranger = await kernel.ask("GET", "/agents/zoe@review/queue")
    assert stranger.refusal == (404, "not_a_participant")
    assert "alice" in stranger.json["hint"] and "bob" in stranger.json["hint"]


def write_replies(tx: Transaction) -> None:
    tx.conn.execute(FIVE_REPLIES).fetchall()


async def test_the_last_entries_come_with_their_instruction_and_its_question(kernel: ServedKernel) -> None:
    instruction = await kernel.attempt()
    await kernel.writer.commit(write_replies)
    whole = await kernel.get(f"/instructions/{instruction}/entries")
    last = await kernel.get(f"/instructions/{instruction}/entries?newest=true&limit=2&details=true")
    assert [one["n"] for one in last["entries"]] == [one["n"] for one in whole["entries"]][-2:]
    assert (last["total"], last["start"], last["next"]) == (5, whole["entries"][0]["n"] - 1, None)
    assert last["instruction"] == await kernel.get(f"/instructions/{instruction}")
    assert (whole["instruction"], last["messages"]) == (None, [])
    (kernel.root / ".agents/carol.yaml").write_text("backend: human\n")
    asked = await kernel.send("carol", "may we?")
    (question,) = (await kernel.get(f"/instructions/{asked}/entries?details=true"))["messages"]
    assert question["text"] == "may we?"


async def test_status_can_be_about_one_target(kernel: ServedKernel) -> None:
    """contracts 7: status [TARGET]; a workflow that was stopped is down, who was never there is not found."""
    assert (await kernel.ask("GET", "/status?space=review:main")).code == "workflow_not_running"
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    one = await kernel.get("/status?agent=alice")
    assert (one["state"], one["agents"], one["workflows"]) == ("up", {"idle": 1}, [])
    both = await kernel.get("/status?space=review:main")
    assert (both["state"], both["agents"], len(both["workflows"])) == ("up", {"idle": 2}, 1)
    assert (await kernel.get("/status?space=review:main&agent=bob"))["agents"] == {"idle": 1}
    assert (await kernel.ask("GET", "/status?space=review:main&agent=olga")).code == "not_a_participant"
    assert (await kernel.ask("GET", "/status?agent=olga")).code == "unknown_agent"
    await kernel.ask("DELETE", "/workflows/review")
    assert (await kernel.get("/status?space=review:main"))["state"] == "down"


async def test_status_says_what_is_wrong_with_the_project(kernel: ServedKernel) -> None:
    root = kernel.root
    assert (await kernel.get("/status"))["broken"] == []
    (root / "moniro.yaml").write_text("limits: {wokers: 3}\n")
    (wrong,) = (await kernel.get("/status"))["broken"]
    assert (wrong["path"], wrong["line"]) == ("moniro.yaml", 1)
    assert "wokers" in wrong["message"]
    (root / "moniro.yaml").unlink()
    (root / ".agents/alice.yaml").write_text("model: 3\n")
    (root / ".workflows/task.yaml").write_text("agents: {}\n")
    status = await kernel.get("/status")
    assert {one["path"] for one in status["broken"]} == {".agents/alice.yaml", ".workflows/task.yaml"}
    assert "awk validate" in status["notice"]


@pytest.mark.promise("XF16")
async def test_a_space_that_never_was_is_not_found(kernel: ServedKernel) -> None:
    assert (await kernel.ask("GET", "/spaces/dm:nobody/channel")).code == "unknown_agent"
    assert (await kernel.ask("GET", "/spaces/nothing:main/members")).code == "workflow_not_running"
    members = (await kernel.get("/spaces/dm:alice/members"))["members"]
    assert members == [{"name": "alice", "state": "idle", "agent": "alice", "status": None}]


@pytest.mark.promise("P18")
async def test_providers_tell_whether_a_key_is_set_and_never_the_key(tmp_path: object) -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-secret", "OURS_KEY": "sk-ours"}
    async with serve_kernel(Path(str(tmp_path)), environ) as kernel:
        own = "providers:\n  ours: { base_url: 'http://127.0.0.1:9/v1', api_key: $OURS_KEY }\n"
        (kernel.root / "moniro.yaml").write_text(own)
        answer = await kernel.ask("GET", "/providers")
    rows = {row["name"]: row for row in answer.json["providers"]}
    assert (rows["anthropic"]["key_set"], rows["openai"]["key_set"], rows["ours"]["key_set"]) == (True, False, True)
    assert (rows["ours"]["source"], rows["ours"]["dialect"]) == ("project", "openai")
    assert b"sk-" not in answer.body


async def test_a_space_that_never_was_says_how_to_start_it(kernel: ServedKernel) -> None:
    """contracts 2: the error names the command that starts it, with its tag."""
    for space, command in (("review:main", "awk start review"), ("review:pr-1", "awk start review --tag pr-1")):
        refused = await kernel.ask("GET", f"/spaces/{space}/channel")
        assert (refused.status, refused.json["hint"]) == (404, f"start it: {command}")


async def test_a_workflow_that_there_is_not_is_not_to_be_started(kernel: ServedKernel) -> None:
    """contracts 2: a start is advised only where it would start something; else what there is."""
    asked: list[tuple[str, str, dict[str, str] | None]] = [
        ("POST", "/messages", {"to": "@{}", "text": "hi"}),
        ("POST", "/messages", {"to": "alice@{}", "text": "hi"}),
        ("POST", "/serve", {"to": "@{}", "text": "hi"}),
        ("POST", "/workflows/{}/main/pause", None),
        ("POST", "/workflows/{}/main/continue", None),
        ("GET", "/workflows/{}", None),
        ("GET", "/spaces/{}:main/channel", None),
    ]
    for method, path, body in asked:
        for name, hint in (
            ("review", "start it: awk start review"),
            ("reviw", "did you mean review?"),
            ("nosuch", "workflows here: review, task"),
        ):
            given = None if body is None else {key: text.format(name) for key, text in body.items()}
            refused = await kernel.ask(method, path.format(name), given)
            assert (refused.code, refused.json["hint"]) == ("workflow_not_running", hint), path
    (kernel.root / "flow.yaml").write_text("agents: {alice: {ref: alice}}\n")
    assert (await kernel.ask("DELETE", "/workflows/nosuch")).json["hint"] == "running: none"
    await kernel.ask("POST", "/workflows", {"workflow": "./flow.yaml"})
    assert (await kernel.ask("POST", "/messages", {"to": "@flwo", "text": "hi"})).json["hint"] == "did you mean flow?"
    assert (await kernel.ask("DELETE", "/workflows/nosuch")).json["hint"] == "running: @flow"
    await kernel.ask("DELETE", "/workflows/flow")
    assert "awk start flow.yaml" in (await kernel.ask("POST", "/messages", {"to": "@flow", "text": "hi"})).json["hint"]


async def test_what_was_said_to_an_agent_is_read_after_its_file_is_gone(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "hello"})
    await kernel.ask("POST", "/instructions/i1/cancel")
    (kernel.root / ".agents/alice.yaml").unlink()
    await kernel.writer.commit(remove_agent, AgentKey("alice"))
    (message,) = (await kernel.get("/spaces/dm:alice/channel"))["messages"]
    assert message["text"] == "hello"
    await kernel.ask("DELETE", "/agents/alice")
    assert (await kernel.ask("GET", "/spaces/dm:alice/channel")).code == "unknown_agent"
