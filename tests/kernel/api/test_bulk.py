"""Many instructions over REST: cancelled or tried again in one request and one commit, counted as it was."""

import pytest

from kernel.store.transitions.close import close
from tests.builders.api import ServedKernel
from tests.kernel.api.test_steering import shown

pytestmark = pytest.mark.promise("P70")


async def test_what_is_queued_is_cancelled_and_what_runs_goes_on(kernel: ServedKernel) -> None:
    runs = await kernel.attempt()
    queued = [await kernel.send() for _ in range(3)]
    await kernel.ask("POST", "/agents", {"name": "helper", "model": "mock/x", "mock": [{"text": "hi"}]})
    other = await kernel.send("helper")
    asked = {"agent": "alice", "queued": True}
    look = (await kernel.ask("POST", "/instructions/cancel", {**asked, "dry_run": True})).json
    assert (look["matched"], look["changed"], look["left"]) == (3, 0, 1)
    assert {(await shown(kernel, one))["status"] for one in queued} == {"queued"}
    keyed = kernel.headers() | {"Idempotency-Key": "many"}
    answers = [(await kernel.ask("POST", "/instructions/cancel", asked, headers=keyed)).json for _ in range(2)]
    assert answers[0] == answers[1]
    report = answers[0]
    assert (report["matched"], report["changed"], report["left"], report["kept_by"]) == (3, 3, 1, {})
    assert [(row["id"], row["status"]) for row in report["instructions"]] == [(one, "cancelled") for one in queued]
    assert [(await shown(kernel, one))["status"] for one in (runs, other)] == ["leased", "queued"]
    again = (await kernel.ask("POST", "/instructions/cancel", asked)).json
    assert (again["matched"], again["left"]) == (0, 1)
    whole = (await kernel.ask("POST", "/instructions/cancel", {"agent": "alice"})).json
    assert [row["id"] for row in whole["instructions"]] == [runs]


async def test_those_of_a_workflow_are_cancelled_there_alone(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    member = (await kernel.get("/spaces/review:main/members"))["members"][0]["name"]
    there = await kernel.send("@review", "@alice work")
    alone = await kernel.send()
    cancelled = (await kernel.ask("POST", "/instructions/cancel", {"space": "review:main", "agent": member})).json
    assert [row["id"] for row in cancelled["instructions"]] == [there]
    assert (await shown(kernel, alone))["status"] == "queued"


async def test_what_failed_is_tried_again_and_what_cannot_be_is_told(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    alone, there = await kernel.attempt(), await kernel.attempt("@review", "@bob work", "other-token")
    for one in (alone, there):
        await kernel.writer.commit(close, one, 1, status="dead", cause="invalid")
    assert (await kernel.ask("DELETE", "/workflows/review")).status == 200
    look = (await kernel.ask("POST", "/instructions/retry", {"dry_run": True})).json
    assert (look["matched"], look["changed"], [row["status"] for row in look["instructions"]]) == (2, 0, ["dead"] * 2)
    report = (await kernel.ask("POST", "/instructions/retry", {})).json
    assert (report["matched"], report["changed"], report["kept_by"]) == (2, 1, {"workflow_not_running": 1})
    assert [(row["id"], row["status"]) for row in report["instructions"]] == [(alone, "queued")]
    assert [(row["id"], row["code"]) for row in report["kept"]] == [(there, "workflow_not_running")]
    assert (await shown(kernel, there))["status"] == "dead"


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("cancel", {}, "bad_request"),
        ("cancel", {"agent": "nobody"}, "unknown_agent"),
        ("cancel", {"space": "nowhere:main"}, "workflow_not_running"),
        ("retry", {"agent": "nobody"}, "unknown_agent"),
        ("retry", {"queued": True}, "bad_request"),
    ],
)
async def test_a_choice_of_nothing_that_is_there_is_a_mistake(
    path: str, body: dict[str, object], code: str, kernel: ServedKernel
) -> None:
    assert (await kernel.ask("POST", f"/instructions/{path}", body)).code == code
