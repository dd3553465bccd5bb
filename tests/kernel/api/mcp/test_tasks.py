"""Tasks as they go over the wire: agents' tools, the user's routes, and a check that has to pass."""

import msgspec
import pytest

from kernel.workflows.setup import CheckOutcome
from protocol.tasks import TaskInfo
from tests.builders.api import ALICE, NoChecks, ServedKernel
from tests.kernel.api.mcp.rpc import call, refusal
from tests.kernel.api.mcp.test_voting import given

HERE = "/spaces/review:main/tasks"
PLAN = {"tasks": [{"key": "a", "title": "Build"}, {"key": "b", "title": "Test", "needs": ["a"], "check": "false"}]}


@pytest.mark.promise("P39")
async def test_tasks_from_the_plan_to_a_check_that_fails(team: ServedKernel) -> None:
    planned = await given(team, "team_task_plan", PLAN)
    assert planned["ids"] == {"a": "t1", "b": "t2"}
    listed = await given(team, "team_task_list", {}, "bobs-token")
    assert [(one["id"], one["state"], one["blocked_by"]) for one in listed["tasks"]] == [
        ("t1", "ready", []),
        ("t2", "open", ["t1"]),
    ]
    claimed = await given(team, "team_task_claim", {"task": "a"}, "bobs-token")
    assert claimed["task"]["holder"] == "bob"
    assert await refusal(team, "team_task_claim", {"task": "t1"}, "worker-token") == "conflict"
    done = await given(team, "team_task_done", {"task": "t1", "result": "built"}, "bobs-token")
    assert (done["task"]["state"], done["task"]["blocks"]) == ("done", [])
    await given(team, "team_task_claim", {"task": "b"})
    red = await given(team, "team_task_done", {"task": "b"})
    assert (red["task"]["state"], red["output"]) == ("claimed", "red")
    assert "exit code 1" in red["note"]
    failed = await given(team, "team_task_fail", {"task": "b", "reason": "it cannot be"})
    assert failed["task"]["state"] == "failed"


@pytest.mark.promise("P40")
async def test_a_path_is_asked_for_by_those_who_want_to_write_it(team: ServedKernel) -> None:
    """Only what is claimed holds it."""
    await given(team, "team_task_plan", {"tasks": [{"title": "Build", "files": ["src/**"]}]})
    assert (await given(team, "team_task_list", {"path": "src/a.py"}))["tasks"] == []
    await given(team, "team_task_claim", {"task": "t1"}, "bobs-token")
    (one,) = (await given(team, "team_task_list", {"path": "src/a.py"}))["tasks"]
    assert (one["holder"], one["files"]) == ("bob", ["src/**"])
    assert (await given(team, "team_task_list", {"path": "notes/a.txt"}))["tasks"] == []


async def test_a_split_task_and_a_circle(team: ServedKernel) -> None:
    circle = {"tasks": [{"key": "x", "title": "X", "needs": ["y"]}, {"key": "y", "title": "Y", "needs": ["x"]}]}
    refused = await call(team, "team_task_plan", circle, "worker-token")
    assert "x -> y -> x" in refused["structuredContent"]["detail"]
    await given(team, "team_task_plan", {"tasks": [{"key": "w", "title": "Whole"}]})
    await given(team, "team_task_claim", {"task": "w"})
    made = await given(team, "team_task_split", {"task": "w", "tasks": [{"title": "Half"}, {"title": "Half"}]})
    assert made["tasks"] == ["t2", "t3"]
    assert (await team.get(f"{HERE}/w"))["blocked_by"] == ["t2", "t3"]


async def test_a_person_plans_counts_as_done_and_cancels(team: ServedKernel) -> None:
    headers = team.headers() | {"Idempotency-Key": "k"}
    body = {"tasks": [{"key": "a", "title": "A", "for": "bob", "check": "false"}, {"title": "B", "needs": ["a"]}]}
    for _ in range(2):
        put = await team.ask("POST", HERE, body, headers=headers)
        assert (put.status, put.json["ids"]) == (201, {"a": "t1", "t2": "t2"})
    task = await team.get(f"{HERE}/t1")
    assert (next(iter(task)), task["schema"], task["for"], task["check"]) == ("schema", "awk/task/1", "bob", "false")
    ended = await team.ask("POST", f"{HERE}/a/done", {"result": "by hand"})
    assert (ended.json["state"], ended.json["ended_by"]) == ("done", "user")
    assert (await team.get(f"/instructions/{task['instruction']}"))["status"] == "cancelled"
    assert (await team.ask("POST", f"{HERE}/t2/claim")).json["holder"] == "user"
    assert (await team.ask("POST", f"{HERE}/t2/fail", {"reason": "no"})).json["state"] == "failed"
    assert (await team.ask("POST", f"{HERE}/t2/cancel")).json["state"] == "cancelled"
    assert (await team.ask("POST", f"{HERE}/t2/cancel")).status == 409
    listed = await team.get(f"{HERE}?state=done&limit=1")
    assert ([one["id"] for one in listed["tasks"]], listed["total"], listed["next"]) == (["t1"], 1, None)
    assert set(listed["tasks"][0]) == {field.encode_name for field in msgspec.structs.fields(TaskInfo)}
    for path, status in ((f"{HERE}/t9", 404), (f"{HERE}?state=no", 400), ("/spaces/nowhere:main/tasks", 404)):
        assert (await team.ask("GET", path)).status == status
    assert (await team.ask("POST", HERE, {"tasks": []})).status == 400


@pytest.mark.promise("P39")
async def test_who_may_claim_a_task_for_nobody_reads_of_it_in_its_prompt(kernel: ServedKernel) -> None:
    await kernel.attempt("alice@review")
    planned = await call(
        kernel, "team_task_plan", {"tasks": [{"title": "Mine or yours"}, {"title": "b", "for": "bob"}]}
    )
    assert planned["isError"] is False
    sent = await kernel.ask("POST", "/messages", {"to": "bob@review:main", "text": "hello"})
    prompt = f"/instructions/{sent.json['instruction_ids'][0]}/prompt"
    told = "(Ready tasks without an assignee: t1. Claim one with team_task_claim.)"
    assert told in (await kernel.get(prompt))["messages"][-1]["text"]
    assert (await call(kernel, "team_task_claim", {"task": "t1"}))["isError"] is False
    assert "without an assignee" not in (await kernel.get(prompt))["messages"][-1]["text"]


async def test_a_check_of_a_sandboxed_agent_is_sandboxed_for_every_assignee(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandboxed: list[bool] = []

    async def check(*_: object, confined: bool, **__: object) -> CheckOutcome:
        sandboxed.append(confined)
        return CheckOutcome(None)

    monkeypatch.setattr(NoChecks, "check", check)
    (kernel.root / ".agents/alice.yaml").write_text(f"{ALICE}sandbox: on\n")
    await kernel.attempt("alice@review")
    await kernel.attempt("bob@review", token="bobs-token")
    for planner in ("worker-token", "bobs-token"):
        tasks = [{"title": "Build", "check": "true"}]
        (task,) = (await given(kernel, "team_task_plan", {"tasks": tasks}, planner))["tasks"]
        await given(kernel, "team_task_claim", {"task": task}, "bobs-token")
        await given(kernel, "team_task_done", {"task": task}, "bobs-token")
    assert sandboxed == [True, False]
