"""A project in a real git repository, and a place for working trees."""

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from kernel.git.repository import Repository, TreeBase
from kernel.procs.fork import ForkLauncher
from kernel.procs.launcher import Launcher
from kernel.store.transitions.worktrees import Worktree


@dataclass
class GitProject:
    """A project in a repository, and a place for trees."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "project"

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder)}

    def git(self, *words: str, cwd: Path | None = None) -> str:
        names = {f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ("git", *words),
            cwd=cwd or self.root,
            env={**self.environ, **names},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def give(self, data: bytes, *words: str) -> None:
        """Run git as the user does, with ``data`` to read."""
        subprocess.run(("git", *words), cwd=self.root, env=self.environ, input=data, capture_output=True, check=True)

    def repository(self, launcher: Launcher, root: Path | None = None) -> Repository:
        """The kernel's way to the repository, from ``root`` in it."""
        place = self.folder / "trees"
        return Repository(root or self.root, place, launcher=launcher, environ=self.environ, own_bin=frozenset())

    def try_git(self, *words: str) -> None:
        subprocess.run(("git", *words), cwd=self.root, env=self.environ, capture_output=True, check=False, timeout=60)

    def write(self, path: str, text: str, tree: Worktree | None = None) -> None:
        file = (self.root if tree is None else Path(tree.path)) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, tree: Worktree | None = None) -> None:
        cwd = self.root if tree is None else at(tree)
        self.git("add", "--all", cwd=cwd)
        self.git("commit", "--quiet", "-m", "work", cwd=cwd)


def ground_in(folder: Path) -> GitProject:
    made = GitProject(folder)
    made.root.mkdir(parents=True)
    made.git("init", "--quiet", "--initial-branch=main", "--template=")
    made.write("a.txt", "one\n")
    made.commit()
    return made


@asynccontextmanager
async def launched(folder: Path) -> AsyncGenerator[Launcher]:
    """A launcher: one serves many grounds, for it takes ten times as long to come as a run of git does."""
    run_dir = folder / "run"
    run_dir.mkdir()
    async with trio.open_nursery() as nursery:
        launcher = ForkLauncher(run_dir=run_dir, environ={"PATH": os.environ["PATH"]})
        await nursery.start(launcher.run)
        yield launcher
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def repository(git_project: GitProject) -> AsyncGenerator[Repository]:
    """The kernel's way to the repository, with a launcher of its own."""
    async with launched(git_project.folder) as launcher:
        yield git_project.repository(launcher)


def at(tree: Worktree, name: str = ".") -> Path:
    return Path(tree.path, name)


def planned(base: TreeBase, repository: Repository, name: str = "alice") -> Worktree:
    path = str(repository.place / "review/main" / name)
    branch = f"awk/review/main/{name}"
    return Worktree(name, base.repository, base.commit, branch, path, base.folder, 1, name, "review:main", "planned")


async def made(repository: Repository, tree: Worktree) -> Worktree:
    return msgspec.structs.replace(tree, state="made", git_dir=await repository.add(tree))
