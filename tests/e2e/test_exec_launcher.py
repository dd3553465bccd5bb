"""AGENT_WORKER_LAUNCHER=exec: the same contract without a zygote, and what macOS uses."""

import uuid

import pytest

from tests.e2e.processes import survivors, wait_for_mark
from tests.project import Project

EXEC = {"AGENT_WORKER_LAUNCHER": "exec", "AGENT_WORKER_TRUST": "1"}


@pytest.mark.promise("P7")
def test_its_trees_die_with_the_kernel_too(project: Project) -> None:
    mark = f"awk-test-{uuid.uuid4().hex}"
    project.agent("alice", f"""shell: "setsid sh -c 'while :; do sleep 1; done' {mark} & sleep 600\"""")
    assert project.awk("start", env=EXEC).code == 0
    project.send("alice")
    trees = wait_for_mark(mark, 1)
    project.kill()
    assert survivors(trees, seconds=2) == []
