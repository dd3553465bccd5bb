"""Runs git in a keeper, bounded in time and output, over views of repositories: here (ProjectGit), or on a node.

Every git that the kernel starts is started here, with settings and an environment of ours. A setting is passed by
``GIT_CONFIG_COUNT``: ``-c`` splits its word at the first ``=``, which can be a part of the key. No transport is allowed
unless a caller names it, nothing that is missing is fetched, and git asks nobody, shows no page and opens no editor.

Over a project git runs in a view of ours, never in a directory that it was given: what a repository brings along in its
configuration is never run. The user's own configuration counts: a filter of theirs (Git LFS) works on files as it does
for them.
"""

import itertools
import re
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
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
"""They outweigh every configuration of the same key. Of a transport, what counts is ``GIT_ALLOW_PROTOCOL``."""

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
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
)

SECONDS: Final = 600.0
"""For one run of git: a checkout of a large repository takes minutes."""
CONFINED_SECONDS: Final = 60.0
"""Over what a confined agent writes: a pipe in place of a file is waited for."""
LIMIT_BYTES: Final = 64 * 1024 * 1024
HINT: Final = "write git: none, or see what git says there"
_TAIL: Final = 500
COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_numbers: Final = itertools.count(1)
"""Attempt directories are distinct for the life of a kernel, which sweeps older ones."""


class GitCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A way to run git. ``path`` is where it is looked for; on another machine ``program`` is, in the PATH there."""

    launcher: Launcher
    path: str
    settings: Sequence[Setting] = SETTINGS
    variables: Mapping[str, str]
    """The environment, beside VARIABLES, of which each can be another one here."""
    seconds: float = SECONDS
    limit_bytes: int = LIMIT_BYTES
    program: str = ""
    name: str = "git"
    """The beginning of the names of its attempt directories."""

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
        """Run ``git words`` in ``cwd``, with more ``settings`` and ``variables``, and ``given`` to read.

        What it prints is in the answer, or in the new file ``into``.
        Raises GitMissing, SpawnTransient. Cancellation kills its tree.
        """
        git = self.program or shutil.which("git", path=self.path)
        if git is None:
            raise GitMissing
        # They are in no argument, where every user of the machine could read them.
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
        """The reason why a run failed, in git's words where it said any."""
        if result.timed_out:
            return f"it took more than {self.seconds:g} s"
        if result.truncated:
            return f"there is more than {self.limit_bytes // 2**20} MiB"
        said = " ".join(result.stderr_tail.decode("utf-8", "replace").split())[-_TAIL:]
        return said or f"exit code {result.exit.code}"


class GitMissing(Exception):
    """There is no git on the path."""


_VIEW: Final = ".git-"


class Git:
    """Runs git over views, as ``command`` does. ``where`` and ``hint`` are told with a failure."""

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
        """A run that may as well say no. Raises Refused (bad_definition) where there is no git, SpawnTransient.

        Where git is killed, by cancellation or a limit, its locks go with it.
        """
        seconds = self.seconds_over(view)
        known = {**view.variables, **(variables or {})}
        locks, killed = self.free_locks(view, words, known), True
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
        view: GitView,
        *words: str,
        cwd: str | None = None,
        settings: tuple[Setting, ...] = (),
        variables: Mapping[str, str] | None = None,
        given: bytes | Path = b"",
    ) -> bytes:
        """The output of git. Raises Refused (setup_failed, or as ``run``), SpawnTransient."""
        result = await self.run(view, *words, cwd=cwd, settings=settings, variables=variables, given=given)
        if not result.ok:
            raise failed(f"git {words[0]} failed{self.where}: {self.why(result)}", self.hint)
        return result.stdout

    async def commit_of(self, view: GitView, name: str) -> str | None:
        """The commit that ``name`` stands for; None: there is none. Raises as ``run``."""
        found = await self.run(view, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        commit = found.stdout.decode("ascii", "replace").strip()
        return commit if found.ok and COMMIT.fullmatch(commit) else None

    def seconds_over(self, view: GitView) -> float:
        """Return how long a git may take over ``view``."""
        return SECONDS

    def free_locks(self, view: GitView, words: tuple[str, ...], variables: Mapping[str, str]) -> tuple[str, ...]:
        """The locks that a git takes as it writes and nobody else has; none where the files are another machine's."""
        return ()

    def why(self, result: CommandResult) -> str:
        """The reason why a run failed."""
        return self._command.why(result)


class ProjectGit(Git):
    """Makes views below ``place``, a folder of ours, and runs git in them."""

    def __init__(self, place: Path, *, launcher: Launcher, environ: Mapping[str, str], own_bin: frozenset[str]) -> None:
        passed = worker_environment(environ, own_bin=own_bin)
        self.place = place
        self.environment = passed
        super().__init__(GitCommand(launcher=launcher, path=passed["PATH"], variables=passed))
        self._numbers = itertools.count(1)
        self._read: dict[ConfigFile, dict[str, str]] = {}
        """The settings in the configuration files that were read last: those of one repository are of all its trees."""
        self._swept = False

    @asynccontextmanager
    async def view(self, directory: GitDirectory) -> AsyncGenerator[GitView]:
        """A view of ``directory``, which goes with the block. Raises Refused (bad_definition)."""
        async with self.folder() as folder:
            yield await self._made(directory, partial(make_view, f"{folder}/git", directory))

    @asynccontextmanager
    async def closed_view(
        self, directory: GitDirectory, seen: GitView, *, tip: str, objects: tuple[str, ...], sandbox: Sandbox
    ) -> AsyncGenerator[GitView]:
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

    async def _made(self, directory: GitDirectory, make: Callable[[Manner], GitView]) -> GitView:
        manner = await self.manner(directory)
        try:
            return await trio.to_thread.run_sync(make, manner)
        except (OSError, NoRepository) as error:
            raise unusable(error) from error

    def seconds_over(self, view: GitView) -> float:
        """See Git. In a sandbox it is less: there a file can be a pipe."""
        return SECONDS if view.sandbox is None else CONFINED_SECONDS

    def free_locks(self, view: GitView, words: tuple[str, ...], variables: Mapping[str, str]) -> tuple[str, ...]:
        """See Git."""
        return free_locks(view, words, variables)

    def why(self, result: CommandResult) -> str:
        """The reason why a run failed."""
        if result.timed_out:
            return f"it took more than {SECONDS:g} s ({CONFINED_SECONDS:g} s in a sandbox); is a file a pipe?"
        return super().why(result)

    async def filters(self, view: GitView) -> tuple[Setting, ...]:
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
                    printed = (await self.said(GitView("/dev/null", "/"), *words)).decode("utf-8", "surrogateescape")
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
