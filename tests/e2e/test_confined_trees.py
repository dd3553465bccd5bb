"""Confined agents in working trees: nothing that they write is run outside, and only their own branch moves."""

import shutil
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pytest

from protocol.target import MAX_MENTIONS
from tests.project import BWRAP, Project

pytestmark = [
    pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)"),
    pytest.mark.promise("P29"),
]
ENV: Final = {"AGENT_WORKER_BWRAP": str(BWRAP), "AGENT_WORKER_TRUST": "1"}
WHO: Final = "-c user.name=a -c user.email=a@b"


def workflow(project: Project, script: str, *, bob: str = "true", more: str = "") -> None:
    """One run of alice, who runs ``script`` in a sandbox, and then of bob, who runs ``bob`` in one of his own."""
    project.write(
        ".workflows/w.yaml",
        f"""
        agents:
          alice:
            backend: mock
            sandbox: on
            mock: [{{shell: "sh alice.sh"}}, {{tool: channel_send, args: {{message: "@bob here"}}}}, {{text: done}}]
          bob:
            backend: mock
            sandbox: on
            mock: [{{shell: "sh bob.sh"}}, {{text: done}}]
        workspace: {{git: worktree, commit: manual{more}}}
        kickoff: "@alice go"
        """,
    )
    project.write("alice.sh", script)
    project.write("bob.sh", bob)
    project.write("f.txt", "data\n")
    project.write("clean.sh", ":\n")
    project.write(".gitignore", "ported\n")
    project.commit()
    project.git("tag", "v0")


def run(project: Project) -> None:
    ran = project.awk("run", "w", "--json", env=ENV)
    assert (ran.code, ran.json()["status"]) == (0, "done"), ran.err
    project.until("worktree.kept")


def until_kept(project: Project, agent: str) -> None:
    project.until("worktree.kept", holds=lambda event: event["agent"] == agent)


def tree(project: Project, name: str = "alice") -> Path:
    return project.state / "worktrees/w/r1" / name


def ran(project: Project) -> list[str]:
    return [path.name for path in project.home.glob("RAN-*")]


def evil_git_directory(trace: str) -> str:
    """Makes a git directory in ``.evil`` whose configuration leaves files that begin with ``trace``."""
    return f"""
        C=$(git rev-parse --path-format=absolute --git-common-dir)
        mkdir .evil; cp -r $C/HEAD $C/refs .evil/; ln -s $C/objects .evil/objects
        printf '[core]\\n\\trepositoryformatversion = 0\\n' > .evil/config
        printf '\\tfsmonitor = "touch {trace}-monitor; false"\\n' >> .evil/config
        printf '[filter "x=y"]\\n\\tclean = "touch {trace}-clean; cat"\\n' >> .evil/config
        printf '[diff "x=y"]\\n\\ttextconv = "touch {trace}-textconv; cat"\\n' >> .evil/config
        echo '* filter=x=y diff=x=y' > .gitattributes
        """


WAYS: Final = {
    "commondir": "echo $PWD/.evil > $(git rev-parse --absolute-git-dir)/commondir",
    "configuration": "cat .evil/config >> $(git rev-parse --absolute-git-dir)/config",
    "tree-configuration": "git config extensions.worktreeConfig true;"
    " cp .evil/config $(git rev-parse --git-dir)/config.worktree",
    "another-git": "mv .git old; rm .git; cp -r .evil .git; echo gitdir: $PWD/.evil > .git; mv .evil/* .git/",
    "alternates": "echo $PWD/.evil/objects >> $(git rev-parse --git-dir)/objects/info/alternates",
    "project": "cat .evil/config >> $P/.git/config; echo $PWD/.evil > $P/.git/commondir; mv $P/.git $P/old",
    "linked-tree": "for d in $P/.git/worktrees/*; do echo $PWD/.evil > $d/commondir; cp .evil/config $d/; done",
    "hooks": "for h in reference-transaction post-index-change pre-auto-gc; do mkdir -p $P/.git/hooks;"
    " printf '#!/bin/sh\\ntouch TRACE-hook' | tee $P/.git/hooks/$h > $(git rev-parse --git-dir)/hooks/$h; done",
    "submodule": "git init -q sub; cat .evil/config >> sub/.git/config; cp .gitattributes sub; echo 1 > sub/f;"
    f" (cd sub; git add f; git {WHO} commit -qm s; echo 2 > f); git add sub;"
    " printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n\\tignore = none\\n' > .gitmodules",
}
"""By the agent that does it: nine agents of one run, each in a tree of its own."""


@pytest.mark.promise("XF19")
@pytest.mark.long("tests/kernel/git/test_hostile_repository.py, tests/kernel/git/test_clone.py")
def test_what_a_confined_agent_writes_is_not_run_outside(project: Project) -> None:
    """While it is measured, by awk diff, by the sweep, and by the user's own git in the project and the tree.

    What was run has left a file whose name says by which way.
    """
    for way, do in WAYS.items():
        trace = f"{project.home}/RAN-{way}"
        does = f"P={project.root}\n{evil_git_directory(trace)}\n{do.replace('TRACE', trace)}\n"
        project.write(f"ways/{way}.sh", f"{does}echo changed >> f.txt\n")
    names = [f"@{way}" for way in WAYS]
    first, rest = " ".join(names[:MAX_MENTIONS]), " ".join(names[MAX_MENTIONS:])
    hand_on = f'{{tool: channel_send, args: {{message: "{rest} go"}}}}, '
    agents = "".join(
        f'  {way}: {{backend: mock, sandbox: on, mock: [{{shell: "sh ways/{way}.sh"}}, {said}{{text: done}}]}}\n'
        for way, said in zip_longest(WAYS, [hand_on], fillvalue="")
    )
    workflow(project, "true")
    (project.root / ".workflows/w.yaml").write_text(
        f'agents:\n{agents}workspace: {{git: worktree, commit: manual}}\nkickoff: "{first} go"\n'
    )
    project.commit("ways")
    before = project.git("for-each-ref", "refs/heads/main", "refs/tags")
    run(project)
    for way in WAYS:
        until_kept(project, way)
        [diff] = project.ask("GET", f"/spaces/w:main/diff?agent={way}&patch=1")["worktrees"]
        assert "f.txt" in {file["path"] for file in diff["files"]}, way
    assert project.awk("stop", "--yes").code == 0
    assert project.awk("start", env=ENV).code == 0
    measured = project.ask("GET", "/spaces/w:main/diff")["worktrees"]
    assert {one["agent"] for one in measured} == {*WAYS}
    for way in WAYS:
        project.git("branch", "-vv", cwd=tree(project, way))
    assert project.git("status", "--porcelain") == ""
    project.git("log", "--oneline", "--all")
    assert project.git("for-each-ref", "refs/heads/main", "refs/tags") == before
    assert ran(project) == []


@pytest.mark.promise("XF19")
@pytest.mark.long("test_only_its_own_branch_moves_and_its_commits_come_back")
def test_commands_over_a_confined_agents_files_are_confined(project: Project) -> None:
    more = ", setup: [{shell: 'echo 1 > ported; touch HOME/RAN-setup || true'}], teardown: [{shell: 'sh ./clean.sh'}]"
    workflow(
        project,
        f"echo 'touch {project.home}/RAN-teardown; touch torn; true' > clean.sh",
        more=more.replace("HOME", str(project.home)),
    )
    run(project)
    assert (tree(project) / "ported").exists()
    assert (tree(project) / "torn").exists(), "it ran"
    assert ran(project) == []


@pytest.mark.promise("XF19")
def test_only_its_own_branch_moves_and_its_commits_come_back(project: Project) -> None:
    script = f"""
        echo x > n; git add n; git {WHO} commit -qm mine
        git update-ref refs/heads/main HEAD; git tag -f v0; git tag v1; git branch other; git branch -D awk/w/r1/bob
        for b in main awk/w/r1/bob v1; do echo $(git rev-parse HEAD) > {project.root}/.git/refs/heads/$b; done
        git --git-dir={project.root}/.git update-ref refs/heads/main HEAD; rm -rf {project.root}/.git/refs
        for t in {project.state}/worktrees/w/r1/bob {project.state}/worktrees/.clones/w/r1/bob; do
            touch $t/planted; rm -rf $t/*; done
        git worktree add -q ../bob2; true
        """
    workflow(project, script, bob=f"echo b > b; git add b; git {WHO} commit -qm his; git log --oneline -1 > log")
    main = project.git("rev-parse", "main")
    run(project)
    until_kept(project, "bob")
    branches = project.git("for-each-ref", "--format=%(refname) %(contents:subject)").splitlines()
    assert branches == [
        "refs/heads/awk/w/r1/alice mine",
        "refs/heads/awk/w/r1/bob his",
        "refs/heads/main first",
        "refs/tags/v0 first",
    ]
    assert project.git("rev-parse", "main") == main
    assert project.git("fsck", "--strict") == ""
    [diff] = project.awk("diff", "alice@w", "--json").json()["worktrees"]
    assert [commit["subject"] for commit in diff["commits"]] == ["mine"]
    assert [file["path"] for file in diff["files"]] == ["n"]
    assert project.git("status", "--porcelain", cwd=tree(project)) == "", "the user sees it as it is"
    project.git("merge", "--quiet", "awk/w/r1/alice")
    assert (project.root / "n").read_text() == "x\n"


@pytest.mark.long("tests/kernel/git/test_clone.py")
def test_a_repository_that_borrows_objects_gives_a_confined_agent_a_copy(project: Project) -> None:
    workflow(project, f"echo x > n; git add n; git {WHO} commit -qm mine; git log --oneline > seen")
    lender = project.root.with_name("lender")
    project.git("clone", "--quiet", "--bare", str(project.root), str(lender))
    shutil.rmtree(project.root / ".git/objects")
    (project.root / ".git/objects/info").mkdir(parents=True)
    (project.root / ".git/objects/info/alternates").write_text(f"{lender}/objects\n")
    run(project)
    assert project.git("log", "-1", "--format=%s", "awk/w/r1/alice") == "mine"
    assert len((tree(project) / "seen").read_text().splitlines()) == 2
    assert project.git("fsck", "--strict") == ""


@pytest.mark.promise("XF19")
@pytest.mark.long("tests/kernel/services/test_confinement.py")
def test_a_working_directory_that_became_a_link_is_not_worked_in(project: Project) -> None:
    inner = project.root / "app"
    workflow(project, "true")
    shutil.copytree(project.root, inner, ignore=shutil.ignore_patterns(".git", "app"))
    (inner / "alice.sh").write_text(f"cd ..; mv app old; ln -s {project.home} app")
    project.commit("inner")
    within = Project(root=inner, state_home=project.state_home, home=project.home)
    try:
        within.write(".workflows/w.yaml", AGAIN)
        ran = within.awk("run", "w", env=ENV)
        assert "working directory of alice was replaced by a link" in ran.out + ran.err
    finally:
        within.stop()


AGAIN: Final = """
agents:
  alice:
    backend: mock
    sandbox: on
    mock:
      - {shell: "sh alice.sh"}
      - {tool: channel_send, args: {message: "@bob here"}}
      - {text: done}
  bob:
    backend: mock
    sandbox: on
    mock: [{tool: channel_send, args: {message: "@alice second"}}, {text: done}]
workspace: {git: worktree}
kickoff: "@alice go"
"""
