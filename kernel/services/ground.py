"""The ground an attempt works on: its directory, and what its programs see where they are confined.

Named while it is briefed, from rows and files; made and tried before anything is started. A worker itself is not
confined (it holds the key): what it starts is, and its file tools keep to its directory.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kernel.agents.bubblewrap import RUN_OUTSIDE, cannot_confine, home_fault, link_fault, need_bubblewrap
from kernel.agents.catalog import AGENTS
from kernel.agents.project import PROJECT_FILES
from kernel.agents.providers import CauseError
from kernel.procs.attempt_dir import LOCK_FILE
from kernel.procs.command import run_command
from kernel.procs.launcher import Launcher
from kernel.services.placeholders import Placeholders
from kernel.store.commits.lease import Leased
from kernel.store.worktrees import Worktree
from kernel.workflows.clone import clone_of, link_of, shared_objects
from kernel.workflows.find import WORKFLOWS
from protocol.agent import AgentDefinition
from protocol.backends import EXEC
from protocol.ipc import Sandbox, Start

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
class Ground:
    """``cwd`` is the agent's working directory; ``top`` the folder it is free to change, which holds ``cwd``.

    ``tree`` is its working tree, where it has one of its own.
    """

    cwd: str
    top: str
    tree: Worktree | None = None


def project_ground(root: Path) -> Callable[[Leased], Ground]:
    """Everybody works in the project itself."""
    ground = Ground(str(root), str(root))
    return lambda _leased: ground


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

    def of(self, definition: AgentDefinition, ground: Ground, start: Start) -> Sandbox | None:
        """What confines the programs of ``start``; None: nothing does. Raises CauseError where nothing can."""
        if definition.sandbox == "off":
            return None
        if definition.backend == EXEC:
            text = "sandbox: on confines what a worker starts, and with backend exec your program is the worker"
            raise CauseError("spawn_permanent", f"{text} (write sandbox: off, and have it confine itself)")
        fault = home_fault(self._root, self._environ) or link_fault(self._root, (*_PROTECTED, *RUN_OUTSIDE))
        if fault is not None:
            raise CauseError("spawn_permanent", fault)
        box = self._of_project(start.hidden) if ground.tree is None else self.of_tree(ground.tree, start.hidden)
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

    def _of_project(self, hidden: tuple[str, ...]) -> Sandbox:
        return Sandbox(
            program=need_bubblewrap(self._environ),
            writable=(str(self._root),),
            readable=(*self._protected(), *(str(self._root / name) for name in RUN_OUTSIDE)),
            hidden=hidden,
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


Prepare = Callable[[Leased, Start], Awaitable[None]]
"""Makes an attempt's ground ready, before anything is started on it. Raises CauseError, SpawnTransient."""


async def nothing_to_prepare(_leased: Leased, _start: Start) -> None:
    """For attempts in the project itself, which nothing confines."""


def nothing_is_over(_leased: Leased) -> None:
    """For attempts for which nothing was prepared."""
