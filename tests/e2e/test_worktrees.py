"""Agents in working trees of their own, with a real kernel and a real repository."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.e2e.processes import survivors, wait_until
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


def git(project: Project, *words: str, cwd: Path | None = None) -> str:
    names = {f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ("git", *words), cwd=cwd or project.root, env={**project.environ, **names}, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def repository(project: Project) -> None:
    project.write(".workflows/review.yaml", REVIEW)
    project.write(".gitignore", ".env\nported\nended.log\n")
    project.write(".worktreeinclude", ".env\n")
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "-m", "first")
    project.write(".env", "KEY=1\n")


def trees(project: Project) -> list[str]:
    listed = git(project, "worktree", "list", "--porcelain").splitlines()
    paths = [Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")][1:]
    return [f"{path.parent.name}/{path.name}" for path in paths]


def kill(project: Project) -> None:
    kernel = psutil.Process(int(project.record()["pid"]))
    os.kill(kernel.pid, signal.SIGKILL)
    assert survivors([kernel], seconds=10) == []


@pytest.mark.long("tests/kernel/workflows/test_branches.py, tests/kernel/workflows/test_repository.py")
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
    assert git(project, "branch", "--list", "awk/*", "--format=%(refname:short)") == "awk/review/r1/alice"
    assert git(project, "status", "--porcelain") == ""
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
    git(project, "merge", "--quiet", "awk/review/r1/alice")
    assert project.awk("start").code == 0
    wait_until(lambda: trees(project) == ["r2/alice"])
    assert project.awk("diff", "bob@review").code == 5


@pytest.mark.long("tests/kernel/workflows/test_start.py")
def test_a_tree_that_cannot_be_set_up_says_what_its_command_printed(project: Project) -> None:
    """contracts 1: whoever runs it reads why, on whichever stream it was said, and of no trees where none is left."""
    repository(project)
    setup = 'shell: echo "$AGENT_NAME'
    project.write(".workflows/review.yaml", REVIEW.replace(setup, f"shell: echo no such package; exit 3; # {setup}"))
    ran = project.awk("run", "review", "--trust")
    assert ran.code == 1
    assert "error: alice: i1 failed: workspace.setup[0] of alice failed: exit code 3: echo no such package" in ran.err
    assert "it said:\nno such package" in ran.err
    assert "working trees of their own" not in ran.err


@pytest.mark.promise("P1", "P2")
@pytest.mark.long("tests/kernel/workflows/test_repository.py")
def test_a_killed_kernel_loses_no_tree_and_a_started_run_goes_on_in_it(project: Project) -> None:
    repository(project)
    script = REVIEW.replace("sleep: 0.1", "sleep: 600").replace("- text: done", "- text: done again")
    project.write(".workflows/review.yaml", script)
    assert project.awk("start", "review", "--trust").code == 0
    where = project.state / "worktrees/review/r1/alice"
    project.until("worktree.made")
    wait_until(lambda: "by alice" in _log(project, where))
    rows = {row["name"]: row for row in project.ask("GET", "/ps")["agents"]}
    wait_until(lambda: _stat(project) == {"files": 1, "added": 2, "deleted": 0, "commits": 1})
    assert rows["bob"]["diff"] is None
    kill(project)
    assert project.awk("start").code == 0
    wait_until(lambda: _stat(project) == {"files": 1, "added": 2, "deleted": 0, "commits": 1})
    assert _log(project, where).count("by alice") == 1
    assert project.awk("stop", "@review").code == 0
    wait_until(lambda: (project.root / "ended.log").exists() and trees(project) == ["r1/alice"])


def _log(project: Project, where: Path) -> str:
    return git(project, "log", "--format=%s", cwd=where)


def _stat(project: Project) -> object:
    rows = project.ask("GET", "/ps")["agents"]
    return next(row["diff"] for row in rows if row["name"] == "alice")
