"""Workspaces as files beside the log, with a real kernel: what a user finds in the project, whatever happened to it."""

from tests.e2e.processes import wait_until
from tests.project import Project

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
