"""What rules must not start or create, and spaces of people beside workflows of the same name."""

import os

import pytest
import trio
from msgspec.structs import force_setattr, replace

from kernel.agents.trust import ProjectTrust
from kernel.operations.workflows import LATER_SECONDS, start_for_rules
from kernel.store.transaction import Transaction
from kernel.store.transitions import creations
from tests.builders.api import ServedKernel

BOB = "agents:\n  bob: { model: mock/x, mock: [{ text: hi }] }\n"
RULE = "rules:\n  - name: go\n    when: { said: { from: user } }\n    then:\n"
START = "      - start_workflow: { workflow: other }\n"


async def planned(kernel: ServedKernel, team: str, other: str = "") -> None:
    """A message to the trusted workflow ``team``, whose rule starts ``other``."""
    force_setattr(kernel.services.files, "trust", ProjectTrust(everything=True))
    (kernel.root / ".workflows/team.yaml").write_text(BOB + team)
    (kernel.root / ".workflows/other.yaml").write_text(BOB + other)
    assert (await kernel.ask("POST", "/workflows", {"workflow": "team"})).status == 201
    await kernel.ask("POST", "/messages", {"to": "@team", "text": "go"})


async def change(kernel: ServedKernel, statement: str) -> None:
    def execute(tx: Transaction) -> None:
        tx.conn.execute(statement)

    await kernel.writer.commit(execute)


async def notes(kernel: ServedKernel) -> list[str]:
    found = (await kernel.get("/spaces/team:main/channel"))["messages"]
    return [one["text"].partition(": ")[2] for one in found if one["kind"] == "system"]


@pytest.mark.promise("P54")
@pytest.mark.parametrize("end", ["DELETE /workflows/team/main", "POST /spaces/team:main/clear"])
async def test_a_start_whose_run_is_stopped_or_cleared_during_setup_starts_nothing(
    kernel: ServedKernel, end: str
) -> None:
    await planned(kernel, RULE + START, "setup:\n  - shell: cat gate\n")
    os.mkfifo(kernel.root / "gate")
    with trio.fail_after(10):
        async with trio.open_nursery() as reaping:
            reaping.start_soon(kernel.services.processes.launcher.run)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(start_for_rules, kernel.services)
                gate = await trio.to_thread.run_sync(os.open, kernel.root / "gate", os.O_WRONLY)
                assert (await kernel.ask(*end.split())).status == 200
                os.close(gate)
            reaping.cancel_scope.cancel()
    assert [one["run"] for one in (await kernel.get("/runs"))["runs"]] == ["team:main"]
    assert await notes(kernel) == []


@pytest.mark.promise("P54")
async def test_a_forbidden_start_runs_no_setup_and_none_begins_in_safe_mode(kernel: ServedKernel) -> None:
    await planned(kernel, RULE + START, "setup:\n  - shell: touch ran\n")
    await change(kernel, "UPDATE creations SET scopes = ''")
    control, state = kernel.services.kernel, kernel.services.kernel.state
    force_setattr(control, "state", replace(state, safe_mode=lambda: True))
    assert await start_for_rules(kernel.services) == LATER_SECONDS
    assert len(kernel.services.store.reader.now(creations.planned_starts)) == 1
    force_setattr(control, "state", state)
    await start_for_rules(kernel.services)
    assert "agent bob has the scope" in (await notes(kernel))[0]
    assert not (kernel.root / "ran").exists()


async def test_rules_of_a_run_in_memory_create_nothing_on_disk(kernel: ServedKernel) -> None:
    agent = "      - create_agent: { name: x, like: bob, prompt: secret }\n"
    await planned(kernel, f"workspace: {{ provider: memory }}\n{RULE}{agent}{START}")
    assert [one.partition(": ")[0] for one in await notes(kernel)] == [
        "create_agent refused", "start_workflow refused",
    ]  # fmt: skip


async def test_a_workflow_named_global_is_not_opened_by_a_message(kernel: ServedKernel) -> None:
    (kernel.root / ".workflows/global.yaml").write_text(BOB)
    answer = await kernel.ask("POST", "/messages", {"to": "@global", "text": "hi"})
    assert (answer.code, answer.json["hint"]) == ("workflow_not_running", "start it: awk start global")
    assert (await kernel.get("/spaces"))["total"] == 0


async def test_a_batch_opens_global_once_in_its_order_and_a_repetition_does_not_open_it_again(
    kernel: ServedKernel,
) -> None:
    batch = {"messages": [{"to": "@global", "text": "@alice one"}, {"to": "@nope", "text": "x"},
                          {"to": "@global", "text": "@alice two"}, {"to": "@global", "text": " "}]}  # fmt: skip
    key = kernel.headers(Idempotency_Key="k")
    first = await kernel.ask("POST", "/messages", batch, headers=key)
    assert [one.get("refused", {}).get("code") for one in first.json["results"]] == [
        None, "workflow_not_running", None, "bad_request",
    ]  # fmt: skip
    assert [one["text"] for one in (await kernel.get("/spaces/global:main/channel"))["messages"]][-2:] == [
        "@alice one", "@alice two",
    ]  # fmt: skip
    assert (await kernel.ask("DELETE", "/spaces/global:main")).status == 200
    replayed = await kernel.ask("POST", "/messages", batch, headers=key)
    assert [one.get("sent", {}).get("message_id") for one in replayed.json["results"]] == ["m2", None, "m3", None]
    assert (await kernel.get("/spaces"))["total"] == 0
    again = {"messages": [{"to": "@global", "text": "@alice three"}]}
    assert (await kernel.ask("POST", "/messages", again)).json["accepted"] == 1
    (kernel.root / ".workflows/global.yaml").write_text(BOB)
    await kernel.ask("DELETE", "/spaces/global:main")
    (refused,) = (await kernel.ask("POST", "/messages", again)).json["results"]
    assert refused["refused"]["hint"] == "start it: awk start global"


async def test_a_space_of_a_person_has_no_limit_of_instructions(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/spaces", {"name": "lab", "members": ["alice"]})
    await change(kernel, "UPDATE workflows SET assigned = 1000000")
    await kernel.ask("POST", "/messages", {"to": "@lab", "text": "@alice hello"})
    state = "SELECT state FROM instructions"
    assert kernel.services.store.reader.now(lambda conn: conn.execute(state).get) == "queued"


async def test_a_workflow_that_goes_on_in_the_space_of_a_person_is_not_closed_as_one(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/spaces", {"name": "lab"})
    assert (await kernel.ask("DELETE", "/spaces/lab:main")).status == 200
    (kernel.root / ".workflows/lab.yaml").write_text(BOB)
    assert (await kernel.ask("POST", "/workflows", {"workflow": "lab", "continue": True})).status == 201
    assert (await kernel.ask("DELETE", "/spaces/lab:main")).refusal == (409, "conflict")
