"""A thread that is taken up, shortened and removed, with a real kernel, real workers and the real clients."""

import json
from typing import Any

import pytest

from tests.e2e.test_sdk import KEY, agent
from tests.project import Project, Ran
from tests.worker.scripted_api import Call, Fail, Say, ScriptedApi

TRUST = {"AGENT_WORKER_TRUST": "1"}
CANARY = "canary-0b5e"


def send(project: Project, to: str, text: str) -> tuple[Ran, dict[str, Any]]:
    sent = project.awk("send", to, text, "--wait", "--json", env=TRUST)
    (result,) = sent.json()["results"]
    return sent, result


@pytest.mark.long("tests/kernel/store/test_threads.py")
def test_a_script_is_continued_and_then_cleared(project: Project) -> None:
    steps = [f'shell: "echo {number} >> steps.log"' for number in range(4)]
    path = project.agent("alice", *steps, 'text: "${{ message.text }}"')
    path.write_text(path.read_text() + "max_steps: 2\n")
    assert project.awk("start").code == 0
    first, result = send(project, "alice", f"count {CANARY}")
    assert (first.code, result["status"]) == (6, "incomplete")
    second, result = send(project, "alice", "continue")
    assert (second.code, result["status"]) == (6, "incomplete")
    third = project.awk("continue", "alice")
    assert "goes on: i3" in third.out
    last, result = send(project, "alice", "something else")
    done = project.awk("show", "i3", "--json").json()
    assert (done["status"], done["text"]) == ("done", f"count {CANARY}")
    assert (last.code, result["status"]) == (6, "incomplete")
    assert (project.root / "steps.log").read_text().split() == ["0", "1", "2", "3", "0", "1"]
    assert project.awk("clear", "alice", "--yes").code == 0
    kept = [path for path in project.state.rglob("*") if path.is_file() and not path.is_socket()]
    assert [path for path in kept if CANARY.encode() in path.read_bytes()] == []
    assert project.awk("peek", "alice").code == 0


@pytest.mark.long("tests/kernel/store/test_threads.py")
def test_a_real_client_is_continued_with_the_prompt_it_began_with(project: Project) -> None:
    assert project.awk("start", "--trust", env={"SCRIPTED_KEY": KEY}).code == 0
    look = Say("Looking.", (Call("team_members"),), input_tokens=10, output_tokens=1)
    overflow = Fail(400, {"error": {"code": "context_length_exceeded", "message": "too large"}})
    with ScriptedApi([look, overflow, Say("All done.", input_tokens=10, output_tokens=1)]) as api:
        agent(project, "alice", "openai", api.openai_url)
        path = project.root / ".agents/alice.yaml"
        path.write_text(path.read_text() + "max_steps: 1\n")
        first, result = send(project, "alice", "begin")
        assert (first.code, result["status"]) == (6, "incomplete")
        path.write_text(path.read_text().replace("You are", "You are not"))
        second, result = send(project, "alice", "continue, please")
        assert (second.code, result["status"], result["text"]) == (0, "done", "All done.")
        assert result["usage"]["input_tokens"] == 10
    _, refused, last = (request.body for request in api.requests)
    assert [turn["role"] for turn in last["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert "You are alice" in last["messages"][0]["content"]
    assert (last["messages"][1]["content"], last["messages"][4]["content"]) == ("begin", "continue, please")
    assert json.dumps(last["messages"]) == json.dumps(refused["messages"])
