"""Workflows with ``provider: memory``: no file ever contains what was said in them."""

import json
import os
from contextlib import suppress
from itertools import chain
from pathlib import Path

from tests.e2e.processes import wait_until
from tests.project import Project

CANARY = "canary-9d11"
PASSING = """
name: passing
workspace: {provider: memory}
params: [{name: task, required: true}]
agents:
  k:
    backend: mock
    mock:
      - {when: slow, do: [{text: "began ${{ message.text }}"}, {sleep: 60}, {text: never}]}
      - {when: "", do: [{tool: history_search, args: {query: "canary"}}, {text: "did ${{ message.text }}"}]}
kickoff: "@k ${{ params.task }}"
"""


def found_in(project: Project) -> list[str]:
    """Files of the project, its state and its home that contain the words; a file may vanish meanwhile."""
    found: list[str] = []
    for folder, _folders, names in chain(*map(os.walk, (project.root, project.state_home, project.home))):
        for name in names:
            with suppress(OSError):  # sockets, and what is gone
                found += [name] if CANARY.encode() in (Path(folder) / name).read_bytes() else []
    return found


def test_a_run_leaves_no_word_when_its_kernel_ends_with_it(project: Project) -> None:
    project.write(".workflows/passing.yaml", PASSING)
    ran = project.awk("run", "passing", "--rm", "--", "--task", CANARY)
    assert ran.code == 0, ran.err
    assert f"did @k {CANARY}" in ran.out
    wait_until(lambda: not project.alive())
    assert found_in(project) == []


def test_no_file_contains_a_word_while_it_runs_after_a_kill_and_after_a_start(project: Project) -> None:
    project.write(".workflows/passing.yaml", PASSING)
    assert project.awk("start", "passing", "--trust", "--", "--task", CANARY).code == 0
    project.until("instruction.ended")
    assert found_in(project) == []
    space = "/spaces/passing:main"
    project.ask("PUT", f"{space}/documents/notes.md", {"content": f"{CANARY}\n" * 3, "reason": CANARY}, key="d")
    project.ask("PUT", f"{space}/documents/notes.md", {"content": f"{CANARY} again\n" * 3})
    project.ask("POST", f"{space}/tasks", {"tasks": [{"title": CANARY, "text": CANARY}]}, key="t")
    project.ask("POST", f"{space}/resources", {"content": f"{CANARY} " * 5000})
    long = project.send("k@passing", f"{CANARY}\n" * 30_000)
    assert CANARY in project.ended(long)["text"]
    slow = project.send("k@passing", f"slow {CANARY}")
    project.until("instruction.step", holds=lambda event: event["instruction"] == slow)
    assert found_in(project) == []
    said = project.ask("GET", f"{space}/channel?limit=100")["messages"]
    assert sum(CANARY in one["text"] for one in said) > 4
    assert project.ask("GET", f"{space}/documents/notes.md")["content"] == f"{CANARY} again\n" * 3
    assert [one["size"] for one in project.ask("GET", f"{space}/documents")["documents"]] == [54]
    assert CANARY in json.dumps(project.ask("GET", f"/instructions/{slow}/entries"))
    assert project.awk("backup", str(project.root / "copy")).code == 0
    assert found_in(project) == []
    project.kill()
    assert found_in(project) == []
    assert project.awk("start").code == 0
    (run,) = project.awk("runs", "--json").json()["runs"]
    assert (run["status"], project.ask("GET", f"/instructions/{slow}")["status"]) == ("failed", "cancelled")
    assert "memory-" not in json.dumps(project.ask("GET", f"{space}/channel?limit=100"))
    assert found_in(project) == []
