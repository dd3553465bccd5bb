"""``reuse: N`` and ``auto``: one process serves several instructions of its agent, and what one left in it ends it."""

import sys
import uuid

import psutil
import pytest

from tests.e2e.processes import marked, survivors, wait_until
from tests.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="whole trees need a subreaper")

WHO = "shell: 'echo $PPID >> pids'"
"""Its parent is the worker."""


def pids(project: Project) -> list[int]:
    return [int(line) for line in (project.root / "pids").read_text().split()]


def work(project: Project, *texts: str) -> list[dict[str, object]]:
    return [project.ended(project.send("alice", text)) for text in texts]


def row(project: Project) -> dict[str, object]:
    return next(dict(one) for one in project.ask("GET", "/ps")["agents"] if one["name"] == "alice")


def until_kept(project: Project) -> int:
    wait_until(lambda: "kept for reuse" in str(row(project)["doing"]))
    return int(str(row(project)["pid"]))


@pytest.mark.promise("P36")
@pytest.mark.parametrize(
    "more",
    [
        pytest.param("reuse: 3", id="poll"),
        pytest.param("reuse: 3\ntools: [files]", id="trio", marks=pytest.mark.long("[poll]")),
    ],
)
def test_one_process_serves_as_many_as_its_agent_says_and_each_with_a_token_of_its_own(
    project: Project, more: str
) -> None:
    project.agent("alice", WHO, 'tool: channel_send, args: { message: "half way" }', "text: done", more=more)
    assert project.awk("start", "--trust").code == 0
    ended = work(project, "1", "2", "3", "4")
    assert [(one["status"], one["text"]) for one in ended] == [("done", "done")] * 4
    first, second, third, fourth = pids(project)
    assert first == second == third != fourth
    assert until_kept(project) == fourth
    assert "1 of 3" in str(row(project)["doing"])
    assert survivors([psutil.Process(first)] if psutil.pid_exists(first) else [], seconds=2) == []
    for one in ended:
        project.until("attempt.ended", holds=lambda event, one=one: event["instruction"] == one["id"])  # type: ignore[misc]


@pytest.mark.promise("P36")
@pytest.mark.long("test_what_an_instruction_left_running_is_gone_before_the_next")
def test_a_worker_that_died_is_not_used_again(project: Project) -> None:
    project.write(
        ".agents/alice.yaml",
        f"""
        backend: mock
        reuse: 9
        mock:
          - when: die
            do: [{{ {WHO} }}, {{ exit: {{ signal: KILL, times: 1 }} }}, {{ text: survived }}]
          - do: [{{ {WHO} }}, {{ text: done }}]
        """,
    )
    assert project.awk("start", "--trust").code == 0
    ended = work(project, "1", "die", "3")
    assert [one["text"] for one in ended] == ["done", "survived", "done"]
    first, second, last = pids(project)
    assert first == second != last
    assert row(project)["restarts"] == 1


@pytest.mark.promise("P36")
@pytest.mark.parametrize(
    "more",
    [
        pytest.param("reuse: 9", id="poll", marks=pytest.mark.long("[trio]")),
        pytest.param("reuse: 9\ntools: [files]", id="trio"),
    ],
)
def test_what_an_instruction_left_running_is_gone_before_the_next(project: Project, more: str) -> None:
    """A daemon is nobody's child but the keeper's; only that sees it, and its worker is ended with it."""
    mark = f"awk-test-{uuid.uuid4().hex}"
    up = "while [ ! -e up ]; do sleep 0.01; done; rm up"  # until then it is in the shell's group, and ended with that
    daemon = f"""shell: "setsid -f sh -c 'touch up; while :; do sleep 1; done' {mark}; {up}\""""
    project.agent("alice", WHO, daemon, "text: done", more=more)
    assert project.awk("start", "--trust").code == 0
    work(project, "1")
    project.until("attempt.ended")
    assert marked(mark) == []
    work(project, "2")
    first, second = pids(project)
    assert first != second


@pytest.mark.promise("P36")
@pytest.mark.long("test_one_process_serves_as_many_as_its_agent_says_and_each_with_a_token_of_its_own")
def test_a_worker_is_not_used_again_once_the_file_of_its_agent_has_changed(project: Project) -> None:
    file = project.agent("alice", WHO, "text: before", more="reuse: 9")
    assert project.awk("start", "--trust").code == 0
    work(project, "1")
    kept = psutil.Process(until_kept(project))
    file.write_text(file.read_text().replace("before", "after"))
    wait_until(lambda: work(project, "2")[0]["text"] == "after")
    first, *_, last = pids(project)
    assert first == kept.pid != last
    assert survivors([kept], seconds=2) == []


@pytest.mark.promise("P36", "P7")
@pytest.mark.long("test_what_an_instruction_left_running_is_gone_before_the_next")
def test_a_kept_worker_ends_with_its_agent_and_with_its_kernel(project: Project) -> None:
    project.agent("alice", WHO, "text: done", more="reuse: 9")
    assert project.awk("start", "--trust").code == 0
    work(project, "1")
    kept = psutil.Process(until_kept(project))
    assert project.awk("stop", "alice").code == 0
    assert survivors([kept], seconds=0) == []
    assert row(project)["pid"] is None
    assert project.awk("resume", "alice").code == 0
    work(project, "2")
    kept = psutil.Process(until_kept(project))
    project.kill()
    assert survivors([kept], seconds=2) == []
    assert project.awk("start", "--trust").code == 0
    work(project, "3")
    kept = psutil.Process(until_kept(project))
    project.stop()
    assert survivors([kept], seconds=0) == []


@pytest.mark.promise("P36", "P8")
def test_a_project_that_reuses_workers_loses_nothing_with_one_that_is_killed_or_cancelled(project: Project) -> None:
    """Only agents without access to the machine share a worker: ``bob`` has a shell."""
    project.write("moniro.yaml", "defaults: {reuse: auto}\n")
    script = "backend: mock\nmock: [{when: slow, do: [{sleep: 1h}]}, {do: [{text: done}]}]\n"
    project.write(".agents/alice.yaml", script)
    project.agent("bob", WHO, "text: done")
    assert project.awk("start", "--trust").code == 0
    work(project, "1")
    first = until_kept(project)
    psutil.Process(first).kill()
    assert work(project, "2")[0]["text"] == "done"
    second = until_kept(project)
    slow = project.send("alice", "slow")
    wait_until(lambda: row(project)["pid"] == second and "kept" not in str(row(project)["doing"]))
    assert project.awk("cancel", slow).code == 0
    assert [one["status"] for one in (project.ended(slow), *work(project, "3"))] == ["cancelled", "done"]
    assert until_kept(project) not in (first, second)
    for _ in range(2):
        project.ended(project.send("bob"))
    assert len({*pids(project)}) == 2
