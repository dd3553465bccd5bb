"""Commits go to a clone on a node, and what is done there comes back as commits, and as nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kernel.store.worktrees import Worktree
from kernel.workflows.node_sync import NodeSync
from kernel.workflows.repository import Repository
from tests.kernel.workflows.git_project import GitProject, at, ground_in, repository
from tests.kernel.workflows.node_ground import FarMachine, commit_far, far_machine, home_of, tree_at_home


class Ground:
    """A project, alice's tree in it, a node, and the two brought together."""

    def __init__(self, project: GitProject, there: FarMachine, repo: Repository, tree: Worktree) -> None:
        self.project = project
        self.far = there
        self.repository = repo
        self.tree = tree

    @property
    def sync(self) -> NodeSync:
        return self.far.sync(home_of(self.repository, self.tree))

    def tip(self) -> str:
        return self.project.git("rev-parse", self.tree.branch)

    def refs(self) -> str:
        return self.project.git("for-each-ref", "--format=%(refname)")


@asynccontextmanager
async def ground(folder: Path) -> AsyncGenerator[Ground]:
    project = ground_in(folder / "here")
    async with repository(project) as repo, far_machine(folder / "far") as there:
        yield Ground(project, there, repo, await tree_at_home(repo))


@pytest.mark.promise("P89")
async def test_a_commit_goes_to_the_node_and_what_is_done_there_comes_back(tmp_path: Path) -> None:
    """Committed or not: the branch and the files here follow, and an ignored file stays where it is."""
    async with ground(tmp_path) as g:
        g.project.write(".gitignore", "cache/\n", g.tree)
        g.project.write("b.txt", "here\n", g.tree)
        g.project.commit(g.tree)
        await g.sync.bring()
        assert (g.far.tree / "b.txt").read_text() == "here\n"
        (g.far.tree / "a.txt").write_text("two\n")
        commit_far(g.project, g.far)
        (g.far.tree / "new.txt").write_text("not committed\n")
        (g.far.tree / "cache").mkdir()
        (g.far.tree / "cache/kept").write_text("ignored\n")
        before = g.tip()
        done = await g.sync.collect()
        assert g.tip() == done.tip != before
        assert at(g.tree, "a.txt").read_text() == "two\n"
        assert at(g.tree, "new.txt").read_text() == "not committed\n"
        assert not at(g.tree, "cache").exists()
        log = g.project.git("log", "--format=%an|%s", f"{before}..{g.tree.branch}").splitlines()
        assert [line.split("|")[1] for line in log] == ["alice: work of i1 (r1)", "far work"]
        assert not g.project.git("status", "--porcelain", cwd=at(g.tree))
        await g.sync.bring()
        assert (g.far.tree / "cache/kept").read_text() == "ignored\n"
