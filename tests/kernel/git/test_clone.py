"""The branch of a confined agent: what it may bring back, judged by git's own verification, in a real sandbox."""

import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import trio

from kernel.git import repository as repository_module
from kernel.git import runner
from kernel.git.branches import Branches
from kernel.git.clone import clone_of, has_clone, link_of, shared_objects
from kernel.git.directory import GitDirectory
from kernel.git.repository import Repository, unlock
from kernel.git.runner import GitCommand, ProjectGit
from kernel.procs.launcher import Launcher
from kernel.store.transitions.worktrees import Worktree
from protocol.errors import Refused
from protocol.ipc import Sandbox
from tests.kernel.git.git_project import GitProject, at, ground_in, launched, planned, repository

BWRAP = os.environ.get("AGENT_WORKER_TEST_BWRAP") or shutil.which("bwrap")
pytestmark = [
    pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)"),
    pytest.mark.promise("P29"),
]


@dataclass
class Confined:
    """A tree with a clone, and its agent."""

    git_project: GitProject
    git: Repository
    tree: Worktree

    @property
    def box(self) -> Sandbox:
        return Sandbox(
            private_bytes=1 << 20,
            program=BWRAP or "",
            writable=(self.tree.path, clone_of(self.tree)),
            readable=(str(self.git_project.root), *shared_objects(self.tree)),
            hidden=(str(self.git_project.folder / "trees"),),
            instead={f"{self.tree.path}/.git": link_of(self.tree)},
        )

    def do(self, script: str) -> str:
        """What the agent does: as in its sandbox, with its git directory; this is not about what it sees."""
        env = {"GIT_DIR": clone_of(self.tree), "GIT_WORK_TREE": self.tree.path}
        who = {f"GIT_{one}_{what}": "a@b" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ("/bin/sh", "-ec", script),
            cwd=self.tree.path,
            env={**self.git_project.environ, **env, **who, "BRANCH": f"refs/heads/{self.tree.branch}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def branch(self) -> str:
        return self.git_project.git("rev-parse", self.tree.branch)


@asynccontextmanager
async def confined(folder: Path) -> AsyncGenerator[Confined]:
    async with launched(folder) as launcher:
        yield await confined_in(folder, launcher)


async def confined_in(folder: Path, launcher: Launcher) -> Confined:
    git_project = ground_in(folder)
    git = git_project.repository(launcher)
    tree = planned(await git.base(), git)
    return Confined(
        git_project, git, msgspec.structs.replace(tree, state="made", git_dir=await git.add(tree, confined=True))
    )


@pytest.mark.long("tests/e2e/test_confined_trees.py")
async def test_commits_come_back_as_often_as_they_are_looked_for(tmp_path: Path) -> None:
    async with confined(tmp_path) as one:
        assert await one.git.losses(one.tree, box=one.box) is None
        for script in (
            "echo 1 > n; git add n; git commit -qm one",
            "for i in $(seq 12); do echo $i > f$i; git add f$i; git commit -qm $i; done",
            "git reset -q --hard HEAD~5; git commit -q --amend -m other",
            "git reset -q --hard HEAD~8",
        ):
            one.do(script)
            await one.git.changes(one.tree, box=one.box)
            assert one.branch() == one.do("git rev-parse HEAD")
            assert one.git_project.git("status", "--porcelain", cwd=at(one.tree)) == ""
        assert one.branch() == one.tree.base
        assert one.git_project.git("fsck", "--strict", "--no-dangling") == ""
        assert await one.git.losses(one.tree, box=one.box) is None
        await one.git.remove(one.tree, box=one.box)
        assert not has_clone(one.tree)
        assert list(one.git.place.iterdir()) == []
        assert one.git_project.git("branch", "--list", "awk/*") == ""


async def test_work_that_does_not_come_back_keeps_the_tree(tmp_path: Path) -> None:
    async with confined(tmp_path) as one:
        one.do("git checkout -q -b other; git commit -q --allow-empty -m side; git checkout -q -")
        assert await one.git.losses(one.tree, box=one.box) == "commits that are on no other branch: 1"
        one.do("git branch -D other; echo 2 >> a.txt; git stash -q")
        assert "commits that are on no other branch" in (await one.git.losses(one.tree, box=one.box) or "")
        one.do("git stash drop; git checkout -q --detach; git commit -q --allow-empty -m lost")
        assert await one.git.losses(one.tree, box=one.box) == "commits that are on no other branch: 1"


EVIL = {
    "a folder .git": 'b=$(echo x | git hash-object -w --stdin); t=$(printf "100644 blob $b\\tconfig\\n" | git mktree);'
    ' t=$(printf "040000 tree $t\\t.git\\n" | git mktree);'
    " git update-ref $BRANCH $(git commit-tree $t -p HEAD -m evil)",
    "a missing blob": "echo x > n; git add n; git commit -qm n; o=$(git rev-parse HEAD:n);"
    " rm -f $GIT_DIR/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-)",
    "a submodule that is an option": "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = --upload-pack=x\\n'"
    " > .gitmodules; git add .gitmodules; git commit -qm sub",
    "a blob": "b=$(git rev-parse HEAD:a.txt); echo $b > $GIT_DIR/$BRANCH",
    "words": "echo '--all' > $GIT_DIR/$BRANCH",
    "nothing": "rm $GIT_DIR/$BRANCH",
    "no repository": "rm $GIT_DIR/HEAD",
    "a pipe": "rm $GIT_DIR/config; mkfifo $GIT_DIR/config",
}


@pytest.mark.parametrize("loose", [0, 100])  # as if every pack had 100 objects, and as it is
async def test_a_pack_is_verified_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loose: int) -> None:
    monkeypatch.setattr("kernel.git.clone._LOOSE", loose)
    async with launched(tmp_path) as launcher:
        one = await confined_in(tmp_path / "one", launcher)
        one.do(EVIL["a folder .git"])
        with pytest.raises(Refused, match="git index-pack failed"):
            await one.git.losses(one.tree, box=one.box)


@pytest.mark.long("tests/e2e/test_confined_trees.py")
async def test_what_is_no_sound_branch_is_not_taken(
    tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with launched(tmp_path) as launcher:
        for name, script in EVIL.items():
            with subtests.test(name), monkeypatch.context() as patched:
                if name == "a pipe":
                    patched.setattr(runner, "CONFINED_SECONDS", 2.0)
                one = await confined_in(tmp_path / name.replace(" ", "-"), launcher)
                one.do(script)
                with pytest.raises(Refused) as caught:
                    await one.git.losses(one.tree, box=one.box)
                assert caught.value.code == "setup_failed"
                assert one.branch() == one.tree.base
                assert one.git_project.git("fsck", "--strict", "--no-dangling") == ""


async def test_an_agent_that_is_confined_later_goes_on_in_a_clone(tmp_path: Path) -> None:
    git_project = ground_in(tmp_path)
    async with repository(git_project) as git:
        tree = planned(await git.base(), git)
        tree = msgspec.structs.replace(tree, state="made", git_dir=await git.add(tree))
        git_project.write("n.txt", "1\n", tree)
        git_project.commit(tree)
        await git.confine(tree)
        one = Confined(git_project, git, tree)
        assert one.do("git log -1 --format=%s; git status --porcelain") == "work"
        one.do("echo 2 > n.txt; git commit -qam more")
        assert len((await git.changes(tree, box=one.box)).commits) == 2


@pytest.mark.long("tests/kernel/git/test_repository.py")
async def test_a_git_that_is_killed_leaves_no_lock_in_the_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with confined(tmp_path) as one:
        branches = Branches(one.git)
        one.do("git config filter.slow.clean 'sleep 1000'; echo '*.slow filter=slow' > .gitattributes; echo 1 > a.slow")
        monkeypatch.setattr(runner, "CONFINED_SECONDS", 1.0)
        with pytest.raises(Refused, match="timed out after"):
            await branches.commit(one.tree, one.box, "work", "alice")
        monkeypatch.undo()
        one.do("git config filter.slow.clean cat")
        tip = await branches.commit(one.tree, one.box, "work", "alice")
        assert (tip.made, one.branch()) == (True, tip.commit)
        one.do("touch $GIT_DIR/index.lock; echo 2 > a.slow")
        with pytest.raises(Refused, match=r"index\.lock"):
            await branches.commit(one.tree, one.box, "more", "alice")
        one.do("rm $GIT_DIR/index.lock")


async def test_locks_in_a_clone_go_with_the_kernel_and_nothing_goes_by_way_of_its_links(tmp_path: Path) -> None:
    async with confined(tmp_path) as one:
        clone = Path(clone_of(one.tree))
        ref = clone / "refs/heads" / f"{one.tree.branch}.lock"
        locks = (clone / "index.lock", clone / "HEAD.lock", ref)
        for lock in locks:
            lock.touch()
        unlock(one.tree)
        assert not any(lock.exists() for lock in locks)
        outside = tmp_path / "outside"
        ref.parent.rename(outside)
        ref.parent.symlink_to(outside)
        ref.touch()
        unlock(one.tree)
        assert (outside / ref.name).exists()


@pytest.mark.parametrize("ours", [True, False])
async def test_a_git_that_is_cancelled_leaves_no_lock_on_a_branch_and_takes_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    git_project = ground_in(tmp_path)
    lock, tip = git_project.root / ".git/refs/heads/main.lock", git_project.git("rev-parse", "main")
    begun = trio.Event()

    async def hangs(*_: object, **__: object) -> None:
        lock.write_text(f"{tip if ours else 40 * '1'}\n")
        begun.set()
        await trio.sleep_forever()

    async with launched(tmp_path) as launcher:
        git = ProjectGit(tmp_path / "views", launcher=launcher, environ=git_project.environ, own_bin=frozenset())
        async with git.view(GitDirectory(str(git_project.root / ".git"), str(git_project.root / ".git"), "")) as view:
            monkeypatch.setattr(GitCommand, "run", hangs)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(git.run, view, "update-ref", "refs/heads/main", tip, "")
                await begun.wait()
                nursery.cancel_scope.cancel()
            assert lock.exists() != ours


async def test_a_tree_that_is_removed_while_its_branch_is_read_is_read_where_it_came_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with confined(tmp_path) as one:
        one.do("echo 1 > n; git add n; git commit -qm one")
        tip = await one.git.tip(one.tree, box=one.box)

        async def goes(*_: object) -> str:
            shutil.rmtree(one.tree.path)
            raise Refused("setup_failed", "Unable to read current working directory")

        monkeypatch.setattr(repository_module, "bring_back", goes)
        assert (await one.git.tip(one.tree, box=one.box), one.branch()) == (tip, tip)
