"""Three instances of an agent work on one queue, in order, and a killed kernel loses and repeats nothing."""

from itertools import islice
from typing import Any

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

GATE = 'shell: "while [ ! -e go ]; do sleep 0.02; done"'
"""A shell action that the worker waits for until the file ``go`` is there."""
INSTANCES = ["coder.1", "coder.2", "coder.3"]


def rows(project: Project) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in project.ask("GET", "/ps")["agents"]}


def three_work(project: Project) -> bool:
    return all(rows(project)[name]["state"] == "running" for name in INSTANCES)


@pytest.mark.promise("P1", "P2", "P3")
def test_three_instances_share_nine_pieces_of_work_and_a_killed_kernel_loses_none(project: Project) -> None:
    project.agent("coder", GATE, "text: finished", more="replicas: 3")
    assert project.awk("start", "--trust").code == 0
    sent = [project.send("coder", f"piece {number}") for number in range(9)]
    wait_until(lambda: three_work(project))
    queues = {name: sum(one["queue"].values()) for name, one in rows(project).items()}
    assert queues == {"coder": 6, **dict.fromkeys(INSTANCES, 0)}
    own = project.send("coder.2", "for you alone")
    held = [project.ask("GET", f"/instructions/{one}")["agent"] for one in sent[:3]]
    assert sorted(held) == INSTANCES

    project.kill()
    assert project.awk("start", "--trust").code == 0
    wait_until(lambda: three_work(project))
    assert [project.ask("GET", f"/instructions/{one}")["agent"] for one in sent[:3]] == held
    (project.root / "go").touch()
    ended = [project.ended(one) for one in (*sent, own)]
    assert [(one["status"], one["text"]) for one in ended] == [("done", "finished")] * 10
    assert ended[9]["agent"] == "coder.2"
    leased = project.events("since=0&type=instruction.leased")
    begun = (one["instruction"] for one in leased if one["data"]["epoch"] == 1 and one["instruction"] != own)
    assert list(islice(begun, 9)) == sent, "the oldest first"
    replies = [one for one in project.ask("GET", "/spaces/dm:coder/channel")["messages"] if one["kind"] == "reply"]
    assert sorted(one["from"] for one in replies) == sorted(one["agent"] for one in ended[:9])
