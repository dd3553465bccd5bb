"""The git repository that a project is in: what its working trees begin with, are made of, and would lose.

The user's own configuration counts, for it is theirs; nothing that the repository brings along is run: no hook, filter,
monitor, diff or credential program that its own configuration names (T50). Nothing here is ever forced but what was
half made by us and never handed out.
"""

import itertools
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import trio

from kernel.agents.environment import worker_environment
from kernel.procs.command import CommandResult
from kernel.procs.launcher import Launcher
from kernel.store.worktrees import Worktree
from kernel.workflows.git_command import GitCommand, GitMissing
from protocol.errors import Refused

SECONDS: Final = 600.0
"""For one run of git: a checkout of a large repository takes minutes."""
LIMIT_BYTES: Final = 64 * 1024 * 1024
PATCH_BYTES: Final = 2 * 1024 * 1024
"""Of a diff; what is longer is cut, and said to be."""
COMMITS: Final = 100
"""Shown of a branch, the newest ones."""
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=/bin/false",
    "core.quotePath=false",
    "credential.helper=",
    "protocol.allow=never",
    "submodule.recurse=false",
    "diff.ignoreSubmodules=dirty",
    "diff.external=",
    "log.showSignature=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
_PLAIN: Final = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty")
_HINT: Final = "write git: none, or see what git says there"


@dataclass(frozen=True, slots=True)
class Base:
    """What working trees begin with: a commit, the repository, and the project's place in it ("": its top).

    ``changed`` files are not as they are in that commit: what was done to them stays behind.
    """

    commit: str
    repository: str
    folder: str
    changed: int


@dataclass(frozen=True, slots=True)
class Changed:
    """One file that is not as it was; of a binary one lines are not counted."""

    path: str
    added: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Changes:
    """All that was done in a tree since its base, committed or not. ``commits`` are (hash, subject), newest first."""

    files: tuple[Changed, ...]
    commits: tuple[tuple[str, str], ...]
    patch: str = ""
    truncated: bool = False


class Repository:
    """The one at ``root`` or above it. ``place`` is where working trees are made, and ours alone."""

    def __init__(
        self, root: Path, place: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]
    ) -> None:
        self._root = str(root)
        self.place = Path(os.path.realpath(place))
        passed = worker_environment(environ, own_bin=own_bin)
        self._command = GitCommand(
            launcher=launcher,
            path=passed["PATH"],
            settings=_SETTINGS,
            variables={
                **passed,
                "LC_ALL": "C",
                "GIT_OPTIONAL_LOCKS": "0",
                "GIT_TERMINAL_PROMPT": "0",
                "GIT_LITERAL_PATHSPECS": "1",
            },
            seconds=SECONDS,
            limit_bytes=LIMIT_BYTES,
        )
        self._numbers = itertools.count(1)

    async def base(self) -> Base:
        """What trees made now would begin with. Raises Refused (bad_definition) where none can be made."""
        asked = await self._ask(
            "rev-parse", "--path-format=absolute", "--is-inside-work-tree", "--git-common-dir", "--show-prefix"
        )
        answer = _lines(asked)
        if not asked.ok or answer[:1] != ["true"]:
            why = "it is a bare repository" if answer[:1] == ["false"] else self._command.why(asked)
            raise _unusable(f"{self._root} is no working tree of a git repository ({why})", "git init, and commit")
        repository, folder = answer[1], (answer[2:] or [""])[0].rstrip("/")
        head = await self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if not head.ok:
            raise _unusable(f"the repository at {self._root} has no commit yet", "git add, and commit")
        commit = _lines(head)[0]
        if folder and not (await self._ask("cat-file", "-e", f"{commit}:{folder}")).ok:
            raise _unusable(f"{folder} is not in the repository that {self._root} is in", "commit it, or git init here")
        status = await self._git("status", "--porcelain=v1", "-z", "--untracked-files=no", filters=True)
        return Base(commit, repository, folder, status.count(b"\0"))

    async def branches(self) -> frozenset[str]:
        """The full names of all branches that could be in our way."""
        return frozenset((await self._git("for-each-ref", "--format=%(refname)", "refs/heads/awk")).decode().split())

    async def add(self, tree: Worktree) -> str:
        """Make ``tree``, whatever an earlier try left of it. Returns its own directory in the repository.

        Raises Refused (setup_failed). Call it for one tree at a time: git itself does not lock all it should.
        """
        await self._check_free(tree)
        await self._begin_branch(tree)
        await trio.to_thread.run_sync(_make_room, tree)
        # Forced twice: over what an interrupted try noted for this very path, and for no other.
        words = ("worktree", "add", "--quiet", "--force", "--force", "--", tree.path, tree.branch)
        await self._git(*words, filters=True)
        return _lines(await self._ask("rev-parse", "--absolute-git-dir", cwd=tree.path))[0]

    async def included(self) -> tuple[str, ...]:
        """Files of the project that ``.worktreeinclude`` names and git ignores, as seen from the project."""
        if not await trio.Path(self._root, INCLUDE).is_file():
            return ()
        words = ("ls-files", "-z", "--others", "--ignored")
        named = await self._git(*words, f"--exclude-from={INCLUDE}")
        ignored = set((await self._git(*words, "--exclude-standard")).split(b"\0"))
        return tuple(os.fsdecode(path) for path in named.split(b"\0") if path and path in ignored)

    async def changes(self, tree: Worktree, *, patch: bool = False) -> Changes:
        """What was done in ``tree``, new files included. Changes nothing there. Raises Refused (setup_failed)."""
        index = str(self.place / f".index-{next(self._numbers)}")
        try:
            await trio.to_thread.run_sync(_copy, os.path.join(tree.git_dir, "index"), index)
            own = {"GIT_INDEX_FILE": index}
            await self._git("add", "--intent-to-add", "--", ".", tree=tree, filters=True, variables=own)
            numbers = await self._git(
                "diff", "--numstat", "-z", *_PLAIN, tree.base, tree=tree, filters=True, variables=own
            )
            text, truncated = b"", False
            if patch:
                text, truncated = await self._patch(tree, own)
        finally:
            _remove_file(index)
        log = await self._git(
            "log", "-z", "--format=%H%x09%s", f"--max-count={COMMITS}", f"{tree.base}..HEAD", tree=tree
        )
        return Changes(_changed(numbers), _commits(log), text.decode("utf-8", "replace"), truncated)

    async def losses(self, tree: Worktree) -> str | None:
        """What would be lost with ``tree``, in words; None: nothing. Of one half removed, what is left counts."""
        entries = await self._git("status", "--porcelain=v1", "-z", "--untracked-files=normal", tree=tree, filters=True)
        left = [one for one in entries.split(b"\0") if one and (tree.state != "removing" or one[:2] != b" D")]
        if left:
            return f"changed or new files that are not committed: {len(left)}"
        known = ("--not", tree.base, f"--exclude={tree.branch}", "--branches", "--remotes", "--tags")
        branch = (await self._tip(tree)) or "HEAD"
        count = (await self._git("rev-list", "--count", "HEAD", branch, *known, tree=tree)).strip()
        return None if count == b"0" else f"commits that are on no other branch: {count.decode()}"

    async def remove(self, tree: Worktree) -> None:
        """Remove ``tree``, which has nothing to lose, and its branch where that has nothing of its own.

        Raises Refused (setup_failed) where git sees something in it after all.
        """
        if tree.state in ("planned", "removing"):
            await trio.to_thread.run_sync(_discard, tree.path)
        tip = await self._tip(tree)
        known = await self._ask("worktree", "list", "--porcelain", "-z")
        if f"worktree {tree.path}".encode() in known.stdout.split(b"\0"):
            await self._git("worktree", "remove", "--", tree.path, filters=True)
        if tip is not None and await self._is_elsewhere(tree, tip):
            await self._git("update-ref", "-d", f"refs/heads/{tree.branch}", tip)
        for folder in list(Path(tree.path).parents)[:2]:
            with suppress(OSError):
                folder.rmdir()

    async def _is_elsewhere(self, tree: Worktree, tip: str) -> bool:
        """Whether nothing of the branch is only there, and nobody has it checked out."""
        with suppress(Refused):
            await self._check_free(tree)
            own = ("rev-list", "--count", tip, "--not", tree.base, f"--exclude={tree.branch}")
            return (await self._git(*own, "--branches", "--remotes", "--tags")).strip() == b"0"
        return False

    async def _check_free(self, tree: Worktree) -> None:
        entry: str = ""
        for word in (await self._git("worktree", "list", "--porcelain", "-z")).decode("utf-8", "replace").split("\0"):
            entry = word.removeprefix("worktree ") if word.startswith("worktree ") else entry
            if word == f"branch refs/heads/{tree.branch}" and entry != tree.path:
                raise _failed(f"the branch {tree.branch} is checked out in {entry}", "check out another one there")

    async def _begin_branch(self, tree: Worktree) -> None:
        if tree.state == "planned":  # nobody else knows the name yet: who locked it was one of us, and is dead
            await trio.Path(f"{tree.repository}/refs/heads/{tree.branch}.lock").unlink(missing_ok=True)
        tip = await self._tip(tree)
        if tip is None:
            await self._git("update-ref", f"refs/heads/{tree.branch}", tree.base, "")  # only if it is new
        elif tree.state == "planned" and tip != tree.base:
            raise _failed(f"there is a branch {tree.branch} already", "rename it, or give another --tag")

    async def _tip(self, tree: Worktree) -> str | None:
        found = await self._ask("rev-parse", "--verify", "--quiet", f"refs/heads/{tree.branch}^{{commit}}")
        return _lines(found)[0] if found.ok else None

    async def _patch(self, tree: Worktree, own: Mapping[str, str]) -> tuple[bytes, bool]:
        settings = await self._settings(tree)
        command = replace(self._command, settings=settings, limit_bytes=PATCH_BYTES)
        result = await command.run(tree.path, "diff", *_PLAIN, tree.base, variables={**_in(tree), **own})
        if not result.ok and not result.truncated:
            raise _failed(f"git diff failed: {command.why(result)}")
        return result.stdout, result.truncated

    async def _settings(self, tree: Worktree | None) -> tuple[str, ...]:
        """Ours, and for each filter that the repository's own configuration has, that it is none."""
        words = ("config", "--show-scope", "--name-only", "-z", "--get-regexp", r"^filter\.")
        found = (await self._run(self._command, words, None, tree, None)).stdout.decode("utf-8", "replace").split("\0")
        own = {
            name.rpartition(".")[0] for scope, name in zip(found[::2], found[1::2], strict=False) if scope in _THEIRS
        }
        off = (f"{name}.{key}" for name in sorted(own) for key in ("clean=", "smudge=", "process=", "required=false"))
        return (*_SETTINGS, *off)

    async def _git(
        self,
        *words: str,
        tree: Worktree | None = None,
        filters: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        """What git prints. ``filters``: it reads or writes files of a tree. Raises Refused (setup_failed, busy)."""
        command = replace(self._command, settings=await self._settings(tree)) if filters else self._command
        result = await self._run(command, words, None, tree, variables)
        if not result.ok:
            raise _failed(f"git {words[0]} failed: {command.why(result)}")
        return result.stdout

    async def _ask(self, *words: str, cwd: str | None = None) -> CommandResult:
        """A run that may as well say no."""
        return await self._run(self._command, words, cwd, None, None)

    async def _run(
        self,
        command: GitCommand,
        words: tuple[str, ...],
        cwd: str | None,
        tree: Worktree | None,
        variables: Mapping[str, str] | None,
    ) -> CommandResult:
        within = {} if tree is None else _in(tree)
        try:
            return await command.run(
                cwd or (self._root if tree is None else tree.path), *words, variables={**within, **(variables or {})}
            )
        except GitMissing as error:
            raise _unusable("git is not installed where the kernel runs", "install git, or write git: none") from error


INCLUDE: Final = ".worktreeinclude"
_THEIRS: Final = frozenset({"local", "worktree"})


def _in(tree: Worktree) -> dict[str, str]:
    """Not by way of the file ``.git`` in the tree, which its agent can write."""
    return {"GIT_DIR": tree.git_dir, "GIT_WORK_TREE": tree.path}


def _lines(result: CommandResult) -> list[str]:
    return os.fsdecode(result.stdout).splitlines()


def _changed(numbers: bytes) -> tuple[Changed, ...]:
    rows = (os.fsdecode(row).split("\t", 2) for row in numbers.split(b"\0") if row)
    return tuple(Changed(path, _count(added), _count(deleted)) for added, deleted, path in rows)


def _count(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _commits(log: bytes) -> tuple[tuple[str, str], ...]:
    rows = (row.decode("utf-8", "replace").partition("\t") for row in log.split(b"\0") if row)
    return tuple((commit, subject) for commit, _tab, subject in rows)


def _unusable(text: str, hint: str) -> Refused:
    return Refused("bad_definition", f"workspace.git: worktree is not possible: {text}", hint)


def _failed(text: str, hint: str = _HINT) -> Refused:
    return Refused("setup_failed", text, hint)


def _discard(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _make_room(tree: Worktree) -> None:
    """Blocks. Raises Refused where somebody put something there."""
    if tree.state == "planned":
        _discard(tree.path)
    elif os.path.lexists(tree.path):
        raise _failed(f"{tree.path} is no working tree any more", "move it away: it will be made anew")
    os.makedirs(os.path.dirname(tree.path), mode=0o700, exist_ok=True)


def _copy(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        shutil.copyfile(source, target)


def _remove_file(path: str) -> None:
    for name in (path, f"{path}.lock"):
        with suppress(OSError):
            os.unlink(name)
