"""Schedules, with a real kernel and real workers."""

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

TEAM = """
agents:
  slow:
    backend: mock
    schedule: { wakeup: 1s, prompt: "look again" }
    mock:
      - when: look again
        do:
          - shell: "echo slow >> woken.log"
          - shell: "while [ ! -e go ]; do sleep 0.05; done"
          - text: looked
  quick:
    backend: mock
    schedule: { wakeup: 1s }
    mock:
      - shell: "echo quick >> woken.log"
"""


@pytest.mark.promise("TF19")
def test_schedules_wake_their_agents_and_nothing_piles_up_behind_one_that_is_slow(project: Project) -> None:
    """While one wakeup runs its schedule makes no further work; another agent's goes on."""
    project.write(".workflows/watch.yaml", TEAM)
    assert project.awk("start", "watch", "--trust").code == 0
    log = project.root / "woken.log"

    def woken(name: str) -> int:
        return log.read_text().split().count(name) if log.exists() else 0

    wait_until(lambda: woken("slow") == 1 and woken("quick") >= 2, seconds=20)
    shown = project.awk("queue", "slow@watch:main", "--json")
    assert shown.code == 0, shown.err
    assert [(row["lane"], row["status"]) for row in shown.json()["instructions"]] == [("background", "running")]
    assert woken("slow") == 1
    (project.root / "go").touch()
    wait_until(lambda: woken("slow") >= 2, seconds=20)
    channel = project.awk("channel", "@watch", "--json").json()["messages"]
    assert ("reply", "slow", "looked") in [(one["kind"], one["from"], one["text"]) for one in channel]
    assert "look again" not in [one["text"] for one in channel]
