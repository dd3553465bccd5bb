"""The example of a team: four agents on trees that meet, a test that is red and then green, a vote, and a merge.

The README's first team (test_readme_tour.py) is the run of the example as it is delivered.
"""

from typing import Final

import pytest

from tests.project import BWRAP, Project

CHECK: Final = "python3 -m unittest"


@pytest.fixture
def team(project: Project) -> Project:
    project.git("init", "--quiet", "--initial-branch=main")
    project.git("commit", "--quiet", "--allow-empty", "--message", "Begin")
    made = project.awk("init", "--example", "team")
    assert made.code == 0, made.err
    return project


def four_agents_did_their_part(team: Project) -> None:
    """Once the first run is merged: what each of the four did for it, by the log and by git."""
    begin = team.git("rev-list", "--max-parents=0", "HEAD")
    coder, tester, reviewer = (f"awk/team/r1/{name}" for name in ("coder", "tester", "reviewer"))

    # The tester's first commit stands on the coder's first, its second one merges the coder's second.
    first, second = team.git("rev-list", "--reverse", f"{begin}..{coder}").split()
    tests, merged = team.git("rev-list", "--reverse", "--topo-order", f"^{coder}", tester).split()
    assert team.git("show", "--no-patch", "--format=%P", tests) == first
    assert team.git("show", "--no-patch", "--format=%P", merged) == f"{tests} {second}"
    assert team.git("diff", "--name-only", first, tests) == "test_leap.py"
    red, green = (team.awk("show", name, "--steps", "--full").out for name in ("i3", "i5"))
    assert ("FAILED (failures=1)" in red, "FAIL: test_centuries" in red) == (True, True), red
    assert ("Ran 2 tests" in green, "FAIL" in green) == (True, False), green

    # Both vote on the commit that was green, and that is what lands.
    run = team.ask("GET", "/runs/r1")
    assert (run["exit_code"], run["verdict"]) == (0, "yes")
    votes = [one["text"].splitlines()[1] for one in run["messages"] if one["kind"] == "vote"]
    assert sorted(votes) == [f"(seen: commit {merged[:12]} of {name})" for name in (reviewer, tester)]
    assert team.git("log", "--first-parent", "--format=%s").splitlines() == [
        "Merge the work of tester in r1 of team:main",
        "Merge the work of coder in r1 of team:main",
        "Begin",
    ]
    assert team.git("diff", "--name-only", "HEAD", merged) == ""
    assert team.git("status", "--porcelain", "--untracked-files=no") == ""
    assert "year % 400" in (team.root / "leap.py").read_text("utf-8")


@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)")
@pytest.mark.promise("P32", "P33")
@pytest.mark.long("tests/e2e/test_merge.py, tests/e2e/test_confined_trees.py")
def test_the_team_does_the_same_in_sandboxes(team: Project) -> None:
    for file in (team.root / ".agents").glob("*.yaml"):
        file.write_text(file.read_text("utf-8").replace("model: mock/", "sandbox: on\nmodel: mock/"), "utf-8")
    env = {"AGENT_WORKER_BWRAP": str(BWRAP)}
    for words in (("run", "team", "--trust"), ("merge", "@team", "--check", CHECK)):
        done = team.awk(*words, env=env, seconds=120)
        assert done.code == 0, done.out + done.err
    four_agents_did_their_part(team)
