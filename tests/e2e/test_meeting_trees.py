"""Working trees that meet: a colleague's commits, committed at the end of an instruction, taken over, and shared."""

import subprocess
from pathlib import Path

import pytest

from tests.project import Project

TEAM = """\
agents:
  coder:
    backend: mock
    mock:
      - when: red
        do:
          - shell: printf "from operator import %s as add" add > calc.py
          - text: "@tester mended"
      - do:
          - shell: printf "from operator import %s as add" sub > calc.py && mkdir -p build && touch build/leftover
          - text: "@tester test it"
  tester:
    backend: mock
    worktree: {from: coder}
    mock:
      - when: mended
        do:
          - shell: python3 -c "import calc; assert calc.add(2, 2) == 4"
          - tool: team_vote
            args: {proposal: release, choice: "yes"}
          - text: green
      - do:
          - shell: "! python3 -c 'import calc; assert calc.add(2, 2) == 4'"
          - tool: tree_status
          - tool: team_proposal_create
            args: {id: release, type: approval, binding: true, title: release}
          - text: "@coder red"
verdict: {id: release, electors: [tester], timeout: 60s}
workspace:
  git: worktree
kickoff: "@coder go"
"""


def git(project: Project, *words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        ("git", *words), cwd=cwd or project.root, env=project.environ, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def repository(project: Project, workflow: str) -> None:
    """A repository with a workflow, whose hooks and filters must never run."""
    project.write(".workflows/team.yaml", workflow)
    project.write(".gitignore", "build/\n__pycache__/\n")
    project.write(".gitattributes", "*.py filter=evil\n")
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "config", "user.name", "Jo Doe")
    git(project, "config", "user.email", "jo@example.org")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "-m", "first")
    git(project, "config", "filter.evil.clean", f"touch {project.root}/ran; cat")
    for name in ("pre-commit", "post-commit", "post-checkout", "reference-transaction"):
        hook = project.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {project.root}/ran\n")
        hook.chmod(0o755)


def said(project: Project, agent: str) -> list[str]:
    rows = project.awk("channel", "@team", "--json").json()["messages"]
    return [row["text"] for row in rows if row["from"] == agent]


@pytest.mark.promise("P40")
def test_the_testers_tree_has_the_coders_commit_and_a_vote_names_what_it_saw(project: Project) -> None:
    """contracts 1: what the coder leaves is on its branch; red in the first round, green in the second."""
    repository(project, TEAM)
    ran = project.awk("run", "team", "--trust", "--json")
    assert (ran.code, ran.json().get("verdict")) == (0, "yes"), ran.err + ran.out
    branches = git(project, "branch", "--list", "awk/*", "--format=%(refname:short)").split()
    assert branches == ["awk/team/r1/coder", "awk/team/r1/tester"]
    log = git(project, "log", "--format=%an|%ae|%s", "awk/team/r1/coder").splitlines()
    assert log[:2] == [
        "Jo Doe (coder)|jo@example.org|coder: work of i3 (r1)",
        "Jo Doe (coder)|jo@example.org|coder: work of i1 (r1)",
    ]
    tip = git(project, "rev-parse", "awk/team/r1/coder")
    assert git(project, "rev-parse", "awk/team/r1/tester") == tip
    assert git(project, "ls-tree", "--name-only", tip).split() == [
        ".gitattributes",
        ".gitignore",
        ".workflows",
        "calc.py",
    ]
    [vote] = [text for text in said(project, "tester") if text.startswith("[VOTE:release]")]
    assert vote.splitlines()[1] == f"(seen: commit {tip[:12]} of awk/team/r1/tester)"
    assert not (project.root / "ran").exists()
    assert git(project, "status", "--porcelain") == ""
    prompt = project.awk("show", "i2", "--prompt").out
    assert "- Before each of your instructions your tree is brought to the last commit of @coder's branch." in prompt
    first = git(project, "rev-parse", "awk/team/r1/coder~1")
    assert f"- @coder has awk/team/r1/coder, at {first[:12]}: 1 commits since it began." in prompt
