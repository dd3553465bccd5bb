"""Branches of colleagues: committed, followed, merged and reset, with nothing lost on the way."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kernel.git import tree_commits
from kernel.git.branches import Branches, Tip
from kernel.git.repository import Repository, unlock
from kernel.store.transitions.worktrees import Worktree
from protocol.errors import Refused
from tests.kernel.git.git_project import GitProject, at, ground_in, made, planned, repository

pytestmark = pytest.mark.promise("P32")


class Team:
    def __init__(self, git_project: GitProject, git: Repository, coder: Worktree, tester: Worktree) -> None:
        self.git_project = git_project
        self.git = git
        self.branches = Branches(git)
        self.coder = coder
        self.tester = tester

    async def commits(self, tree: Worktree, **files: str) -> Tip:
        """``tree``'s agent writes files, which are committed."""
        for name, text in files.items():
            self.git_project.write(f"{name}.txt", text, tree)
        return await self.branches.commit(tree, None, f"work of {tree.name}", tree.name)

    def tip(self, tree: Worktree) -> str:
        return self.git_project.git("rev-parse", tree.branch)

    def status(self, tree: Worktree) -> str:
        return self.git_project.git("status", "--porcelain", cwd=at(tree))


@asynccontextmanager
async def team(folder: Path) -> AsyncGenerator[Team]:
    git_project = ground_in(folder)
    async with repository(git_project) as git:
        base = await git.base()
        coder = await made(git, planned(base, git, "coder"))
        tester = await made(git, planned(base, git, "tester"))
        yield Team(git_project, git, coder, tester)


async def test_what_is_not_committed_is_committed_once_and_ignored_files_are_not(tmp_path: Path) -> None:
    async with team(tmp_path) as us:
        us.git_project.write(".gitignore", "build/\n", us.coder)
        us.git_project.write("build/leftover", "x", us.coder)
        us.git_project.write("strange \n name.txt", "x", us.coder)
        us.git_project.git("init", "--quiet", "inner", cwd=at(us.coder))
        at(us.coder, "a.txt").unlink()
        tip = await us.commits(us.coder, new="1\n")
        assert (tip.made, tip.ahead, tip.commit) == (True, 1, us.tip(us.coder))
        files = us.git_project.git("ls-tree", "-rz", "--name-only", tip.commit).split("\0")
        assert files == [".gitignore", "new.txt", "strange \n name.txt", ""]
        again = await us.branches.commit(us.coder, None, "again", "coder")
        assert (again.made, again.commit) == (False, tip.commit)
        assert us.status(us.coder) == "?? inner/"


async def test_a_commit_that_is_interrupted_anywhere_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with team(tmp_path) as us:
        take_over = tree_commits.take_over

        def dies(writable: tree_commits.WritableTree) -> None:
            take_over(writable)
            raise InterruptedError

        monkeypatch.setattr(tree_commits, "take_over", dies)
        with pytest.raises(InterruptedError):
            await us.commits(us.coder, a="two\n")
        assert us.tip(us.coder) == us.coder.base
        monkeypatch.undo()
        tip = await us.branches.commit(us.coder, None, "work", "coder")
        assert (tip.made, tip.ahead, us.status(us.coder)) == (True, 1, "")


async def test_a_branch_that_others_move_before_ours_does_is_left_where_they_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with team(tmp_path) as us:
        take_over = tree_commits.take_over
        theirs: list[str] = []

        def moves_between(writable: tree_commits.WritableTree) -> None:
            take_over(writable)
            tree = writable.tree
            words = ("commit-tree", "-m", f"moved {tree.name}", "-p", tree.branch, f"{tree.branch}^{{tree}}")
            theirs.append(us.git_project.git(*words))
            us.git_project.git("update-ref", f"refs/heads/{tree.branch}", theirs[-1])

        monkeypatch.setattr(tree_commits, "take_over", moves_between)
        with pytest.raises(Refused, match="git update-ref failed"):
            await us.commits(us.coder, a="two\n")
        assert (us.tip(us.coder), at(us.coder, "a.txt").read_text()) == (theirs[0], "two\n")
        monkeypatch.undo()
        tip = await us.branches.commit(us.coder, None, "work", "coder")
        assert (us.git_project.git("rev-parse", f"{tip.commit}^"), us.status(us.coder)) == (theirs[0], "")
        monkeypatch.setattr(tree_commits, "take_over", moves_between)
        with pytest.raises(Refused, match="git update-ref failed"):
            await us.branches.follow(us.tester, None, us.coder)
        assert us.tip(us.tester) == theirs[1]
        monkeypatch.undo()
        with pytest.raises(Refused, match="its own commits: 1"):
            await us.branches.follow(us.tester, None, us.coder)
        assert us.tip(us.tester) == theirs[1]


async def test_a_tree_follows_a_colleague_unless_it_has_work_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with team(tmp_path) as us:
        coder = await us.commits(us.coder, a="two\n", b="new\n")
        us.git_project.write("b.txt", "new\n", us.tester)
        followed = await us.branches.follow(us.tester, None, us.coder)
        assert (followed.commit, us.status(us.tester)) == (coder.commit, "")
        for tree in (us.coder, us.tester):  # neither goes because the other has the same
            assert await us.git.losses(tree) == "commits that are on no other branch: 1"
        us.git_project.write("b.txt", "mine\n", us.tester)
        third = await us.commits(us.coder, b="newer\n")
        with pytest.raises(Refused, match=r"uncommitted changes would be lost: 'b\.txt'"):
            await us.branches.follow(us.tester, None, us.coder)
        assert at(us.tester, "b.txt").read_text() == "mine\n"
        await us.branches.commit(us.tester, None, "mine", "tester")
        with pytest.raises(Refused, match="its own commits: 1"):
            await us.branches.follow(us.tester, None, us.coder)
        assert us.tip(us.tester) != third.commit


async def test_what_git_ignores_in_a_tree_is_not_written_over_by_a_colleague(tmp_path: Path) -> None:
    async with team(tmp_path) as us:
        us.git_project.write(".gitignore", "own.txt\n", us.tester)
        await us.branches.commit(us.tester, None, "ignore", "tester")
        await us.branches.follow(us.coder, None, us.tester)
        us.git_project.write("own.txt", "the coder's\n", us.coder)
        us.git_project.git("add", "--force", "own.txt", cwd=at(us.coder))
        coder = await us.commits(us.coder)
        us.git_project.write("own.txt", "SECRET\n", us.tester)
        head = us.tip(us.tester)
        with pytest.raises(Refused, match=r"ignored files would be replaced.*'own\.txt'"):
            await us.branches.follow(us.tester, None, us.coder)
        assert (at(us.tester, "own.txt").read_text(), us.tip(us.tester)) == ("SECRET\n", head)
        us.git_project.write("own.txt", "the coder's\n", us.tester)
        await us.branches.follow(us.tester, None, us.coder)
        assert us.tip(us.tester) == coder.commit


async def test_a_merge_takes_both_sides_or_names_the_files_and_changes_nothing(tmp_path: Path) -> None:
    async with team(tmp_path) as us:
        coder = await us.commits(us.coder, b="theirs\n")
        ahead = await us.branches.take(us.tester, None, us.coder, "merge", "take", "tester")
        assert (ahead.commit, ahead.made) == (coder.commit, False)
        await us.commits(us.coder, b="theirs again\n")
        await us.commits(us.tester, c="mine\n")
        both = await us.branches.take(us.tester, None, us.coder, "merge", "take", "tester")
        assert us.git_project.git("rev-list", "--count", "--merges", both.commit) == "1"
        assert at(us.tester, "b.txt").read_text() + at(us.tester, "c.txt").read_text() == "theirs again\nmine\n"
        assert us.status(us.tester) == ""
        assert (await us.branches.take(us.tester, None, us.coder, "merge", "take", "tester")).commit == both.commit
        await us.commits(us.coder, b="one way\n")
        mine = await us.commits(us.tester, b="the other\n")
        with pytest.raises(Refused, match=r"the same lines of 'b\.txt'; nothing was changed") as caught:
            await us.branches.take(us.tester, None, us.coder, "merge", "take", "tester")
        assert caught.value.code == "conflict"
        assert (us.tip(us.tester), us.status(us.tester)) == (mine.commit, "")


async def test_a_reset_keeps_what_it_leaves_and_the_tree_stays_for_it(tmp_path: Path) -> None:
    async with team(tmp_path) as us:
        coder = await us.commits(us.coder, a="theirs\n")
        await us.commits(us.tester, a="mine\n")
        us.git_project.write("d.txt", "not committed\n", us.tester)
        tip = await us.branches.take(us.tester, None, us.coder, "reset", "left", "tester")
        assert (tip.commit, at(us.tester, "a.txt").read_text()) == (coder.commit, "theirs\n")
        assert not at(us.tester, "d.txt").exists()
        assert us.git_project.git("show", f"{tip.left}:d.txt") == "not committed"
        assert us.git_project.git("show", f"{tip.left}~1:a.txt") == "mine"
        assert await us.git.losses(us.tester) == "commits that are on no other branch: 3"
        await us.git.remove(us.tester, force=True)
        assert us.git_project.git("for-each-ref", "refs/awk") == ""
        assert us.tip(us.coder) == coder.commit


@pytest.mark.parametrize("script", ["git checkout --quiet -b other", "git merge --quiet theirs"])
@pytest.mark.long("tests/kernel/services/test_tree_work.py")
async def test_nothing_is_committed_over_what_is_half_done(tmp_path: Path, script: str) -> None:
    async with team(tmp_path) as us:
        await us.commits(us.coder, a="theirs\n")
        us.git_project.git("branch", "theirs", us.coder.branch)
        mine = await us.commits(us.tester, a="mine\n")
        us.git_project.try_git("-C", us.tester.path, "-c", "user.name=a", "-c", "user.email=a@b", *script.split()[1:])
        us.git_project.write("e.txt", "x", us.tester)
        with pytest.raises(Refused, match=r"as checked out in|is under way in"):
            await us.branches.commit(us.tester, None, "work", "tester")
        assert us.tip(us.tester) == mine.commit


async def test_locks_of_a_kernel_that_was_killed_are_removed_before_the_next_one_works_there(tmp_path: Path) -> None:
    async with team(tmp_path) as us:
        ref = Path(us.coder.repository, "refs/heads", f"{us.coder.branch}.lock")
        for lock in (ref, Path(us.coder.git_dir, "index.lock")):
            lock.touch()
        with pytest.raises(Refused, match=r"update-ref failed"):
            await us.commits(us.coder, a="two\n")
        unlock(us.coder)
        tip = await us.commits(us.coder, a="two\n")
        assert (tip.commit, us.status(us.coder)) == (us.tip(us.coder), "")
