"""Several instances of an agent: one queue, one working tree each, and nothing lost when the kernel dies."""

from typing import Any

from tests.e2e.processes import wait_until
from tests.project import Project

GATE = 'shell: "touch at-$AGENT_WORKER_ATTEMPT; while [ ! -e go ]; do sleep 0.02; done"'
"""A shell action that the worker waits for until the file ``go`` is there."""
INSTANCES = ["coder.1", "coder.2", "coder.3"]


def rows(project: Project) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in project.ask("GET", "/ps")["agents"]}


def working(project: Project) -> list[str]:
    return sorted(name for name, one in rows(project).items() if one["state"] == "running")


def leases(project: Project) -> list[tuple[str, str]]:
    """The instructions in the order in which their first attempts began, each with its agent."""
    events = project.ask("GET", "/events?since=0&type=instruction.leased&follow=false&limit=1000")["events"]
    return [(one["instruction"], one["agent"]) for one in events if one["data"]["epoch"] == 1]


def test_three_instances_share_nine_pieces_of_work_and_a_killed_kernel_loses_none(project: Project) -> None:
    project.agent("coder", GATE, "text: finished", more="replicas: 3")
    assert project.awk("start", "--trust").code == 0
    sent = [project.send("coder", f"piece {number}") for number in range(9)]
    wait_until(lambda: working(project) == INSTANCES)
    shown = rows(project)
    assert sorted(shown) == ["coder", *INSTANCES]
    assert sum(shown["coder"]["queue"].values()) == 6
    assert [sum(shown[name]["queue"].values()) for name in INSTANCES] == [0, 0, 0]
    own = project.send("coder.2", "for you alone")
    held = {one["agent"]: one["id"] for one in (project.ask("GET", f"/instructions/{i}") for i in sent[:3])}
    assert sorted(held) == INSTANCES

    project.kill()
    assert project.awk("start", "--trust").code == 0
    wait_until(lambda: working(project) == INSTANCES)
    again = {one["agent"]: one["id"] for one in (project.ask("GET", f"/instructions/{i}") for i in sent[:3])}
    assert again == held, "work that began stays with its instance"
    (project.root / "go").touch()
    ended = [project.ended(one) for one in (*sent, own)]
    assert [(one["status"], one["text"]) for one in ended] == [("done", "finished")] * 10
    assert {one["agent"] for one in ended[:9]} == set(INSTANCES)
    assert ended[9]["agent"] == "coder.2"
