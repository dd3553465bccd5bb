"""git over a project's repository and its trees: always in a view of ours, never in a directory that it was given.

What a repository brings along in its configuration is therefore never run. The user's own configuration counts: a
filter of theirs (Git LFS) works on files as it does for them.
"""

import itertools
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.environment import worker_environment
from kernel.git.directory import GitDirectory, NoRepository, find_git_directory
from kernel.git.runner import GitCommand, GitMissing, Setting
from kernel.git.view import (
    ConfigFile,
    Manner,
    View,
    config_files,
    filter_sections,
    free_locks,
    make_closed_view,
    make_view,
    manner_of,
    remove_locks,
)
from kernel.procs.command import CommandResult
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.source.safe_paths import root_fault
from protocol.errors import Refused
from protocol.ipc import Sandbox

SECONDS: Final = 600.0
"""For one run of git: a checkout of a large repository takes minutes."""
CONFINED_SECONDS: Final = 60.0
"""Over what a confined agent writes: a pipe in place of a file is waited for."""
LIMIT_BYTES: Final = 64 * 1024 * 1024
HINT: Final = "write git: none, or see what git says there"
_VIEW: Final = ".git-"


class ProjectGit:
    """Makes views below ``place``, a folder of ours, and runs git in them."""

    def __init__(self, place: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]) -> None:
        passed = worker_environment(environ, own_bin=own_bin)
        self.place = place
        self.environment = passed
        self._command = GitCommand(
            launcher=launcher, path=passed["PATH"], variables=passed, seconds=SECONDS, limit_bytes=LIMIT_BYTES
        )
        self._numbers = itertools.count(1)
        self._read: dict[ConfigFile, dict[str, str]] = {}
        """The settings in the configuration files that were read last: those of one repository are of all its trees."""
        self._swept = False

    @asynccontextmanager
    async def view(self, directory: GitDirectory) -> AsyncGenerator[View]:
        """A view of ``directory``, which goes with the block. Raises Refused (bad_definition)."""
        async with self.folder() as folder:
            yield await self._made(directory, partial(make_view, f"{folder}/git", directory))

    @asynccontextmanager
    async def closed_view(
        self, directory: GitDirectory, seen: View, *, tip: str, objects: tuple[str, ...], sandbox: Sandbox
    ) -> AsyncGenerator[View]:
        """As ``seen``, a view of ``directory``, for git in ``sandbox``. Raises Refused (bad_definition)."""
        async with self.folder() as folder:
            box = with_folder(sandbox, folder)
            make = partial(make_closed_view, f"{folder}/git", seen, tip=tip, objects=objects, sandbox=box)
            settings = filter_sections(await self.filters(seen), required=False)
            yield await self._made(directory, partial(make, settings=settings))

    @asynccontextmanager
    async def folder(self) -> AsyncGenerator[str]:
        """A new folder of ours, which goes with the block."""
        if not self._swept:
            self._swept = True
            # Remove views that a kernel left that was killed.
            for sweep_path in self.place.glob(f"{_VIEW}*"):
                shutil.rmtree(sweep_path, ignore_errors=True)
        path = str(self.place / f"{_VIEW}{next(self._numbers)}")
        await trio.Path(path).mkdir(mode=0o700, parents=True)
        try:
            yield path
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(partial(shutil.rmtree, path, ignore_errors=True))

    async def _made(self, directory: GitDirectory, make: Callable[[Manner], View]) -> View:
        manner = await self.manner(directory)
        try:
            return await trio.to_thread.run_sync(make, manner)
        except (OSError, NoRepository) as error:
            raise unusable(error) from error

    async def run(
        self,
        view: View,
        *words: str,
        cwd: str | None = None,
        settings: tuple[Setting, ...] = (),
        variables: Mapping[str, str] | None = None,
        given: bytes | Path = b"",
        into: Path | None = None,
        limit_bytes: int = LIMIT_BYTES,
    ) -> CommandResult:
        """A run that may as well say no. Raises Refused (bad_definition) where there is no git, SpawnTransient.

        Where git is killed, by cancellation or a limit, its locks go with it.
        """
        seconds = SECONDS if view.sandbox is None else CONFINED_SECONDS
        known = {**view.variables, **(variables or {})}
        locks, killed = free_locks(view, words, known), True
        try:
            result = await msgspec.structs.replace(self._command, seconds=seconds, limit_bytes=limit_bytes).run(
                cwd or view.top,
                *words,
                settings=settings,
                variables=known,
                given=given,
                into=into,
                sandbox=view.sandbox,
            )
            killed = result.timed_out or result.truncated
        except GitMissing as error:
            raise unusable(NoRepository("git is not installed where the kernel runs", "install git")) from error
        finally:
            if killed and locks:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(remove_locks, locks, words)
        return result

    async def said(
        self,
        view: View,
        *words: str,
        cwd: str | None = None,
        settings: tuple[Setting, ...] = (),
        variables: Mapping[str, str] | None = None,
        given: bytes | Path = b"",
    ) -> bytes:
        """The output of git. Raises Refused (setup_failed, or as ``run``), SpawnTransient."""
        result = await self.run(view, *words, cwd=cwd, settings=settings, variables=variables, given=given)
        if not result.ok:
            raise failed(f"git {words[0]} failed: {self.why(result)}")
        return result.stdout

    def why(self, result: CommandResult) -> str:
        """The reason why a run failed."""
        if result.timed_out:
            return f"it took more than {SECONDS:g} s ({CONFINED_SECONDS:g} s in a sandbox); is a file a pipe?"
        return self._command.why(result)

    async def filters(self, view: View) -> tuple[Setting, ...]:
        """The user's own filters, from their configuration and the system's."""
        found = await self.run(view, "config", "-z", "--get-regexp", r"^filter\.")
        rows = (row.partition("\n") for row in found.stdout.decode("utf-8", "surrogateescape").split("\0") if row)
        return tuple((key, value) for key, _, value in rows)

    async def manner(self, directory: GitDirectory) -> Manner:
        """The formats of the repository's data. Raises Refused (bad_definition) where it is none that we use."""
        if (lost := root_fault(directory.common)) is not None:
            raise unusable(NoRepository(lost, "put the folder back"))
        try:
            read: dict[ConfigFile, dict[str, str]] = {}
            for file in await trio.to_thread.run_sync(config_files, directory):
                known = self._read.get(file)
                if known is None:
                    words = ("config", "--file", file.path, "--no-includes", "-z", "--list")
                    printed = (await self.said(View("/dev/null", "/"), *words)).decode("utf-8", "surrogateescape")
                    rows = (row.partition("\n") for row in printed.split("\0") if row)
                    known = {key: value for key, _, value in rows}
                read[file] = known
            self._read = read
            said = {key: value for known in read.values() for key, value in known.items()}
            return manner_of(directory, said)
        except (NoRepository, OSError) as error:
            raise unusable(error) from error


def with_folder(sandbox: Sandbox, folder: str) -> Sandbox:
    """``sandbox``, and in it ``folder`` to write to as well."""
    return msgspec.structs.replace(sandbox, writable=(*sandbox.writable, folder))


_UNUSABLE: Final = "workspace.git: worktree is not possible: "


def unusable(error: NoRepository | OSError) -> Refused:
    """There can be no working trees."""
    hint = error.hint if isinstance(error, NoRepository) else "see what is there"
    return Refused("bad_definition", f"{_UNUSABLE}{error}", hint)


def unusable_on_nodes(refused: Refused) -> Refused:
    """There can be no clones on nodes either."""
    return unusable_for("an agent that works on a node (needs.labels) works in a clone of the project's git", refused)


def unusable_for(what: str, refused: Refused) -> Refused:
    """Return ``refused``, which says why the repository is not used, with ``what`` it is needed for."""
    return Refused(refused.code, f"{what} repository: {refused.text.removeprefix(_UNUSABLE)}", refused.hint)


def failed(text: str, hint: str = HINT) -> Refused:
    """git did not do what it should have."""
    return Refused("setup_failed", text, hint)


MOST_UNCOMMITTED: Final = 10_000
"""More are not counted."""
_STATUS_SECONDS = 5.0
_STATUS_BYTES = 4 * 1024 * 1024
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty")


async def uncommitted(git: ProjectGit, root: Path) -> int:
    """Return how many files at ``root`` are changed or new: at most MOST_UNCOMMITTED; 0 after _STATUS_SECONDS."""
    with suppress(NoRepository, Refused, SpawnTransient), trio.move_on_after(_STATUS_SECONDS):
        directory = await trio.to_thread.run_sync(find_git_directory, root)
        async with git.view(directory) as view:
            printed = await git.run(
                view, *_STATUS, "--untracked-files=all", "--", ".", cwd=str(root), limit_bytes=_STATUS_BYTES
            )
            return min(MOST_UNCOMMITTED, printed.stdout.count(b"\0"))
    return 0
