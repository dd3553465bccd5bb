"""The example of a team: four agents on trees that meet, a test that is red and then green, a vote, and a merge.

The end of the README's tour (test_readme_tour.py) is the run of the example as it is delivered.
"""

import os
import shutil
import subprocess
from typing import Final

import pytest

from tests.project import Project

BWRAP: Final = os.environ.get("AGENT_WORKER_TEST_BWRAP") or shutil.which("bwrap")
CHECK: Final = "python3 -m unittest"


def git(project: Project, *words: str) -> str:
    who = {f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {**project.environ, **who}
    done = subprocess.run(("git", *words), cwd=project.root, env=environ, capture_output=True, check=True, timeout=30)
    return done.stdout.decode().strip()


@pytest.fixture
def team(project: Project) -> Project:
    """The example in a repository with one commit, as a user gets it there."""
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    made = project.awk("init", "--example", "team")
    assert made.code == 0, made.err
    return project


def four_agents_did_their_part(team: Project) -> None:
    """Once the first run is merged: what each of the four did for it, by the log and by git."""
    begin = git(team, "rev-list", "--max-parents=0", "HEAD")
    coder, tester, reviewer = (f"awk/team/r1/{name}" for name in ("coder", "tester", "reviewer"))

    # The tester's first commit stands on the coder's first, its second one merges the coder's second.
    first, second = git(team, "rev-list", "--reverse", f"{begin}..{coder}").split()
    tests, merged = git(team, "rev-list", "--reverse", "--topo-order", f"^{coder}", tester).split()
    assert git(team, "show", "--no-patch", "--format=%P", tests) == first
    assert git(team, "show", "--no-patch", "--format=%P", merged) == f"{tests} {second}"
    assert git(team, "diff", "--name-only", first, tests) == "test_leap.py"
    red, green = (team.awk("show", name, "--steps", "--full").out for name in ("i3", "i5"))
    assert ("FAILED (failures=1)" in red, "FAIL: test_centuries" in red) == (True, True), red
    assert ("Ran 2 tests" in green, "FAIL" in green) == (True, False), green

    # Both vote on the commit that was green, and that is what lands.
    run = team.ask("GET", "/runs/r1")
    assert (run["exit_code"], run["verdict"]) == (0, "yes")
    votes = [one["text"].splitlines()[1] for one in run["messages"] if one["kind"] == "vote"]
    assert sorted(votes) == [f"(seen: commit {merged[:12]} of {name})" for name in (reviewer, tester)]
    assert git(team, "log", "--first-parent", "--format=%s").splitlines() == [
        "Merge what tester did in r1 of team:main",
        "Merge what coder did in r1 of team:main",
        "Begin",
    ]
    assert git(team, "diff", "--name-only", "HEAD", merged) == ""
    assert git(team, "status", "--porcelain", "--untracked-files=no") == ""
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


@pytest.mark.promise("P33")
@pytest.mark.long("tests/e2e/test_handbook_example.py, tests/e2e/test_merge.py")
def test_while_a_test_is_red_nobody_calls_the_vote_and_nothing_lands(team: Project) -> None:
    """A coder who does not mend it: no verdict, exit 6; what was done is refused by the check, exit 1."""
    file = team.root / ".agents/coder.yaml"
    text = file.read_text("utf-8")
    begin, end = text.index("      - shell:"), text.index("  - do:\n")
    file.write_text(f"{text[:begin]}      - text: I cannot mend it.\n{text[end:]}", "utf-8")
    before = git(team, "rev-parse", "main")
    ran = team.awk("run", "team", "--trust", "--json", seconds=120)
    assert (ran.code, ran.json()["verdict"]) == (6, None), ran.err + ran.out
    refused = team.awk("merge", "@team", "--check", CHECK, seconds=120)
    assert (refused.code, "FAIL: test_centuries" in refused.out) == (1, True), refused.out
    assert (git(team, "rev-parse", "main"), (team.root / "leap.py").exists()) == (before, False)
