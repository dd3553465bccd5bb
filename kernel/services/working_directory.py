"""Where an attempt may leave things: a folder that goes with it, and one that the agent's CLI lives in for longer.

``sessions/<agent>/<space>/<backend>/`` (contracts.md section 3) is made when it is first needed; nothing of the user's
or of the project is ever a home.

The ground an attempt works on: its directory, and what its programs see where they are confined.

Named while it is briefed, from rows and files; made and tried before anything is started. A worker itself is not
confined (it holds the key): what it starts is, and its file tools keep to its directory.

The homes of programs, ``sessions/<agent>/<space>/``: removed with what was said there, and when nothing needs them.

A home is of use as long as something in it may be resumed: while its agent has work in its space that has not ended,
or that ended not long ago. It knows no backend, and never looks into a home.
"""

import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec
import trio

from kernel.agents.catalog import AGENTS
from kernel.agents.project import PROJECT_FILES
from kernel.agents.providers import CauseError
from kernel.agents.sandbox import RUN_OUTSIDE, cannot_confine, home_fault, link_fault, need_bubblewrap
from kernel.procs.attempt_dir import LOCK_FILE
from kernel.procs.command import run_command
from kernel.procs.launcher import Launcher
from kernel.services.placeholders import Placeholders
from kernel.store.transitions.lease import Leased
from kernel.store.worktrees import Worktree
from kernel.workflows.clone import clone_of, link_of, shared_objects
from kernel.workflows.find import WORKFLOWS
from protocol.agent import AgentDefinition
from protocol.backends import BACKENDS, EXEC
from protocol.ipc import Sandbox, Start
from protocol.state_paths import RUN, SESSIONS

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._@-]+")


class AttemptPaths:
    """Names folders below ``state``, and makes those that outlive an attempt. ``home`` is where all projects' is."""

    def __init__(self, *, state: Path, home: Path) -> None:
        self._state = state
        self.hidden: tuple[str, ...] = (str(home),)
        """What no agent has any business in."""

    def attempt(self, leased: Leased) -> str:
        """The folder of the attempt; whoever spawns it makes it."""
        return str(self._state / RUN / leased.attempt)

    def session(self, leased: Leased, definition: AgentDefinition) -> str:
        """The home of the agent's CLI in that space, made with mode 0700; "" for what needs none. Raises OSError."""
        if not BACKENDS[definition.backend].own_session:
            return ""
        place = self.sessions(leased.agent) / folder_name(leased.space) / definition.backend
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(place)

    def sessions(self, agent: str) -> Path:
        """The homes of all CLIs of one agent (its key)."""
        return self._state / SESSIONS / folder_name(agent)


def folder_name(name: str) -> str:
    """A key, of an agent or a space, as one folder: only ``review:main`` becomes ``review+main``."""
    return _PLAIN.sub("+", name)


_PROTECTED: Final = (AGENTS, WORKFLOWS, *PROJECT_FILES)
"""Of the project: what says who agents are and what they may do. An agent that can write it lets itself out."""
_QUARTER: Final = 4
"""The part of the machine's memory that one private folder can hold where an agent has no limit of its own."""
_TRIAL: Final = (
    "--unshare-user", "--disable-userns", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
    "--size", "4096", "--tmpfs", "/tmp", "--",  # noqa: S108  (a private one)
)  # fmt: skip
_TRIAL_SECONDS: Final = 20.0
_SAID: Final = 300


@dataclass(frozen=True, slots=True)
class WorkingDirectory:
    """``cwd`` is the agent's working directory; ``top`` the folder it is free to change, which holds ``cwd``.

    ``tree`` is its working tree, where it has one of its own.
    """

    cwd: str
    top: str
    tree: Worktree | None = None


def in_project(root: Path) -> Callable[[Leased], WorkingDirectory]:
    """Everybody works in the project itself."""
    directory = WorkingDirectory(str(root), str(root))
    return lambda _leased: directory


class Confinement:
    """Says what an agent's programs see, and finds out whether that can be done here."""

    def __init__(
        self, *, root: Path, environ: Mapping[str, str], launcher: Launcher, placeholders: Placeholders
    ) -> None:
        self._root = root
        self._environ = environ
        self._launcher = launcher
        self._works: set[str] = set()
        self._trials = 0
        self._placeholders = placeholders

    def of(self, definition: AgentDefinition, directory: WorkingDirectory, start: Start) -> Sandbox | None:
        """What confines the programs of ``start``; None: nothing does. Raises CauseError where nothing can."""
        if definition.sandbox == "off":
            return None
        if definition.backend == EXEC:
            text = "sandbox: on confines what a worker starts, and with backend exec your program is the worker"
            raise CauseError("spawn_permanent", f"{text} (write sandbox: off, and have it confine itself)")
        fault = home_fault(self._root, self._environ) or link_fault(self._root, (*_PROTECTED, *RUN_OUTSIDE))
        if fault is not None:
            raise CauseError("spawn_permanent", fault)
        box = (
            Sandbox(
                program=need_bubblewrap(self._environ),
                writable=(str(self._root),),
                readable=(*self._protected(), *(str(self._root / name) for name in RUN_OUTSIDE)),
                hidden=start.hidden,
                private_bytes=_machine_bytes() // _QUARTER,
            )
            if directory.tree is None
            else self.of_tree(directory.tree, start.hidden)
        )
        return msgspec.structs.replace(
            box,
            writable=tuple(filter(None, (*box.writable, start.attempt_dir, start.session_dir))),
            readable=(*box.readable, str(Path(start.attempt_dir) / LOCK_FILE)),
            private_bytes=definition.limits.memory or box.private_bytes,
        )

    def of_tree(self, tree: Worktree, hidden: tuple[str, ...]) -> Sandbox:
        """What is seen by whatever runs in ``tree``, whose agent is confined: the agent's programs, commands, our git.

        Its git directory is the clone, and no other one can be written there. Raises CauseError.
        """
        return Sandbox(
            program=need_bubblewrap(self._environ),
            writable=(tree.path, clone_of(tree)),
            readable=(str(self._root), *self._protected(), *shared_objects(tree)),
            hidden=hidden,
            instead={f"{tree.path}/.git": link_of(tree)},
            private_bytes=_machine_bytes() // _QUARTER,
        )

    def _protected(self) -> Iterator[str]:
        return (str(self._root / name) for name in _PROTECTED)

    async def ready(self, attempt: str, sandbox: Sandbox) -> None:
        """See that it works, and that all of it can be protected until ``over``. Raises CauseError, SpawnTransient."""
        await self.check(sandbox)
        names = [name for name in RUN_OUTSIDE if str(self._root / name) in sandbox.readable]
        try:
            self._placeholders.hold(attempt, names)
        except OSError as error:
            text = f"sandbox: on, but {error.filename} cannot be protected: {error.strerror}"
            raise CauseError("spawn_permanent", text) from error

    def over(self, attempt: str) -> None:
        """Nothing of ``attempt`` runs any more."""
        self._placeholders.release(attempt)

    async def check(self, sandbox: Sandbox) -> None:
        """Try it once. Raises CauseError where it fails, SpawnTransient."""
        if sandbox.program in self._works:
            return
        self._trials += 1
        result = await run_command(
            self._launcher,
            f"sandbox-{self._trials}",
            (sandbox.program, *_TRIAL, "/bin/sh", "-c", ":"),
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            timeout_seconds=_TRIAL_SECONDS,
            output_limit_bytes=1024,
        )
        if not result.ok:
            said = " ".join(result.stderr_tail.decode("utf-8", "replace").split())[-_SAID:]
            raise CauseError("spawn_permanent", cannot_confine(said or f"exit code {result.exit.code}"))
        self._works.add(sandbox.program)


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Preparation(Protocol):
    """Makes ready what an attempt works on, before anything is started there."""

    async def prepare(self, leased: Leased, start: Start) -> None:
        """Make it ready. Raises CauseError, SpawnTransient."""

    def release(self, leased: Leased) -> None:
        """Take it down, once nothing of the attempt is left, whether it was prepared or not."""


class NoPreparation:
    """For attempts in the project itself, which nothing confines."""

    async def prepare(self, leased: Leased, start: Start) -> None:
        """Do nothing."""

    def release(self, leased: Leased) -> None:
        """Do nothing."""


NO_PREPARATION: Final = NoPreparation()


logger = logging.getLogger(__name__)

_GOING: Final = ".going-"


class CliHomes:
    """All homes of a project, below ``root``; None: there are none."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root

    async def forget(self, agent: str | None, space: str | None) -> None:
        """Remove the homes of ``agent`` (its key), those in ``space``, or of one in the other. Raises nothing.

        Cancellation waits until they are gone.
        """

        def meant(found: tuple[str, str]) -> bool:
            return all(
                asked is None or folder_name(asked) == name for asked, name in zip((agent, space), found, strict=True)
            )

        await trio.to_thread.run_sync(self._remove, meant)

    async def keep(self, needed: Collection[tuple[str, str]]) -> int:
        """Remove the homes that are not of these agents (their keys) in these spaces. Returns how many."""
        names = {(folder_name(agent), folder_name(space)) for agent, space in needed}

        def unneeded(found: tuple[str, str]) -> bool:
            return found not in names

        return await trio.to_thread.run_sync(self._remove, unneeded)

    def _remove(self, unwanted: Callable[[tuple[str, str]], bool]) -> int:
        removed = [home for home in self._all() if unwanted((home.parent.name, home.name))]
        for home in removed:
            _remove(home)
            _leave(home.parent)
        return len(removed)

    def _all(self) -> Iterator[Path]:
        if self._root is not None:
            yield from [path for path in self._root.glob("*/*") if path.is_dir() and not path.is_symlink()]


def _remove(home: Path) -> None:
    """Out of the way first: whoever begins now makes itself a new one."""
    going = home.with_name(f"{_GOING}{secrets.token_hex(4)}")
    try:
        home.rename(going)
    except OSError as error:
        logger.warning("homes.kept %s: %s", home, error)
        return
    shutil.rmtree(going, ignore_errors=True)


def _leave(agent: Path) -> None:
    """Remove the agent's folder where that was its last home."""
    try:
        agent.rmdir()
    except OSError:
        return
