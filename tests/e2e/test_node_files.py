"""Agents that work on a node, as their users see it: their files go there, and what they did is where it always is."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.far_machines import AGENT_WORKER, end_node_processes
from tests.e2e.processes import wait_until
from tests.project import Project, empty_project

pytestmark = [
    pytest.mark.promise("P89"),
    pytest.mark.long("tests/kernel/services/test_node_trees.py, tests/kernel/workflows/test_node_sync.py"),
]
BWRAP: Final = os.environ.get("AGENT_WORKER_TEST_BWRAP") or shutil.which("bwrap")
TRUST = {"AGENT_WORKER_TRUST": "1", "ONLY_HERE": "kernel's own", "NAMED": "for alice"}


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Path]:
    """The home of the far user; what serves there is ended at last."""
    folder = tmp_path / "far"
    folder.mkdir()
    yield folder
    end_node_processes(folder / "state")


@pytest.fixture
def project(tmp_path: Path, far: Path) -> Iterator[Project]:
    """A project in a repository, with a node that has a home of its own."""
    made = empty_project(tmp_path)
    path = ":".join(filter(None, (os.path.dirname(BWRAP or ""), os.environ["PATH"])))
    argv = f"[env, HOME={far}, AGENT_WORKER_HOME={far}/state, 'PATH={path}']"
    made.write("moniro.yaml", f"nodes:\n  g1: {{via: command, argv: {argv}, command: {AGENT_WORKER}, labels: [gpu]}}\n")
    made.write("a.txt", "one\n")
    made.write(".gitignore", "*.ignored\n")
    git(made, "init", "--quiet", "--initial-branch=main")
    yield made
    made.stop()


def git(project: Project, *words: str) -> str:
    names = {f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**project.environ, **names}
    return subprocess.run(
        ("git", *words), cwd=project.root, env=env, capture_output=True, check=True, text=True
    ).stdout.strip()


def commit(project: Project, **more: str) -> None:
    """Commit all, and start the kernel, which trusts it."""
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "-m", "first")
    assert project.awk("start", "--trust", env={**TRUST, **more}).code == 0


def workflow(project: Project, *steps: str, more: str = "", workspace: str = "git: worktree") -> None:
    """One run of alice, on the node."""
    shells = ", ".join(f'{{shell: "{step}"}}' for step in steps)
    project.write(
        ".workflows/w.yaml",
        f"""
        agents:
          alice:
            backend: mock
            needs: {{labels: [gpu]}}
            env: [NAMED]
            mock: [{shells}, {{text: done}}]
            {more}
        workspace: {{{workspace}}}
        kickoff: "@alice go"
        """,
    )


def run(project: Project, **more: Any) -> dict[str, Any]:
    ran = project.awk("run", "w", "--json", env={**TRUST, **more})
    assert ran.code == 0, (ran.err, ran.out, (project.state / "kernel.log").read_text()[-3000:])
    found: dict[str, Any] = ran.json()
    assert found["status"] == "done"
    return found


def test_a_run_on_a_node_leaves_its_work_where_every_run_does(project: Project, far: Path) -> None:
    setup = 'git: worktree, setup: [{shell: "echo $AGENT_PROJECT >>made.ignored"}]'
    step = "cat made.ignored >where; env >>where; echo two >a.txt; echo new >new.txt; pwd >>where"
    workflow(project, step, workspace=setup)
    commit(project)
    run(project)
    where = git(project, "show", "awk/w/r1/alice:where").splitlines()
    clone = Path(where[0])
    assert where[-1] == str(clone)
    assert (clone.parts[-4:], clone.is_relative_to(far / "state/nodes")) == (("trees", "r1", "alice", "tree"), True)
    assert {f"HOME={far}", "NAMED=for alice"} <= set(where)
    assert not [line for line in where if "kernel's own" in line or str(project.home) in line]
    assert "new.txt" in project.awk("diff", "@w", "--stat").out
    merged = project.awk("merge", "r1", env=TRUST)
    assert merged.code == 0, merged.err
    assert (project.root / "a.txt").read_text() == "two\n"
    assert not git(project, "status", "--porcelain")
    wait_until(lambda: not clone.exists(), 60.0)


def test_work_that_does_not_come_home_is_not_done(project: Project) -> None:
    broken = "git checkout -q --orphan o && git -c user.name=a -c user.email=a@l commit -qm x --allow-empty"
    workflow(project, f"here=$(git symbolic-ref --short HEAD); {broken}; git branch -M $here")
    commit(project)
    ran = project.awk("run", "w", "--json", env=TRUST)
    assert (ran.code, ran.json()["status"]) == (1, "failed"), (ran.err, ran.out)
    shown = project.awk("show", "i1")
    assert "what was done on g1 has not come back" in shown.out, shown.out


def test_what_is_not_committed_is_told_and_a_direct_message_ends_on_a_branch(project: Project) -> None:
    project.agent("alice", 'shell: "cat a.txt >b.txt"', "text: done", more="needs: {labels: [gpu]}")
    commit(project)
    project.write("a.txt", "not committed\n")
    project.write("c.txt", "new\n")
    sent = project.awk("send", "alice", "go", "--json", env=TRUST)
    assert sent.json()["left_behind"] == 2, sent.out
    ran = project.awk("send", "alice", "go", "--wait", env=TRUST)
    assert "note: 2 files are not committed" in ran.err
    assert ran.code == 0, (ran.err, ran.out)
    branch = git(project, "for-each-ref", "--format=%(refname:short)", "refs/heads/awk/node")
    assert git(project, "show", f"{branch}:b.txt") == "one"
    assert not (project.root / "b.txt").exists()
    assert (project.root / "a.txt").read_text() == "not committed\n"


def test_no_repository_is_refused_with_what_to_do(project: Project) -> None:
    project.agent("bob", "text: done", more="needs: {labels: [gpu]}")
    commit(project)
    workflow(project, "true", workspace="git: shared")
    ran = project.awk("run", "w", env=TRUST)
    assert (ran.code != 0, "write git: worktree" in ran.err) == (True, True), ran.err
    shutil.rmtree(project.root / ".git")
    workflow(project, "true", workspace="git: none")
    for words in (("run", "w"), ("send", "bob", "go", "--wait")):
        ran = project.awk(*words, env=TRUST)
        assert (ran.code != 0, "git init, and commit" in ran.out + ran.err) == (True, True), ran.err


@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)")
def test_a_confined_agent_on_a_node_sees_its_clone_and_is_not_let_out_by_git(project: Project, far: Path) -> None:
    """What it writes into its repository is run by our git only where it may do all of that itself."""
    secret, proof = far / "secret", far / "RAN"
    secret.write_text("the far user's\n")
    evil = f"git config filter.x.clean 'touch {proof}'; git config core.fsmonitor 'touch {proof}'"
    step = f"{evil}; echo '* filter=x' >.git/info/attributes; cat {secret} >stolen; echo ok >ok.txt; git add ok.txt"
    workflow(project, step, more="sandbox: on")
    commit(project, AGENT_WORKER_BWRAP=str(BWRAP))
    run(project)
    assert git(project, "show", "awk/w/r1/alice:ok.txt") == "ok"
    assert git(project, "show", "awk/w/r1/alice:stolen") == ""
    assert not proof.exists()


def test_work_goes_on_after_its_node_was_lost_and_what_is_left_there_is_kept(project: Project, far: Path) -> None:
    gate = far / "gate"
    step = f"echo half >half.txt; touch {far}/began; while test ! -e {gate}; do sleep 0.1; done; echo whole >whole.txt"
    workflow(project, step)
    commit(project)
    running = project.spawn("run", "w", "--json", env=TRUST)
    try:
        wait_until((far / "began").exists, 60.0)
        end_node_processes(far / "state")
        gate.touch()
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert json.loads(out)["status"] == "done"
    assert git(project, "show", "awk/w/r1/alice:whole.txt") == "whole"
    assert git(project, "show", "awk/w/r1/alice:half.txt") == "half"
    project.until("worker.log", holds=lambda event: "what was left on g1 is taken" in event["data"]["text"])


def test_a_kernel_that_is_killed_finds_on_the_node_what_was_done_there(project: Project, far: Path) -> None:
    gate = far / "gate"
    step = f"echo half >half.txt; touch {far}/began; while test ! -e {gate}; do sleep 0.1; done; echo whole >whole.txt"
    workflow(project, step)
    commit(project)
    assert project.awk("run", "w", "--detach", env=TRUST).code == 0
    wait_until((far / "began").exists, 60.0)
    os.kill(project.record()["pid"], signal.SIGKILL)
    wait_until(lambda: not project.alive(), 30.0)
    gate.touch()
    assert project.awk("start", "--trust", env=TRUST).code == 0
    project.until("workflow.stopped", 120.0)
    assert git(project, "show", "awk/w/r1/alice:half.txt", "awk/w/r1/alice:whole.txt") == "half\nwhole"
