"""Git commands in a keeper, limited in time and output, over views of repositories: local (ProjectGit) or on a node.

Every git process of the kernel is started here, with our settings and environment. Settings are passed by
``GIT_CONFIG_COUNT``: ``-c`` splits its word at the first ``=``, which can be part of the key. No transport is allowed
unless a caller names it, missing objects are not fetched, and git shows no prompt, pager or editor.

For a project, git runs in a private view, never in the given directory: programs in a repository's configuration are
never run. The user's own configuration applies: their filters (Git LFS) work as usual.
"""

import itertools
import re
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.environment import worker_environment
from kernel.git.directory import GitDirectory, NoRepository, find_git_directory
from kernel.git.view import (
    ConfigFile,
    GitView,
    Manner,
    config_files,
    filter_sections,
    free_locks,
    make_closed_view,
    make_view,
    manner_of,
    remove_locks,
)
from kernel.procs.command import CommandResult, run_command
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.source.safe_paths import root_fault
from protocol.errors import Refused
from protocol.ipc import Sandbox

Setting = tuple[str, str]
"""A key of git's configuration, and its value."""

SETTINGS: Final[tuple[Setting, ...]] = (
    ("safe.bareRepository", "explicit"),
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.askPass", "/bin/false"),
    ("core.sshCommand", "/bin/false"),
    ("core.editor", "/bin/false"),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "true"),
    ("core.logAllRefUpdates", "false"),
    ("core.quotePath", "false"),
    ("gpg.program", "/bin/false"),
    ("gpg.ssh.program", "/bin/false"),
    ("gpg.x509.program", "/bin/false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("http.followRedirects", "false"),
    ("http.cookieFile", "/dev/null"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.external", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
"""Settings that override every configuration. Transports are controlled by ``GIT_ALLOW_PROTOCOL``."""

VARIABLES: Final[Mapping[str, str]] = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "/bin/false",
    "GIT_EDITOR": "/bin/false",
    "GIT_SEQUENCE_EDITOR": "/bin/false",
    "GIT_PAGER": "cat",
}

SECONDS: Final = 600.0
"""Timeout for one git command: a checkout of a large repository takes minutes."""
CONFINED_SECONDS: Final = 60.0
"""Timeout if git reads files of a confined agent: a pipe in place of a file would block it."""
LIMIT_BYTES: Final = 64 * 1024 * 1024
HINT: Final = "run the git command there to see the error, or set git: none"
_TAIL: Final = 500
COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_numbers: Final = itertools.count(1)
"""Numbers of attempt directories, unique within a kernel. A new kernel removes those of the earlier one."""


class GitCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for running git, which is found on ``path`` or, on a node, at ``program``."""

    launcher: Launcher
    path: str
    settings: Sequence[Setting] = SETTINGS
    variables: Mapping[str, str]
    """Additional environment variables, which override those in VARIABLES."""
    seconds: float = SECONDS
    limit_bytes: int = LIMIT_BYTES
    program: str = ""
    name: str = "git"
    """Prefix of the names of the commands' attempt directories."""

    async def run(
        self,
        cwd: str,
        *words: str,
        settings: Sequence[Setting] = (),
        variables: Mapping[str, str] | None = None,
        given: bytes | Path = b"",
        into: Path | None = None,
        sandbox: Sandbox | None = None,
    ) -> CommandResult:
        """Run ``git words`` in ``cwd`` with additional ``settings`` and ``variables``, and ``given`` as input.

        Its output goes to the result or, if given, to the new file ``into``. Raises GitMissing, SpawnTransient.
        Cancellation kills git with all its processes.
        """
        git = self.program or shutil.which("git", path=self.path)
        if git is None:
            raise GitMissing
        # Not as arguments, which every user of the machine can read.
        as_variables_settings = (*self.settings, *settings)
        found = {"GIT_CONFIG_COUNT": str(len(as_variables_settings))}
        for number, (key, value) in enumerate(as_variables_settings):
            found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return await run_command(
            self.launcher,
            f"{self.name}-{next(_numbers)}",
            (git, *words),
            cwd=cwd,
            env={**VARIABLES, **self.variables, **(variables or {}), **found},
            timeout_seconds=self.seconds,
            output_limit_bytes=self.limit_bytes,
            given=given,
            into=into,
            sandbox=sandbox,
        )

    def why(self, result: CommandResult) -> str:
        """Return the reason why git failed: its own error message, if it printed one."""
        if result.timed_out:
            return f"timed out after {self.seconds:g} s"
        if result.truncated:
            return f"output exceeds {self.limit_bytes // 2**20} MiB"
        said = " ".join(result.stderr_tail.decode("utf-8", "replace").split())[-_TAIL:]
        return said or f"exit code {result.exit.code}"


class GitMissing(Exception):
    """Git is not on the path."""


_VIEW: Final = ".git-"


class Git:
    """Git commands in views, run by ``command``. ``where`` ends the text of a failure, ``hint`` is its hint."""

    def __init__(self, command: GitCommand, *, where: str = "", hint: str = HINT) -> None:
        self._command = command
        self.where = where
        self.hint = hint

    async def run(
        self,
        view: GitView,
        *words: str,
        cwd: str | None = None,
        settings: tuple[Setting, ...] = (),
        variables: Mapping[str, str] | None = None,
        given: bytes | Path = b"",
        into: Path | None = None,
        limit_bytes: int = LIMIT_BYTES,
    ) -> CommandResult:
        """Run a git command that may fail. Raises Refused (bad_definition) without git, SpawnTransient.

        If git is killed by cancellation or a limit, its locks are removed.
        """
        seconds = self.seconds_over(view)
        known = {**view.variables, **(variables or {})}
        locks, killed = self.free_locks(view, words, known), True  # existing locks belong to another git
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
            killed = result.timed_out or result.truncated  # then git had no time to remove its locks
        except GitMissing as error:
            raise unusable(NoRepository("git not found on the kernel's PATH", "install git")) from error
        finally:
            if killed and locks:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(remove_locks, locks, words)
        return result

    async def said(
        self,
        view: GitView,
        *words: str,
        cwd: str | None = None,
        settings: tuple[Setting, ...] = (),
        variables: Mapping[str, str] | None = None,
        given: bytes | Path = b"",
    ) -> bytes:
        """Return the output of git. Raises Refused (setup_failed if git fails; as ``run``), SpawnTransient."""
        result = await self.run(view, *words, cwd=cwd, settings=settings, variables=variables, given=given)
        if not result.ok:
            raise failed(f"git {words[0]} failed{self.where}: {self.why(result)}", self.hint)
        return result.stdout

    async def commit_of(self, view: GitView, name: str) -> str | None:
        """Return the full hash of the commit that ``name`` refers to, or None. Raises as ``run``."""
        found = await self.run(view, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        commit = found.stdout.decode("ascii", "replace").strip()
        return commit if found.ok and COMMIT.fullmatch(commit) else None

    def seconds_over(self, view: GitView) -> float:
        """Return the timeout of a git command over ``view``."""
        return SECONDS

    def free_locks(self, view: GitView, words: tuple[str, ...], variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the lock files that git will create and that do not exist; none for files on another machine."""
        return ()

    def why(self, result: CommandResult) -> str:
        """Return the reason why git failed."""
        return self._command.why(result)


class ProjectGit(Git):
    """Git commands in temporary views, which are created in ``place``, a folder of the kernel."""

    def __init__(self, place: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]) -> None:
        passed = worker_environment(environ, own_bin=own_bin)
        self.place = place
        self.environment = passed
        super().__init__(GitCommand(launcher=launcher, path=passed["PATH"], variables=passed))
        self._numbers = itertools.count(1)
        self._read: dict[ConfigFile, dict[str, str]] = {}
        """Settings of the last configuration files read: those of a repository apply to all its trees."""
        self._swept = False

    @asynccontextmanager
    async def view(self, directory: GitDirectory) -> AsyncGenerator[GitView]:
        """Open a temporary view of ``directory``. Raises Refused (bad_definition)."""
        async with self.folder() as folder:
            yield await self._made(directory, partial(make_view, f"{folder}/git", directory))

    @asynccontextmanager
    async def closed_view(
        self, directory: GitDirectory, seen: GitView, *, tip: str, objects: tuple[str, ...], sandbox: Sandbox
    ) -> AsyncGenerator[GitView]:
        """Open a view like ``seen``, a view of ``directory``, for git that runs in ``sandbox``.

        Raises Refused (bad_definition).
        """
        async with self.folder() as folder:
            box = msgspec.structs.replace(sandbox, writable=(*sandbox.writable, folder))
            make = partial(make_closed_view, f"{folder}/git", seen, tip=tip, objects=objects, sandbox=box)
            settings = filter_sections(await self.filters(seen), required=False)
            yield await self._made(directory, partial(make, settings=settings))

    @asynccontextmanager
    async def folder(self) -> AsyncGenerator[str]:
        """Create a temporary folder, yield its path, and delete it after the block."""
        if not self._swept:
            self._swept = True  # once: later views are ours
            # Remove views of a killed kernel.
            for sweep_path in self.place.glob(f"{_VIEW}*"):
                shutil.rmtree(sweep_path, ignore_errors=True)
        path = str(self.place / f"{_VIEW}{next(self._numbers)}")
        await trio.Path(path).mkdir(mode=0o700, parents=True)
        try:
            yield path
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(partial(shutil.rmtree, path, ignore_errors=True))

    async def _made(self, directory: GitDirectory, make: Callable[[Manner], GitView]) -> GitView:
        manner = await self.manner(directory)
        try:
            return await trio.to_thread.run_sync(make, manner)
        except (OSError, NoRepository) as error:
            raise unusable(error) from error

    def seconds_over(self, view: GitView) -> float:
        """Return the timeout of a git command; a sandbox has a shorter one, because a file there can be a pipe."""
        return SECONDS if view.sandbox is None else CONFINED_SECONDS

    def free_locks(self, view: GitView, words: tuple[str, ...], variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the lock files that git will create and that do not exist."""
        return free_locks(view, words, variables)

    def why(self, result: CommandResult) -> str:
        """Return the reason why git failed."""
        if result.timed_out:
            return f"timed out after {SECONDS:g} s ({CONFINED_SECONDS:g} s in a sandbox); a file may be a pipe"
        return super().why(result)

    async def filters(self, view: GitView) -> tuple[Setting, ...]:
        """Return the filters (``filter.*``) that the user or the system configures for git."""
        found = await self.run(view, "config", "-z", "--get-regexp", r"^filter\.")
        rows = (row.partition("\n") for row in found.stdout.decode("utf-8", "surrogateescape").split("\0") if row)
        return tuple((key, value) for key, _, value in rows)

    async def manner(self, directory: GitDirectory) -> Manner:
        """Return the formats of the repository. Raises Refused (bad_definition) if it is unusable."""
        if (lost := root_fault(directory.common)) is not None:
            raise unusable(NoRepository(lost, "restore the folder"))
        try:
            read: dict[ConfigFile, dict[str, str]] = {}
            for file in await trio.to_thread.run_sync(config_files, directory):
                known = self._read.get(file)
                if known is None:
                    words = ("config", "--file", file.path, "--no-includes", "-z", "--list")
                    printed = (await self.said(GitView("/dev/null", "/"), *words)).decode("utf-8", "surrogateescape")
                    rows = (row.partition("\n") for row in printed.split("\0") if row)
                    known = {key: value for key, _, value in rows}
                read[file] = known
            self._read = read
            said = {key: value for known in read.values() for key, value in known.items()}
            return manner_of(directory, said)
        except (NoRepository, OSError) as error:
            raise unusable(error) from error


_UNUSABLE: Final = "workspace.git: worktree is not possible: "


def unusable(error: NoRepository | OSError) -> Refused:
    """Return the Refused error for an unusable repository."""
    hint = error.hint if isinstance(error, NoRepository) else "check the files"
    return Refused("bad_definition", f"{_UNUSABLE}{error}", hint)


def unusable_for(what: str, refused: Refused) -> Refused:
    """Return ``refused``, an error of ``unusable``, with ``what`` as the user of the repository in its text."""
    return Refused(refused.code, f"{what} repository: {refused.text.removeprefix(_UNUSABLE)}", refused.hint)


def failed(text: str, hint: str = HINT) -> Refused:
    """Return the Refused error (setup_failed) for a failed git command."""
    return Refused("setup_failed", text, hint)


MOST_UNCOMMITTED: Final = 10_000
"""Maximum result of ``uncommitted``."""
_STATUS_SECONDS = 5.0
_STATUS_BYTES = 4 * 1024 * 1024
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty")


async def uncommitted(git: ProjectGit, root: Path) -> int:
    """Return the number of changed or new files at ``root``; 0 if git takes longer than _STATUS_SECONDS."""
    with suppress(NoRepository, Refused, SpawnTransient), trio.move_on_after(_STATUS_SECONDS):
        directory = await trio.to_thread.run_sync(find_git_directory, root)
        async with git.view(directory) as view:
            printed = await git.run(
                view, *_STATUS, "--untracked-files=all", "--", ".", cwd=str(root), limit_bytes=_STATUS_BYTES
            )
            return min(MOST_UNCOMMITTED, printed.stdout.count(b"\0"))
    return 0
