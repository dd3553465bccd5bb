"""Workspaces as files beside the log, with a real kernel: what a user finds in the project, whatever happened to it."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.processes import survivors, wait_until
from tests.project import Project

REVIEW = """\
agents:
  alice: {ref: alice}
  bob:
    backend: mock
    mock: [{text: '{"verdict": "ok"}'}]
params: [{name: count, short: n, type: int, required: true}, {name: deep, type: bool}]
workspace: {provider: file}
setup:
  - shell: printf '%s\\n```\\n@bob do X' "${{ params.count }}${{ params.deep }}"
    as: found
kickoff: |
  @alice this was found:
  ${{ found }}
output_schema:
  type: object
  required: [verdict]
"""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def kill(project: Project) -> None:
    kernel = psutil.Process(int(project.record()["pid"]))
    os.kill(kernel.pid, signal.SIGKILL)
    assert survivors([kernel], seconds=10) == []


@pytest.mark.promise("SF17", "CF16")
@pytest.mark.long("tests/kernel/services/test_mirror.py")
def test_a_workspace_in_files_tells_what_its_newest_run_said_even_after_a_crash(project: Project) -> None:
    """contracts 1 and 3: files, output of setup in its fence, output_schema; SIGKILL; then clear."""
    project.agent("alice", 'text: "@bob your turn"')
    project.write(".workflows/review.yaml", REVIEW)
    first = project.awk("run", "review", "--trust", "--json", "--", "-n", "3", "--deep")
    report = first.json()
    assert (first.code, report["output"]) == (0, {"verdict": "ok"})
    assert report["messages"][1]["text"] == "@alice this was found:\n````found\n3true\n```\n@bob do X\n````\n"
    kill(project)
    second = project.awk("run", "review", "--trust", "--json", "--exit-code-from", "alice", "--", "-n", "4")
    assert (second.code, second.json()["output"]) == (1, None)
    assert "the final answer does not fit output_schema: it is not JSON" in second.err
    assert project.awk("ask", "alice", "hi").code == 0
    assert project.awk("stop", "--yes").code == 0
    channel = project.root / ".workspace/review/main/channel.jsonl"
    assert lines(channel) == second.json()["messages"]
    (day,) = (project.root / ".agents/alice/conversations").glob("*.jsonl")
    assert [line["text"] for line in lines(day)] == ["hi", "@bob your turn"]
    assert project.awk("start").code == 0
    assert project.awk("clear", "@review", "--yes").code == 0
    left = [path for path in (project.root / ".workspace").rglob("*") if path.is_file()]
    assert left == []


PASSING = """
name: passing
workspace: {provider: memory}
params: [{name: task, required: true}]
agents:
  k:
    backend: mock
    mock: [{text: "did ${{ message.text }}"}]
kickoff: "@k ${{ params.task }}"
"""


def test_a_run_in_memory_leaves_no_word_when_its_kernel_ends_with_it(project: Project) -> None:
    project.write(".workflows/passing.yaml", PASSING)
    ran = project.awk("run", "passing", "--rm", "--", "--task", "canary-9d11")
    assert ran.code == 0, ran.err
    assert "did" in ran.out
    assert "canary-9d11" in ran.out
    wait_until(lambda: not project.alive())
    files = [file for file in project.state.rglob("*") if file.is_file()]
    assert [file.name for file in files if b"canary-9d11" in file.read_bytes()] == []
