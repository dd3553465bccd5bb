"""Working trees that meet: a colleague's commits, committed at the end of an instruction, taken over, and shared."""

import os
import shutil

import pytest

from tests.e2e.processes import wait_until
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


def repository(project: Project, workflow: str) -> None:
    """A repository with a workflow, whose hooks and filters must never run."""
    project.write(".workflows/team.yaml", workflow)
    project.write(".gitignore", "build/\n__pycache__/\n")
    project.write(".gitattributes", "*.py filter=evil\n")
    project.git("init", "--quiet", "--initial-branch=main")
    project.git("config", "user.name", "Jo Doe")
    project.git("config", "user.email", "jo@example.org")
    project.commit()
    project.git("config", "filter.evil.clean", f"touch {project.root}/ran; cat")
    for name in ("pre-commit", "post-commit", "post-checkout", "reference-transaction"):
        hook = project.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {project.root}/ran\n")
        hook.chmod(0o755)


def said(project: Project, agent: str) -> list[str]:
    rows = project.awk("channel", "@team", "--json").json()["messages"]
    return [row["text"] for row in rows if row["from"] == agent]


@pytest.mark.promise("P32")
@pytest.mark.long("tests/kernel/git/test_branches.py, tests/e2e/test_merge.py")
def test_the_testers_tree_has_the_coders_commit_and_a_vote_names_what_it_saw(project: Project) -> None:
    """contracts 1: what the coder leaves is on its branch; red in the first round, green in the second."""
    repository(project, TEAM)
    ran = project.awk("run", "team", "--trust", "--json")
    assert (ran.code, ran.json().get("verdict")) == (0, "yes"), ran.err + ran.out
    branches = project.git("branch", "--list", "awk/*", "--format=%(refname:short)").split()
    assert branches == ["awk/team/r1/coder", "awk/team/r1/tester"]
    log = project.git("log", "--format=%an|%ae|%s", "awk/team/r1/coder").splitlines()
    assert log[:2] == [
        "Jo Doe (coder)|jo@example.org|coder: work of i3 (r1)",
        "Jo Doe (coder)|jo@example.org|coder: work of i1 (r1)",
    ]
    tip = project.git("rev-parse", "awk/team/r1/coder")
    assert project.git("rev-parse", "awk/team/r1/tester") == tip
    assert project.git("ls-tree", "--name-only", tip).split() == [
        ".gitattributes",
        ".gitignore",
        ".workflows",
        "calc.py",
    ]
    [vote] = [text for text in said(project, "tester") if text.startswith("[VOTE:release]")]
    assert vote.splitlines()[1] == f"(seen: commit {tip[:12]} of awk/team/r1/tester)"
    assert not (project.root / "ran").exists()
    assert project.git("status", "--porcelain") == ""
    prompt = project.awk("show", "i2", "--prompt").out
    assert "- Before each of your instructions, your tree is updated to the last commit of @coder." in prompt
    first = project.git("rev-parse", "awk/team/r1/coder~1")
    assert f"- @coder has awk/team/r1/coder, at {first[:12]}: 1 commits since the start." in prompt


ENV = {"AGENT_WORKER_BWRAP": os.environ.get("AGENT_WORKER_TEST_BWRAP") or shutil.which("bwrap") or ""}


SHARED = """\
agents:
  one:
    backend: mock
    mock: [{shell: "echo 1 > one.txt"}, {text: "@two go on"}]
  two:
    backend: mock
    mock:
      - {tool: tree_take, args: {from: "../one"}}
      - {shell: "cat one.txt > two.txt"}
      - {tool: tree_commit, args: {message: by hand}}
      - {text: done}
workspace: {git: shared, commit: manual}
kickoff: "@one go"
"""


@pytest.mark.long("tests/kernel/workflows/test_workspace.py")
def test_members_can_share_one_tree_which_is_not_the_users_checkout(project: Project) -> None:
    """contracts 1: workspace.git: shared, with commits that are only made when somebody asks for one."""
    repository(project, SHARED)
    ran = project.awk("run", "team", "--trust", "--json")
    assert (ran.code, ran.json()["branches"]) == (0, {"shared": "awk/team/r1/shared"}), ran.err + ran.out
    assert "tree_take" in str(ran.json()["failed_calls"])  # a name that is no colleague's is none of a branch either
    assert project.git("log", "--format=%s", "main..awk/team/r1/shared") == "by hand"
    assert project.git("show", "awk/team/r1/shared:two.txt") == "1"
    assert not (project.root / "one.txt").exists()


@pytest.mark.long("tests/interface/test_reads.py, tests/kernel/git/test_repository.py")
def test_trees_are_listed_and_work_in_them_goes_only_by_force(project: Project) -> None:
    repository(project, SHARED)
    assert project.awk("run", "team", "--trust").code == 0
    [row] = project.awk("worktree", "list", "--run", "r1", "--json").json()["worktrees"]
    assert (row["agent"], row["branch"], row["ahead"]) == ("shared", "awk/team/r1/shared", 1)
    pruned = project.awk("worktree", "prune")
    assert pruned.code == 0
    assert "kept awk/team/r1/shared: commits that are on no other branch: 1" in pruned.out
    cleared = project.awk("clear", "@team", "--yes")
    assert "working trees: 0 removed, 1 kept" in cleared.out, cleared.err
    assert project.awk("worktree", "rm", "--run", "r1").code == 1
    assert project.awk("worktree", "rm", "nobody", "--run", "r1").code == 5
    assert project.awk("worktree", "rm", "--run", "../r1").code == 5
    forced = project.awk("worktree", "rm", "--run", "r1", "--force")
    assert (forced.code, forced.out) == (0, "removed awk/team/r1/shared of r1\n")
    assert project.awk("worktree", "list").out == "no working trees\n"
    assert project.git("branch", "--list", "awk/*") == ""


KILLED = """\
agents:
  coder:
    backend: mock
    mock: [{shell: "date +%N > stamp"}, {text: done}]
workspace: {git: worktree}
kickoff: "@coder go"
"""


@pytest.mark.promise("P1", "P32")
@pytest.mark.long("tests/kernel/services/test_tree_work.py")
def test_a_kernel_that_dies_behind_the_commit_does_not_make_it_twice(project: Project) -> None:
    repository(project, KILLED)
    begun = project.awk("start", "team", "--trust", env={"AGENT_WORKER_CRASH_AT": "tree.committed:1"})
    assert begun.code in (0, 1, 3), begun.err
    wait_until(lambda: project.git("log", "--format=%s", "--all").count("work of i1") == 1)
    assert project.awk("start").code == 0
    project.until("instruction.ended")
    tip = project.git("rev-parse", "awk/team/r1/coder")
    [row] = project.awk("worktree", "list", "--json").json()["worktrees"]
    assert (row["commit"], row["ahead"]) == (tip, 1)
    assert project.git("log", "--format=%s", "main..awk/team/r1/coder") == "coder: work of i1 (r1)"
