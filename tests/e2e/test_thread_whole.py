"""A thread is whole in every request of a real client, whatever came between its steps: nothing is parted in it."""

import threading
from typing import Any

import pytest

from kernel.fault_injection import AT
from tests.e2e.processes import wait_until
from tests.e2e.test_sdk import KEY
from tests.project import Project
from tests.worker.scripted_api import Call, Request, Say, ScriptedApi

ASKED = (Call("team_members", id="a"), Call("my_inbox", id="b"), Call("team_members", id="c"))


def parted(request: Request) -> list[str]:
    """The calls of a request that are not followed at once by their results, one each, and results without a call."""
    wrong: list[str] = []
    waiting: list[str] = []
    for turn in request.body["messages"]:
        if turn["role"] == "tool":
            if turn["tool_call_id"] in waiting:
                waiting.remove(turn["tool_call_id"])
            else:
                wrong.append(f"a result of {turn['tool_call_id']} without its call")
            continue
        wrong += [f"{call} without its result" for call in waiting]
        waiting = [call["id"] for call in turn.get("tool_calls", ())]
    return wrong + [f"{call} without its result" for call in waiting]


def results(request: Request) -> int:
    """How many results are in it."""
    return sum(turn["role"] == "tool" for turn in request.body["messages"])


def asked(api: ScriptedApi, count: int) -> None:
    """Wait for the request of that number."""
    wait_until(lambda: len(api.requests) >= count, 30.0)


@pytest.mark.promise("P11")
@pytest.mark.long("tests/worker/test_conversation.py, tests/kernel/services/test_preemption.py")
def test_a_thread_is_whole_after_preemption_and_after_its_kernel_was_killed(project: Project) -> None:
    answering = threading.Event()
    moves = [
        Say("Looking.", ASKED, hold=answering),
        Say("You asked."),
        Say("Looking again.", ASKED),
        Say("All done."),
    ]
    dies = {AT: "attempt.journalled:4"}  # a reply, what is said to the message, the first result, and this
    with ScriptedApi(moves) as api:
        project.write(
            ".agents/alice.yaml",
            f"""
            model: own/model-1
            provider: {{ name: own, base_url: "{api.openai_url}", dialect: openai, api_key: $SCRIPTED_KEY }}
            prompt: {{ system: You are alice. }}
            schedule: {{ wakeup: 2s, prompt: look around }}
            """,
        )
        assert project.awk("start", "--trust", env={"SCRIPTED_KEY": KEY, **dies}).code == 0
        asked(api, 1)
        sent = project.send("alice", "and now?")
        answering.set()
        wait_until(lambda: not project.alive(), 30.0)
        assert len(api.requests) == 2
        path = project.root / ".agents/alice.yaml"
        path.write_text(path.read_text().replace("wakeup: 2s", "wakeup: 24h"))
        assert project.awk("start", "--trust", env={"SCRIPTED_KEY": KEY}).code == 0
        asked(api, 4)
        assert project.ended(sent)["text"] == "You asked."
        done = project.until("instruction.ended", holds=lambda event: event["instruction"] != sent)
        shown = project.ask("GET", f"/instructions/{done['instruction']}/entries")["entries"]
        history = project.ask("GET", "/agents/alice/thread?limit=50")["turns"]
    assert [parted(one) for one in api.requests] == [[]] * 4
    assert ["and now?" in str(one.body["messages"]) for one in api.requests] == [False, True, False, False]
    assert [results(one) for one in api.requests] == [0, 0, 3, 6]
    assert sum(bool(one["tool"]) for one in shown) == 6
    calls: list[dict[str, Any]] = [call for turn in history for call in turn.get("calls", ())]
    assert len(calls) == 6 and all(call["output"] for call in calls)
