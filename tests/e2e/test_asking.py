"""One agent asks another and waits for the answer, with a real kernel that runs one worker at a time."""

import json

import pytest

from tests.e2e.test_sdk import KEY, agent
from tests.project import Project
from tests.worker.scripted_api import Call, Say, ScriptedApi


@pytest.mark.long("tests/kernel/store/test_questions.py")
def test_who_waits_for_an_answer_holds_no_worker_and_goes_on_with_it(project: Project) -> None:
    project.write("moniro.yaml", "limits: { workers: 1 }\n")
    assert project.awk("start", "--trust", env={"SCRIPTED_KEY": KEY}).code == 0
    question = Call("ask_agent", json.dumps({"agent": "bob", "query": "how many?"}))
    with ScriptedApi([Say("I ask bob.", (question,)), Say("So it is 42.")]) as api:
        agent(project, "alice", "anthropic", api.anthropic_url)
        project.agent("bob", 'tool: ask_agent, args: { agent: carol, query: "and you?" }', 'text: "42, says bob"')
        project.agent("carol", 'shell: "echo once >> carol.log"', 'text: "42, says carol"')
        project.write(
            ".workflows/review.yaml",
            """
            agents:
              alice: { ref: alice }
              bob: { ref: bob }
              carol: { ref: carol }
            kickoff: "@alice how many are there?"
            """,
        )
        ran = project.awk("run", "review", "--trust", "--json", seconds=30)
        assert ran.code == 0, ran.err
    said = [(one["from"], one["kind"], one["text"]) for one in ran.json()["messages"][1:]]
    assert [one for one in said if one[1] in ("said", "reply")] == [
        ("alice", "said", "how many?"),
        ("bob", "said", "and you?"),
        ("carol", "reply", "42, says carol"),
        ("bob", "reply", "42, says bob"),
        ("alice", "reply", "So it is 42."),
    ]
    first, second = (request.body["messages"] for request in api.requests)
    assert [turn["role"] for turn in second] == ["user", "assistant", "user"]
    assert second[0]["content"][0]["text"] == first[0]["content"][0]["text"]
    told = second[2]["content"]
    assert [block["type"] for block in told] == ["tool_result", "text"]
    assert "follows" in json.dumps(told[0])
    assert told[1]["text"] == "bob answers (i2):\n\n42, says bob"
    asked = project.awk("show", "i2", "--json").json()
    assert [attempt["outcome"] for attempt in asked["attempts"]] == ["yielded", "done"]
    assert (asked["lane"], asked["preempted"]) == ("immediate", 0)
    assert (project.root / "carol.log").read_text() == "once\n"
