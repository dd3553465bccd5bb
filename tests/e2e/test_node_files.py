"""Agents that work on a node, as their users see it: their files go there, and what they did is where it always is."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.far_machines import AGENT_WORKER
from tests.e2e.processes import wait_until
from tests.project import BWRAP, Project, empty_project

pytestmark = [
    pytest.mark.promise("P89"),
    pytest.mark.long("tests/kernel/services/test_node_trees.py, tests/kernel/git/test_node_sync.py"),
]
TRUST = {"AGENT_WORKER_TRUST": "1", "ONLY_HERE": "kernel's own", "NAMED": "for alice"}


@pytest.fixture
def project(tmp_path: Path, far: Path) -> Iterator[Project]:
    """A project in a repository, with a node that has a home of its own."""
    made = empty_project(tmp_path)
    path = ":".join(filter(None, (os.path.dirname(BWRAP or ""), os.environ["PATH"])))
    argv = f"[env, HOME={far}, AGENT_WORKER_HOME={far}/state, 'PATH={path}']"
    made.write("moniro.yaml", f"nodes:\n  g1: {{via: command, argv: {argv}, command: {AGENT_WORKER}, labels: [gpu]}}\n")
    made.write("a.txt", "one\n")
    made.write(".gitignore", "*.ignored\n")
    made.git("init", "--quiet", "--initial-branch=main")
    yield made
    made.stop()


def commit(project: Project, **more: str) -> None:
    """Commit all, and start the kernel, which trusts it."""
    project.commit()
    assert project.awk("start", "--trust", env={**TRUST, **more}).code == 0


def workflow(project: Project, *steps: str, more: str = "", workspace: str = "git: worktree") -> None:
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
    where = project.git("show", "awk/w/r1/alice:where").splitlines()
    clone = Path(where[0])
    assert where[-1] == str(clone)
    assert (clone.parts[-4:], clone.is_relative_to(far / "state/nodes")) == (("trees", "r1", "alice", "tree"), True)
    assert {f"HOME={far}", "NAMED=for alice"} <= set(where)
    assert not [line for line in where if "kernel's own" in line or str(project.home) in line]
    assert "new.txt" in project.awk("diff", "@w", "--stat").out
    merged = project.awk("merge", "r1", env=TRUST)
    assert merged.code == 0, merged.err
    assert (project.root / "a.txt").read_text() == "two\n"
    assert not project.git("status", "--porcelain")
    wait_until(lambda: not clone.exists(), 60.0)


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
    assert project.git("show", "awk/w/r1/alice:ok.txt") == "ok"
    assert project.git("show", "awk/w/r1/alice:stolen") == ""
    assert not proof.exists()


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
