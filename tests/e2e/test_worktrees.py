"""Agents in working trees of their own, with a real kernel and a real repository."""

from pathlib import Path

import pytest

from tests.e2e.processes import wait_until
from tests.project import Project

REVIEW = """\
agents:
  alice:
    backend: mock
    mock:
      - shell: pwd > where && cat .env >> where && printf '%s' "$NUMBER" >> where && ls .env ported
      - shell: "git -c user.name=a -c user.email=a@b commit --quiet --allow-empty -m 'by alice'"
      - sleep: 0.1
      - tool: channel_send
        args: {message: "@bob here"}
      - text: done
  bob:
    backend: mock
    mock:
      - shell: git status --porcelain
      - text: nothing to do
workspace:
  git: worktree
  setup:
    - shell: echo "$AGENT_NAME $AGENT_NUMBER $AGENT_WORKFLOW $AGENT_TAG" > ported
  teardown:
    - shell: echo "$AGENT_NAME" >> "$AGENT_PROJECT/ended.log"
kickoff: "@alice go"
"""


def repository(project: Project) -> None:
    project.write(".workflows/review.yaml", REVIEW)
    project.write(".gitignore", ".env\nported\nended.log\n")
    project.write(".worktreeinclude", ".env\n")
    project.commit()
    project.write(".env", "KEY=1\n")


def trees(project: Project) -> list[str]:
    listed = project.git("worktree", "list", "--porcelain").splitlines()
    paths = [Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")][1:]
    return [f"{path.parent.name}/{path.name}" for path in paths]


@pytest.mark.long("tests/kernel/git/test_branches.py, tests/kernel/git/test_repository.py")
def test_each_agent_works_on_a_branch_of_its_own_and_what_it_did_is_kept(project: Project) -> None:
    """contracts 1: workspace.git; awk diff; kept with commits of its own, swept when clean, by the next kernel too."""
    repository(project)
    refused = project.awk("run", "review")
    assert refused.code == 7
    assert "each working tree's setup runs: echo" in refused.err
    ran = project.awk("run", "review", "--trust", "--json")
    assert (ran.code, ran.json()["status"]) == (0, "done"), ran.err
    project.until("worktree.removed")
    project.until("worktree.kept")
    assert "worktree.kept review:main alice branch=awk/review/r1/alice" in project.awk("logs").out
    assert trees(project) == ["r1/alice"]
    assert sorted((project.root / "ended.log").read_text().split()) == ["alice", "bob"]
    where = project.state / "worktrees/review/r1/alice"
    assert (where / "where").read_text() == f"{where}\nKEY=1\n"
    assert (where / "ported").read_text() == "alice 1 review main\n"
    assert project.git("branch", "--list", "awk/*", "--format=%(refname:short)") == "awk/review/r1/alice"
    assert project.git("status", "--porcelain") == ""
    [tree] = project.awk("diff", "alice@review", "--json").json()["worktrees"]
    assert (tree["branch"], tree["state"]) == ("awk/review/r1/alice", "kept")
    assert tree["stat"] == {"files": 1, "added": 2, "deleted": 0, "commits": 2}
    assert "+KEY=1" in tree["patch"]
    shown = project.awk("diff", "alice@review", "--stat").out
    assert "files: 1, lines: +2 -0, commits: 2, since" in shown
    assert "by alice" in shown
    assert "alice: work of i1 (r1)" in shown
    assert "kept: commits that are on no other branch: 2" in shown
    assert project.awk("run", "review", "--trust", "--json").code == 0
    wait_until(lambda: trees(project) == ["r1/alice", "r2/alice"])
    assert project.awk("stop", "--yes").code == 0
    project.git("merge", "--quiet", "awk/review/r1/alice")
    assert project.awk("start").code == 0
    wait_until(lambda: trees(project) == ["r2/alice"])
    assert project.awk("diff", "bob@review").code == 5
