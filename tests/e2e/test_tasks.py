"""Tasks with a real kernel: they run in the order of what they need, through their checks, and hold their files."""

from typing import Any

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

FILES = "tools: [files]\napproval: auto"


@pytest.fixture
def team(shared_kernel: Project) -> Project:
    """Coder and tester, who do what they are given by a workflow's file."""
    project = shared_kernel
    project.write(
        ".agents/coder.yaml",
        """
        model: mock/x
        mock:
          - when: 'TASK:t1'
            do:
              - { tool: team_task_done, args: { task: api } }
              - { tool: ask_agent, args: { agent: tester, query: please write src/x.txt } }
              - { shell: 'touch made.txt' }
              - { tool: team_task_done, args: { task: t1, result: it is made } }
              - { text: I made it. }
        """,
    )
    project.write(
        ".agents/tester.yaml",
        f"""
        model: mock/x
        {FILES.replace(chr(10), chr(10) + "        ")}
        mock:
          - when: 'please write'
            do:
              - {{ tool: write, args: {{ path: src/x.txt, content: mine }} }}
              - {{ tool: write, args: {{ path: other.txt, content: mine }} }}
              - {{ text: I tried. }}
          - when: 'TASK:t2'
            do:
              - {{ tool: team_task_done, args: {{ task: test }} }}
              - {{ text: I tested it. }}
          - when: 'TASK:t4'
            do:
              - {{ text: I do not know how. }}
        """,
    )
    project.write(
        ".workflows/build.yaml",
        """
        agents: { coder: { ref: coder }, tester: { ref: tester } }
        tasks:
          - { key: api, title: Write the API, for: coder, files: [src/**], check: 'test -f made.txt' }
          - { key: test, title: Test it, for: tester, needs: [api] }
        """,
    )
    project.write(
        ".workflows/stuck.yaml",
        """
        agents: { coder: { ref: coder }, tester: { ref: tester } }
        tasks:
          - { title: Nobody does this }
          - { title: And this needs it, needs: [later] }
          - { key: later, title: Later, needs: [] }
          - { key: mine, title: Nobody can, for: tester }
        """,
    )
    return project


def tasks_in_needs(team: Project) -> list[dict[str, Any]]:
    return [one for one in team.ask("GET", "/needs")["items"] if one["kind"] == "task"]


@pytest.mark.promise("P39", "P40")
def test_tasks_of_a_file_run_in_order_through_their_checks_and_hold_their_files(team: Project) -> None:
    ran = team.awk("run", "build", "--trust", "--json", "--approve", "auto")
    assert ran.code == 0, ran.err
    said = [one["text"].partition("\n")[0] for one in ran.json()["messages"] if one["text"].startswith("[TASK:")]
    assert said == [
        "[TASK:t1] Write the API",
        "[TASK:t1] done: Write the API",
        "[TASK:t2] Test it",
        "[TASK:t2] done: Test it",
    ]
    assert (team.root / "other.txt").read_text() == "mine"
    assert not (team.root / "src").exists()
    (asked,) = (one["instruction"] for one in ran.json()["messages"] if one["text"] == "I tried.")
    steps = team.awk("show", asked, "--steps", "--full").out
    assert "src/x.txt: coder holds it for the task t1" in steps
    assert [one["state"] for one in team.awk("task", "list", "@build", "--json").json()["tasks"]] == ["done", "done"]


@pytest.mark.promise("P39")
def test_a_run_with_tasks_that_nobody_does_is_incomplete_and_a_workflow_that_stays_asks(team: Project) -> None:
    """Exit 6; what is left after it was given out twice is in needs, and its command settles it."""
    ran = team.awk("run", "stuck", "--trust")
    assert ran.code == 6
    assert "4 tasks are not done" in ran.out + ran.err
    assert team.awk("start", "stuck", "--trust").code == 0
    wait_until(lambda: bool(tasks_in_needs(team)))
    (need,) = tasks_in_needs(team)
    assert (need["id"], need["agent"], need["actions"][0]["command"]) == ("t4", "tester", "awk task done @stuck t4")
    assert team.awk(*need["actions"][0]["command"].split()[1:]).out == "t4: done\n"
    assert tasks_in_needs(team) == []
    assert team.awk("task", "graph", "@stuck").out.splitlines() == [
        "t1 ready Nobody does this",
        "t3 ready Later",
        "  t2 open And this needs it (waits for t3)",
        "t4 done Nobody can (@tester)",
    ]
