"""Working trees of a real git repository: made, measured, kept and removed; interrupted anywhere, and never forced."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernel.git.repository import INCLUDE, ChangedFile, Repository
from kernel.git.runner import ProjectGit, uncommitted
from kernel.git.view import GitView
from kernel.store.transitions.worktrees import Worktree
from kernel.workflows.setup import copy_included
from protocol.errors import Refused
from tests.kernel.git.git_project import GitProject, at, ground_in, launched, made, planned, repository


@pytest.fixture
def git_project(tmp_path: Path) -> GitProject:
    return ground_in(tmp_path)


async def test_a_tree_is_measured_with_what_is_new_and_changes_nothing_for_its_agent(git_project: GitProject) -> None:
    async with repository(git_project) as git:
        git_project.write("a.txt", "dirty\n")
        base = await git.base()
        assert (base.commit, base.folder, base.changed) == (git_project.git("rev-parse", "HEAD"), "", 1)
        tree = await made(git, planned(base, git))
        assert at(tree, "a.txt").read_text() == "one\n"
        git_project.write("b.txt", "1\n2\n", tree)
        git_project.commit(tree)
        git_project.write("a.txt", "two\n", tree)
        git_project.write("näw file", "3\n", tree)
        before = git_project.git("status", "--porcelain", "-z", cwd=at(tree))
        changes = await git.changes(tree, patch=True)
        assert changes.files == (ChangedFile("a.txt", 1, 1), ChangedFile("b.txt", 2, 0), ChangedFile("näw file", 1, 0))
        assert [subject for _, subject in changes.commits] == ["work"]
        assert "+two\n" in changes.patch
        assert "+3\n" in changes.patch
        assert git_project.git("status", "--porcelain", "-z", cwd=at(tree)) == before
        assert await git.losses(tree) == "uncommitted files: 2"
        assert list(git.place.glob(".index*")) == []


async def test_what_is_not_committed_is_counted_and_what_git_ignores_is_not(git_project: GitProject) -> None:
    async with repository(git_project) as git:
        assert await uncommitted(git.git, git_project.root) == 0
        git_project.write(".gitignore", "ignored/\n")
        git_project.write("a.txt", "two\n")
        git_project.write("new/b.txt", "new\n")
        git_project.write("ignored/c.txt", "no\n")
        assert await uncommitted(git.git, git_project.root) == 3
        assert await uncommitted(git.git, git_project.folder) == 0


async def test_settings_are_read_once_for_all_trees_and_anew_when_they_change(
    git_project: GitProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    said = ProjectGit.said

    async def counted(self: ProjectGit, view: GitView, *words: str, **more: Any) -> bytes:
        asked.append(words[0])
        return await said(self, view, *words, **more)

    monkeypatch.setattr(ProjectGit, "said", counted)
    async with repository(git_project) as git:
        tree = await made(git, planned(await git.base(), git))
        assert await git.losses(tree) is None
        await git.remove(tree)
        assert asked.count("config") == 1
        git_project.git("config", "core.worktree", str(git_project.folder))
        with pytest.raises(Refused, match=r"core\.worktree"):
            await git.base()
    assert asked.count("config") == 2


async def test_what_would_be_lost_keeps_a_tree_and_what_would_not_goes_with_its_branch(git_project: GitProject) -> None:
    async with repository(git_project) as git:
        git_project.write(".gitignore", "*.log\n")
        git_project.commit()
        tree = await made(git, planned(await git.base(), git))
        git_project.write("b.txt", "1\n", tree)
        git_project.write("x.log", "noise\n", tree)
        git_project.commit(tree)
        assert await git.losses(tree) == "commits that are on no other branch: 1"
        git_project.git("merge", "--quiet", tree.branch)
        assert await git.losses(tree) is None
        await git.remove(tree)
        assert not git.place.joinpath("review").exists()
        assert git_project.git("branch", "--list", "awk/*") == ""
        assert "worktrees" not in git_project.git("worktree", "list")
        other = await made(git, planned(await git.base(), git, "bob"))
        git_project.write("c.txt", "1\n", other)
        git_project.commit(other)
        await git.remove(other)
        assert git_project.git("branch", "--list", "awk/*", "--format=%(refname:short)") == other.branch


async def test_a_changed_tree_is_not_removed_whoever_asks(git_project: GitProject) -> None:
    """claude-code 70456 and kin: git itself has the last word, and it is never overruled."""
    async with repository(git_project) as git:
        tree = await made(git, planned(await git.base(), git))
        git_project.write("new.txt", "1\n", tree)
        with pytest.raises(Refused, match="contains modified or untracked files"):
            await git.remove(tree)
        assert at(tree, "new.txt").exists()


@pytest.mark.promise("P1")
async def test_what_an_interrupted_try_left_is_made_anew(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with launched(tmp_path) as launcher:
        for left in ("lock", "branch", "half", "locked", "folder", "whole"):
            with subtests.test(left):
                git_project = ground_in(tmp_path / left)
                git = git_project.repository(launcher)
                tree = planned(await git.base(), git)
                await leave(left, git_project, git, tree)
                again = await made(git, tree)
                assert at(tree, "a.txt").read_text() == "one\n"
                assert await git.losses(again) is None
                assert git_project.git("worktree", "list", "--porcelain").count("worktree ") == 2


async def leave(left: str, git_project: GitProject, git: Repository, tree: Worktree) -> None:
    """Do what a try does that is killed."""
    if left == "lock":
        lock = git_project.root / ".git/refs/heads" / f"{tree.branch}.lock"
        lock.parent.mkdir(parents=True)
        lock.touch()
    elif left == "branch":
        git_project.git("branch", tree.branch)
    elif left == "folder":
        at(tree).mkdir(parents=True)
        at(tree, "half").write_text("x")
    else:
        git_dir = Path(await git.add(tree))
        if left == "half":
            at(tree, "a.txt").unlink()
            at(tree, ".git").unlink()
        if left == "locked":
            (git_dir / "locked").write_text("initializing")
            at(tree, "a.txt").unlink()


@pytest.mark.promise("P1")
async def test_a_removal_that_was_interrupted_goes_on(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with launched(tmp_path) as launcher:
        for gone in (("a.txt",), ("a.txt", ".git"), (".git",)):
            with subtests.test(str(gone)):
                git_project = ground_in(tmp_path / "-".join(gone))
                git = git_project.repository(launcher)
                tree = msgspec.structs.replace(await made(git, planned(await git.base(), git)), state="removing")
                for name in gone:
                    at(tree, name).unlink()
                git_project.write("mine.txt", "1\n", tree)
                assert await git.losses(tree) == "uncommitted files: 1"
                at(tree, "mine.txt").unlink()
                assert await git.losses(tree) is None
                await git.remove(tree)
                assert git_project.git("worktree", "list", "--porcelain").count("worktree ") == 1
                assert not at(tree).exists()


async def test_a_tree_that_somebody_deleted_comes_back_with_its_commits(git_project: GitProject) -> None:
    """vibe-kanban 1571: a vanished tree is no running one."""
    async with repository(git_project) as git:
        tree = await made(git, planned(await git.base(), git))
        git_project.write("b.txt", "1\n", tree)
        git_project.commit(tree)
        shutil.rmtree(at(tree))
        await git.add(tree)
        assert at(tree, "b.txt").exists()


async def test_a_branch_of_somebody_else_is_not_taken(git_project: GitProject) -> None:
    async with repository(git_project) as git:
        base = await git.base()
        tree = planned(base, git)
        git_project.git("checkout", "--quiet", "-b", tree.branch)
        with pytest.raises(Refused, match=f"{tree.branch} is checked out in {git_project.root}"):
            await git.add(tree)
        git_project.write("b.txt", "1\n")
        git_project.commit()
        git_project.git("checkout", "--quiet", "main")
        with pytest.raises(Refused, match=f"branch {tree.branch} already"):
            await git.add(tree)


@pytest.mark.promise("P28")
async def test_a_tree_that_points_to_another_git_directory_is_read_in_its_own(git_project: GitProject) -> None:
    async with repository(git_project) as git:
        tree = await made(git, planned(await git.base(), git))
        git_project.write("a.txt", "two\n", tree)
        git_project.write("n.txt", "three\n", tree)
        at(tree, ".git").write_text(f"gitdir: {git_project.folder}/elsewhere\n")
        assert len((await git.changes(tree, patch=True)).files) == 2
        assert await git.losses(tree) == "uncommitted files: 2"


async def test_files_that_are_named_and_ignored_come_along_and_through_no_link(
    git_project: GitProject, tmp_path: Path
) -> None:
    """.worktreeinclude: what git does not carry; agent-deck and claude-squad PR 270."""
    git_project.write(".gitignore", ".env\nconf/\nbuild/\n")
    git_project.write(INCLUDE, ".env\nconf/*.json\nuntracked.txt\n")
    git_project.commit()
    for path in (".env", "conf/a.json", "conf/b.txt", "build/out", "untracked.txt"):
        git_project.write(path, "secret\n")
    (git_project.root / ".env").chmod(0o600)
    async with repository(git_project) as git:
        names = await git.included()
        assert names == (".env", "conf/a.json")
        tree = await made(git, planned(await git.base(), git))
        copy_included(names, git_project.root, tree)
        assert at(tree, "conf/a.json").read_text() == "secret\n"
        assert at(tree, ".env").stat().st_mode & 0o777 == 0o600
        assert await git.losses(tree) is None
        other = await made(git, planned(await git.base(), git, "bob"))
        at(other, "conf").symlink_to(tmp_path)
        with pytest.raises(Refused, match="cannot be copied"):
            copy_included(names, git_project.root, other)
        assert not (tmp_path / "a.json").exists()


async def test_a_project_within_a_repository_keeps_its_place(git_project: GitProject) -> None:
    """claude-squad 141: agents work in the same folder of their tree."""
    git_project.write("packages/app/x", "1\n")
    git_project.commit()
    async with launched(git_project.folder) as launcher:
        git = git_project.repository(launcher, git_project.root / "packages/app")
        base = await git.base()
        assert base.folder == "packages/app"
        assert (await made(git, planned(base, git))).cwd.endswith("/alice/packages/app")
        (git_project.root / "loose").mkdir()
        with pytest.raises(Refused, match="loose is not part of the repository"):
            await git_project.repository(launcher, git_project.root / "loose").base()


async def test_where_there_can_be_no_tree_that_is_said(tmp_path: Path, subtests: pytest.Subtests) -> None:
    reasons = {"none": "not a git repository", "empty": "has no commit yet", "bare": "bare repository"}
    async with launched(tmp_path) as launcher:
        for what, why in reasons.items():
            with subtests.test(what):
                git_project = GitProject(tmp_path / what)
                git_project.root.mkdir(parents=True)
                if what != "none":
                    git_project.git("init", "--quiet", *(["--bare"] if what == "bare" else []))
                with pytest.raises(Refused, match=why) as caught:
                    await git_project.repository(launcher).base()
                assert caught.value.code == "bad_definition"
