"""Agents that are people, with a real kernel: asked by a run, answered by a command, by nobody else, and only once."""

import pytest

from tests.e2e.processes import wait_until
from tests.project import AWK, TRUST, Project
from tests.terminal import on_a_terminal

PERSON = "backend: human\n"
TEAM = """
agents:
  carol: { ref: carol }
  bob: { ref: bob }
kickoff: "@carol may we ship?"
"""


def team(project: Project) -> None:
    project.write(".agents/carol.yaml", PERSON)
    project.agent("bob", "text: 'it is shipped'")
    project.write(".workflows/ship.yaml", TEAM)


@pytest.mark.promise("P55")
def test_a_run_waits_for_a_person_through_two_deaths_of_its_kernel_and_ends_with_the_answer(project: Project) -> None:
    """The id in needs is what answer takes, whichever kernel is asked; and there never was an attempt of hers."""
    team(project)
    assert project.awk("run", "ship", "--detach").code == 0
    for _ in range(2):
        asked = project.awk("needs", "--json").json()["items"]
        assert [(one["kind"], one["id"], one["agent"]) for one in asked] == [("answer", "i1", "carol")]
        project.kill()
        assert project.awk("start").code == 0
    (asked,) = project.awk("needs", "--json").json()["items"]
    said = project.awk("answer", asked["id"], "-", stdin="yes, @bob ship it")
    assert (said.code, said.out) == (0, "i1 done (carol, immediate)\n")
    assert project.awk("answer", asked["id"], "no").code == 1
    wait_until(lambda: project.ask("GET", "/runs/r1")["status"] == "done")
    report = project.ask("GET", "/runs/r1")
    assert [(one["from"], one["text"]) for one in report["messages"] if one["kind"] == "reply"] == [
        ("carol", "yes, @bob ship it"),
        ("bob", "it is shipped"),
    ]
    assert project.ask("GET", "/instructions/i1")["attempts"] == []


@pytest.mark.promise("P55")
def test_a_model_takes_up_what_a_person_was_asked_and_the_run_ends(project: Project) -> None:
    team(project)
    assert project.awk("run", "ship", "--detach").code == 0
    moved = project.awk("reassign", "i1", "bob")
    assert (moved.code, moved.out.split()[0]) == (0, "i1")
    late = project.awk("answer", "i1", "yes", "--as", "carol")
    assert (late.code, "i1 belongs to agent bob" in late.err) == (1, True)
    wait_until(lambda: project.ask("GET", "/runs/r1")["status"] == "done")
    report = project.ask("GET", "/runs/r1")
    assert [(one["from"], one["text"]) for one in report["messages"] if one["kind"] == "reply"] == [
        ("bob", "it is shipped")
    ]


@pytest.mark.promise("P55")
def test_a_person_is_asked_on_the_terminal_of_the_run_and_nobody_waits_off_it(project: Project) -> None:
    team(project)
    alone = project.awk("run", "ship")
    assert (alone.code, "note: carol is asked, and is a person" in alone.err) == (7, True)
    shown, code = on_a_terminal(
        [str(AWK), "run", "ship"], project.root, project.environ, [(b"Answer for carol", b"yes, @bob\rship it\r\r")]
    )
    assert code == 0, shown
    assert b"> @carol may we ship?" in shown
    assert b"it is shipped" in shown


@pytest.mark.promise("P55")
def test_an_agent_does_not_answer_for_a_person_with_the_users_own_token(project: Project) -> None:
    project.write(".agents/carol.yaml", PERSON)
    project.agent(
        "eve", f"shell: 'AGENT_WORKER_HOME={project.state_home} {AWK} answer i1 yes > out 2>&1'", "text: tried"
    )
    assert project.awk("send", "carol", "may we ship?").code == 0
    assert project.awk("send", "eve", "go", "--wait", env=TRUST).code == 0
    assert "but a process of an agent sent it" in (project.root / "out").read_text()
    assert project.ask("GET", "/instructions/i1")["waits_for"] == "person"
