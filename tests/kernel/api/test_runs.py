"""Runs over REST: each start has an id and a space of its own. Lists say how many there are, and what is next."""

import pytest

from kernel.store.transitions.close import close
from tests.builders.api import ServedKernel

pytestmark = pytest.mark.promise("P30")


async def run(kernel: ServedKernel, number: int, **asked: object) -> None:
    """One run of ``task`` from its start to its end; it is the ``number``-th."""
    answer = await kernel.ask("POST", "/workflows", {"workflow": "task", **asked})
    assert (answer.status, answer.json["id"]) == (201, f"r{number}")
    place = "/spaces/task:main/channel"
    said = (await kernel.ask("POST", "/messages", {"to": "@task", "text": f"word {number}"})).status
    assert said == 202
    assert (await kernel.get(place))["space"] == "task:main"
    assert (await kernel.ask("DELETE", "/workflows/task")).json["id"] == f"r{number}"


async def texts(kernel: ServedKernel, query: str = "") -> list[str]:
    found = (await kernel.get(f"/spaces/task:main/channel{query}"))["messages"]
    return [one["text"] for one in found if one["from"] == "user"]


async def test_a_run_is_shown_by_its_id_also_when_others_came_after_it(kernel: ServedKernel) -> None:
    """GET /runs/r1, /spaces/:space/channel?run=r1; without an id it is the newest."""
    for number in (1, 2):
        await run(kernel, number)
    report = await kernel.get("/runs/r1")
    assert (report["id"], report["run"]) == ("r1", "task:main")
    assert [one["text"] for one in report["messages"] if one["from"] == "user"] == ["word 1"]
    assert (await kernel.get("/runs/task:main"))["id"] == "r2"
    assert await texts(kernel) == await texts(kernel, "?run=r2") == ["word 2"]
    assert await texts(kernel, "?run=r1") == ["word 1"]
    for path, text in {
        "/runs/r9": "run 'r9' not found",
        "/spaces/task:main/channel?run=r9": "run 'r9' not found",
        "/spaces/task:main/diff?run=x": "run 'x' not found",
    }.items():
        refused = await kernel.ask("GET", path)
        assert (refused.code, refused.json["detail"]) == ("not_found", text)


async def test_the_run_of_another_workflow_is_none_of_this_one(kernel: ServedKernel) -> None:
    await run(kernel, 1)
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    refused = await kernel.ask("GET", "/spaces/review:main/channel?run=r1")
    assert refused.json["detail"] == "r1 is not a run of review:main: it is a run of task:main"


async def test_a_start_that_continues_has_the_words_before_it(kernel: ServedKernel) -> None:
    await run(kernel, 1)
    await run(kernel, 2, **{"continue": True})
    assert await texts(kernel) == ["word 1", "word 2"]
    assert await texts(kernel, "?run=r2") == ["word 2"]


async def test_runs_are_listed_by_workflow_tag_and_status_in_pages(kernel: ServedKernel) -> None:
    for number in (1, 2, 3):
        await run(kernel, number)
    await kernel.ask("POST", "/workflows", {"workflow": "review", "tag": "t1"})
    first = await kernel.get("/runs?limit=3")
    assert ([row["id"] for row in first["runs"]], first["total"], first["next"]) == (["r4", "r3", "r2"], 4, "r2")
    rest = await kernel.get("/runs?limit=3&before=r2")
    assert ([row["id"] for row in rest["runs"]], rest["total"], rest["next"]) == (["r1"], 4, None)
    asked = {"workflow=task": 3, "workflow=review&tag=t1": 1, "tag=t2": 0, "status=running": 1, "status=cancelled": 3}
    for query, count in asked.items():
        found = await kernel.get(f"/runs?{query}")
        assert (len(found["runs"]), found["total"], found["next"]) == (count, count, None)
    row = first["runs"][1]
    assert (row["run"], row["status"], row["verdict"], row["cost_usd"]) == ("task:main", "cancelled", None, None)


async def test_what_was_cleared_of_one_run_stays_of_the_others(kernel: ServedKernel) -> None:
    for number in (1, 2, 3):
        await run(kernel, number)
    for one in (await kernel.get("/instructions"))["instructions"]:
        assert one["space"] == "task:main"
    assert (await kernel.ask("POST", "/spaces/task:main/clear?run=r2")).status == 200
    assert [await texts(kernel, f"?run=r{number}") for number in (1, 2, 3)] == [["word 1"], [""], ["word 3"]]
    assert (await kernel.ask("POST", "/spaces/task:main/clear")).json["messages"] > 0
    assert [await texts(kernel, f"?run=r{number}") for number in (1, 2, 3)] == [[""], [""], [""]]


async def test_a_member_is_called_by_its_name_and_its_workflow_in_every_run(kernel: ServedKernel) -> None:
    for _ in range(2):
        await kernel.ask("POST", "/workflows", {"workflow": "review"})
        instruction = await kernel.send("bob@review", "x")
        members = (await kernel.get("/spaces/review:main/members"))["members"]
        (member,) = [one for one in members if one["name"] == "bob"]
        assert member["agent"] == "bob@review:main"
        queue = await kernel.get("/agents/bob@review:main/queue")
        assert ([row["id"] for row in queue["instructions"]], queue["total"], queue["next"]) == ([instruction], 1, None)
        assert (await kernel.get("/agents/bob@review:main/inbox"))["total"] == 1
        await kernel.ask("DELETE", "/workflows/review")


@pytest.mark.parametrize(
    ("path", "field", "parameter"),
    [("/agents/alice/queue", "instructions", "after"), ("/agents/alice/inbox", "deliveries", "after"),
     ("/instructions", "instructions", "after"), ("/spaces/dm:alice/channel", "messages", "before")],
)  # fmt: skip
async def test_a_list_that_is_longer_than_one_answer_is_read_to_its_end(
    kernel: ServedKernel, path: str, field: str, parameter: str
) -> None:
    for number in range(7):
        await kernel.ask("POST", "/messages", {"to": "alice", "text": f"{number}"})
    pages = [page async for page in kernel.pages(f"{path}?limit=3", parameter)]
    seen = [str(row) for page in pages for row in page[field]]
    assert {page["total"] for page in pages} == {7}
    assert (len(pages), len(seen), len(set(seen))) == (3, 7, 7)
    assert (await kernel.ask("GET", f"{path}?limit=0")).code == "bad_request"
    assert (await kernel.ask("GET", f"{path}?{parameter}=what")).code == "bad_request"


async def test_what_failed_for_good_can_be_taken_off_the_list(kernel: ServedKernel) -> None:
    instruction = await kernel.attempt()
    await kernel.writer.commit(close, instruction, 1, status="failed", cause="invalid")
    listed = await kernel.get("/dead")
    assert ([row["id"] for row in listed["instructions"]], listed["total"], listed["next"]) == ([instruction], 1, None)
    assert (await kernel.ask("POST", "/dead/clear")).json["instructions"] == 1
    assert (await kernel.get("/dead"))["total"] == 0
    assert (await kernel.get(f"/instructions/{instruction}"))["status"] == "failed"
    assert (await kernel.ask("POST", f"/instructions/{instruction}/retry", {})).status == 200
