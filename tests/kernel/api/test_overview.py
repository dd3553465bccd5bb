"""The project at a glance: GET /overview, /spending and /search, and the timeline and graph of a run."""

import fcntl
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kernel.operations import overview
from kernel.store.transaction import Transaction
from kernel.store.transitions.close import close
from kernel.store.transitions.journal import journal
from osfiles.safe_open import closing_descriptor
from protocol.discovery import LOCK, PROJECT, RECORD, project_state
from protocol.instruction import Usage
from protocol.ipc import Entry
from tests.builders.api import ServedKernel, serve_kernel

SPENT = Usage(input_tokens=10, cache_read_tokens=5, output_tokens=2, cost_usd=0.5)


def noted(home: Path, root: Path, name: str = PROJECT, mode: int = 0o600, **more: str) -> Path:
    """Write a file of a kernel of the project at ``root``, and return the folder of its state."""
    state = Path(project_state(str(home), str(root)))
    state.mkdir(parents=True, exist_ok=True)
    root.mkdir(exist_ok=True)
    (state / name).write_text(json.dumps({"project": str(root), "token": "secret of another", **more}))
    (state / name).chmod(mode)
    return state


def neighbours(home: Path, folder: Path) -> tuple[list[Path], list[Path]]:
    """Projects that run, are stopped and have an unusable address, with the locks of those that run; and others that
    are not listed: open to others, copied, or gone."""
    roots = [folder / name for name in ("runs", "stopped", "strange", "open to others", "copied", "gone")]
    runs, stopped, strange, shared, copied, gone = roots
    locks = [
        noted(home, runs, RECORD, url="http://127.0.0.1:9") / LOCK,
        noted(home, strange, url="http://127.0.0.1:9@evil.example") / LOCK,
    ]
    noted(home, shared, RECORD, 0o644)
    noted(home, gone)
    gone.rmdir()
    noted(home, folder / "not UTF-8 \udcff")  # no answer can contain it
    Path(project_state(str(home), str(copied))).symlink_to(noted(home, stopped, RECORD, url="http://127.0.0.1:9"))
    for lock in locks:
        lock.touch()
    return roots[:3], locks


async def test_all_projects_of_the_user_are_listed_without_their_tokens(kernel: ServedKernel, tmp_path: Path) -> None:
    (runs, stopped, strange), locks = neighbours(Path(kernel.services.kernel.identity.home), tmp_path)
    with ExitStack() as held:
        for lock in locks:
            descriptor = held.enter_context(closing_descriptor(os.open(lock, os.O_RDWR)))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        answer = await kernel.ask("GET", "/projects")
    assert answer.json["projects"] == [
        {
            "root": str(runs),
            "running": True,
            "page": "http://127.0.0.1:9/page",
            "command": f"awk open --project {runs}",
        },
        {"root": str(stopped), "running": False, "page": None, "command": f"awk start --project {stopped}"},
        {"root": str(strange), "running": True, "page": None, "command": f"awk status --project {strange}"},
    ]
    assert b"secret" not in answer.body


async def test_projects_beyond_the_limit_are_counted(kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "PROJECTS", 1)
    home = Path(kernel.services.kernel.identity.home)
    for name in ("a", "b", "c"):
        noted(home, home / name)
    found = await kernel.get("/projects")
    assert (len(found["projects"]), found["left_out"]) == (1, 2)


async def works(kernel: ServedKernel) -> str:
    """Alice says hi, fails to run a command and fails; bob works; carol gets a message and says nothing."""
    alice = await kernel.attempt("alice@review")
    await kernel.attempt("bob@review", token="bobs-token")
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "hello @bob, look at the zebra"})
    commit = kernel.writer.commit
    await commit(journal, alice, 1, Entry(k=0, kind="reply", text="I look", usage=SPENT))
    await commit(journal, alice, 1, Entry(k=1, kind="tool", name="bash", text="zebra crossing", is_error=True))
    await commit(close, alice, 1, status="failed", text="", cause="auth")
    return alice


async def test_the_overview_counts_agents_failures_and_money(kernel: ServedKernel) -> None:
    before = await kernel.get("/overview")
    assert (before["running"], before["runs_running"], before["failed_today"], len(before["hours"])) == (0, 0, 0, 24)
    await works(kernel)
    found = await kernel.get("/overview")
    assert (found["schema"], found["running"], found["runs_running"]) == ("awk/overview/1", 1, 1)
    assert (found["failed_today"], found["spend_today_usd"], found["tokens_per_minute"]) == (1, 0.5, 3.4)
    assert (found["waiting"], found["idle"]) == (0, before["idle"])
    assert found["hours"][-1] == {
        "at": "2023-11-14T22:00:00.000Z", "cost_usd": 0.5, "tokens": 17, "ended": 1, "failed": 1,
    }  # fmt: skip
    assert [one["at"] for one in found["hours"]] == sorted(one["at"] for one in found["hours"])
    assert not any(one["tokens"] for one in found["hours"][:-1])


async def test_a_timeline_has_a_lane_for_each_agent_with_its_bars(kernel: ServedKernel) -> None:
    alice = await works(kernel)
    found = await kernel.get("/runs/review:main/timeline")
    assert (found["run"], found["space"], found["status"], found["to"]) == ("r1", "review:main", "running", None)
    assert found["report"]["messages"] == []
    lanes = {lane["agent"]: lane["bars"] for lane in found["lanes"]}
    assert list(lanes) == ["alice", "bob"]
    assert [(one["kind"], one["instruction"], one["step"], one["label"], one["failed"]) for one in lanes["alice"]] == [
        ("attempt", alice, None, "failed", True),
        ("model", alice, 1, "", False),
        ("tool", alice, 2, "bash", True),
    ]
    assert [(one["kind"], one["until"]) for one in lanes["bob"]] == [("wait", None), ("attempt", None)]
    said = [(one["from"], one["to"], one["text"]) for one in found["messages"] if one["from"] == "user"]
    assert said[-1] == ("user", ["bob"], "hello @bob, look at the zebra")
    assert found["left_out"] == {"bars": 0, "messages": 0}


async def test_an_agent_that_only_got_a_message_has_a_lane(kernel: ServedKernel) -> None:
    await kernel.attempt("alice@review")

    def tell(tx: Transaction) -> None:
        tx.conn.execute("UPDATE messages SET addressed = 'carol' WHERE sender = 'user'")

    await kernel.writer.commit(tell)
    lanes = (await kernel.get("/runs/r1/timeline"))["lanes"]
    assert [(lane["agent"], len(lane["bars"])) for lane in lanes] == [("alice", 1), ("carol", 0)]


async def test_a_long_run_leaves_out_its_oldest_messages_and_calls(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await works(kernel)
    whole = await kernel.get("/runs/r1/timeline")
    monkeypatch.setattr(overview, "BARS", 3)
    monkeypatch.setattr(overview, "MESSAGES", 2)
    cut = await kernel.get("/runs/r1/timeline")
    assert cut["left_out"] == {"bars": 2, "messages": len(whole["messages"]) - 2}
    assert cut["messages"] == whole["messages"][-2:]
    assert [lane["agent"] for lane in cut["lanes"]] == [lane["agent"] for lane in whole["lanes"]]
    assert {bar["kind"] for lane in cut["lanes"] for bar in lane["bars"]} == {"attempt", "wait"}


async def test_votes_tasks_and_approvals_are_marks_of_their_agents(kernel: ServedKernel) -> None:
    await kernel.attempt("alice@review")
    at, branches = 1_700_000_000_000, b'{"branches":[{"agent":"alice"}]}'

    def put(tx: Transaction) -> None:
        tx.conn.execute(
            "INSERT INTO ballots (space, run, name, type, title, description, options, rule, quorum, binding, creator,"
            " hops, created_ms, expires_ms, state) VALUES ('review:main', 1, 'p1', 'decision', '', '', x'5b5d',"
            " 'majority', 1, 0, 'user', 0, 1, 2, 'open')"
        )
        tx.conn.execute("INSERT INTO votes VALUES (1, 'alice', 1, 'yes', '', ?)", (at,))
        tx.conn.execute(
            "INSERT INTO landings (run, space, repository, state, branch, terms, delivers, after, outcome,"
            " requested_ms) VALUES (1, 'review:main', '', 'merged', 'main', x'7b7d', 0, 0, ?, ?)",
            (branches, at),
        )
        tx.conn.execute(
            "INSERT INTO approvals (instruction, epoch, agent, name, space, tool, input, digest, why, state,"
            " requested_ms, expires_ms, waits_ms, held) VALUES (1, 1, 'alice', 'alice', 'review:main', 'bash', x'',"
            " x'', '', 'granted', ?, 2, 0, 0)",
            (at,),
        )
        tx.conn.execute(
            "INSERT INTO tasks (space, n, title, text, files, vouched, confined, state, creator, hops, created_ms,"
            " holder, claimed_ms) VALUES ('review:main#1', 1, 'build', '', x'5b5d', 0, 0, 'claimed', 'user', 0, 1,"
            " 'alice', ?)",
            (at,),
        )

    await kernel.writer.commit(put)
    (lane,) = (await kernel.get("/runs/r1/timeline"))["lanes"]
    assert sorted((one["kind"], one["id"], one["label"]) for one in lane["marks"]) == [
        ("approval", "a1", "granted: bash"), ("merge", "g1", "merged: main"), ("task", "t1", "claimed: build"),
        ("vote", "p1", "yes"),
    ]  # fmt: skip


async def test_secrets_are_replaced_by_words_for_them(tmp_path: Path) -> None:
    async with serve_kernel(tmp_path, {"DEPLOY_TOKEN": "hunter2-hunter2"}) as kernel:
        agent = tmp_path / "project/.agents/alice.yaml"
        agent.write_text(agent.read_text() + "env: [DEPLOY_TOKEN]\n")
        await kernel.ask("POST", "/workflows", {"workflow": "task", "trust": True})
        await kernel.ask("POST", "/messages", {"to": "@task", "text": "it is hunter2-hunter2"})
        messages = (await kernel.get("/runs/r1/timeline"))["messages"]
        assert messages[-1]["text"] == "it is [DEPLOY_TOKEN]"


async def test_a_graph_counts_messages_and_mentions_of_a_period(kernel: ServedKernel) -> None:
    await works(kernel)
    found = await kernel.get("/runs/r1/graph")
    assert {(one["from"], one["to"]): (one["messages"], one["mentions"]) for one in found["edges"]} == {
        ("user", "alice"): (1, 0),
        ("user", "bob"): (2, 1),
    }
    assert (await kernel.get("/runs/r1/graph?until=1000"))["nodes"] == []
    assert (await kernel.ask("GET", "/runs/r9/graph")).code == "not_found"


@pytest.mark.parametrize(
    ("query", "name"), [("", "alice"), ("by=model", ""), ("run=r1", "alice"), ("run=r1&by=model", "")]
)
async def test_spending_is_the_same_by_agent_and_by_model(kernel: ServedKernel, query: str, name: str) -> None:
    await works(kernel)
    found = await kernel.get(f"/spending?bucket=minute&{query}")
    point = {"at": "2023-11-14T22:13:00.000Z", "cost_usd": 0.5, "input_tokens": 15, "output_tokens": 2}
    assert (found["series"], found["total_usd"]) == ([{"name": name, "points": [point]}], 0.5)
    assert (await kernel.get(f"/spending?until=1000&since=0&{query}"))["series"] == []


async def test_a_report_of_spending_with_too_many_points_is_refused(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await works(kernel)
    monkeypatch.setattr(overview, "GROUPS_LIMIT", 1)
    assert (await kernel.ask("GET", "/spending?bucket=minute")).code == "too_large"


def places(found: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [(one["kind"], one["id"], one["step"]) for one in found["found"]]


async def test_a_search_finds_messages_steps_and_documents_once(kernel: ServedKernel) -> None:
    alice = await works(kernel)
    await kernel.ask("PUT", "/spaces/review:main/documents/plan.md", {"content": "The Zebra plan " + "x" * 9000})
    message, step, document = ("message", "m4", None), ("step", alice, 1), ("document", "plan.md", None)
    found = await kernel.get("/search?query=zebra")
    assert places(found)[0] == document and sorted(map(str, places(found))) == sorted(
        map(str, (message, step, document))
    )
    assert all("zebra" in one["text"].lower() and len(one["text"]) < 300 for one in found["found"])
    for query, wanted in {
        "kind=message": [message],
        "kind=step": [step],
        "kind=document": [document],
        "space=review:main&kind=step": [step],
        "space=@review&kind=message": [message],
        "space=dm:alice": [],
        "space=review:mai": [],
    }.items():
        assert places(await kernel.get(f"/search?query=zebra&{query}")) == wanted, query
    pages, after = [], ""
    while True:
        page = await kernel.get(f"/search?query=zebra&limit=1{after}")
        pages += places(page)
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert pages == places(found)


async def test_a_search_refuses_bad_requests(kernel: ServedKernel) -> None:
    await works(kernel)
    for query in (
        "",
        "limit=5",
        "query=",
        "query=.",
        "query=a&limit=99",
        "query=a&after=x",
        "query=a&kind=x",
        f"query={'x' * 1001}",
    ):
        assert (await kernel.ask("GET", f"/search?{query}")).code == "bad_request", query
