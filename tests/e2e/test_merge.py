"""What agents did becomes part of a branch: with a real kernel, a real repository and the command line."""

import pytest

from tests.project import Project

COMMIT = "git -c user.name=a -c user.email=a@b commit --quiet -am"
TEAM = """\
agents:
  alice:
    backend: mock
    mock:
      - shell: "%(alice)s"
      - tool: channel_send
        args: {message: "@bob go"}
      - text: alice did it
  bob:
    backend: mock
    mock:
      - shell: "%(bob)s"
      - text: bob did it
workspace: {git: worktree}
kickoff: "@alice go"
"""
ALICE = f"echo alice > a.txt && git add a.txt && {COMMIT} one"
BOB = f"echo bob > b.txt && git add b.txt && {COMMIT} two"


def team(project: Project, alice: str = ALICE, bob: str = BOB, more: str = "") -> None:
    """A repository with a workflow of two, who have done what they do."""
    project.write(".workflows/team.yaml", TEAM % {"alice": alice, "bob": bob} + more)
    project.write(".gitignore", ".agents/\n.workspace/\n")
    project.write("base.txt", "base\n")
    project.commit()


def refs(project: Project) -> dict[str, str]:
    rows = project.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {name: commit for name, _, commit in (row.partition(" ") for row in rows)}


@pytest.mark.promise("P33")
def test_all_that_agents_did_lands_in_one_move_with_the_checkout(project: Project) -> None:
    team(project)
    ran = project.awk("run", "team", "--trust", "--json")
    assert (ran.code, ran.json()["delivery"]) == (0, None), ran.err
    before = refs(project)
    tried = project.awk("merge", "r1", "--dry-run", "--json")
    assert (tried.code, tried.json()["state"], refs(project)) == (0, "possible", before)
    merged = project.awk("merge", "@team", "--check", "test -f a.txt && test -f b.txt", "--json")
    assert (merged.code, merged.json()["state"]) == (0, "merged"), merged.out + merged.err
    assert [(one["agent"], one["commits"]) for one in merged.json()["branches"]] == [("alice", 1), ("bob", 1)]
    assert project.git("status", "--porcelain") == ""
    assert (project.root / "a.txt").read_text() + (project.root / "b.txt").read_text() == "alice\nbob\n"
    assert refs(project) == {**before, "refs/heads/main": merged.json()["commit"]}
    subjects = project.git("log", "--first-parent", "--format=%s").splitlines()
    assert subjects == [
        "Merge the work of bob in r1 of team:main",
        "Merge the work of alice in r1 of team:main",
        "first",
    ]
    assert "Instructions: i2" in project.git("log", "-1", "--format=%B")
    assert "awk merge" in project.git("reflog", "main")
    again = project.awk("merge", "r1")
    assert (again.code, "nothing to merge" in again.out) == (0, True), again.out
    assert project.git("rev-parse", "main") == merged.json()["commit"]
    assert project.awk("merge", "r9").code == 5
    assert project.awk("merge", "r1", "--into", "a..b").code == 2


@pytest.mark.long("tests/kernel/services/test_landing_faults.py, tests/kernel/policy/test_landing.py")
def test_a_run_delivers_its_work_and_its_exit_code_says_so(project: Project) -> None:
    """`deliver`: trust is asked for the check; merged where it is green; red is exit code 1, and the target stays."""
    team(project, more="deliver: {check: 'test -f a.txt && test ! -f bad'}\n")
    asked = project.awk("run", "team")
    assert (asked.code, "test -f a.txt && test ! -f bad" in asked.err) == (7, True)
    ran = project.awk("run", "team", "--trust", "--json")
    assert (ran.code, ran.json()["delivery"]["state"]) == (0, "merged"), ran.err
    assert project.git("rev-parse", "main") == ran.json()["delivery"]["commit"]
    assert project.git("status", "--porcelain") == ""
    text = (project.root / ".workflows/team.yaml").read_text()
    project.write(
        ".workflows/team.yaml", text.replace(BOB, f"touch bad && git add bad && {COMMIT} bad").replace(ALICE, "true")
    )
    project.git("commit", "--quiet", "-am", "worse")
    before = project.git("rev-parse", "main")
    red = project.awk("run", "team", "--trust", "--json")
    assert (red.code, red.json()["status"], red.json()["delivery"]["state"]) == (1, "failed", "refused"), red.err
    assert project.git("rev-parse", "main") == before
    assert [one["from"] for one in red.json()["messages"]].count("bob") == 2
