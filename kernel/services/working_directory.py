"""Working directory of an attempt: its path, sandbox, private directory, and the home of its CLI.

Paths are determined from rows and files while the start frame is built, and created and tested before a process starts.
A worker itself is not confined, because it holds the key; its child processes are, and its file tools are limited to
its directory. The home of a CLI is created on first use, and is never a directory of the user or the project.

Placeholders are empty files and directories in a project while confined agents work there. A missing path cannot be
mounted read-only, and an agent could create a file that the user's programs execute. Only placeholders of the kernel
are removed: a record beside the database lists them, even after a crash. A placeholder that was changed since stays.
"""

import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.catalog import AGENTS
from kernel.agents.environment import RUN_OUTSIDE, cannot_confine, home_fault, link_fault, need_bubblewrap
from kernel.agents.project import PROJECT_FILES
from kernel.agents.providers import CauseError
from kernel.git.clone import clone_of, link_of, shared_objects
from kernel.procs.attempt_dir import LOCK_FILE
from kernel.procs.command import run_command
from kernel.procs.launcher import Launcher
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.worktrees import Worktree
from kernel.workflows.find import WORKFLOWS
from osfiles.atomic_write import replacing
from protocol.agent import AgentDefinition
from protocol.backends import BACKENDS, EXEC
from protocol.discovery import RUN, SESSIONS
from protocol.ipc import Sandbox, Start

_FILES: Final = frozenset({".envrc"})
_MODE: Final = 0o400


class _Made(msgspec.Struct, frozen=True):
    """Identity of a placeholder: an inode may be reused, but each change updates its ctime."""

    inode: int
    changed_ns: int


_decode: Final = msgspec.json.Decoder(dict[str, _Made]).decode


class Placeholders:
    """Placeholders below ``root``, shared by attempts; the last attempt that releases them removes them.

    ``record`` is a file that confined agents cannot write.
    """

    def __init__(self, root: Path, record: Path) -> None:
        self._root = root
        self._record = record
        self._held: dict[str, frozenset[str]] = {}
        try:
            self._made = _decode(record.read_bytes())
        except FileNotFoundError:
            self._made = {}
        except (OSError, msgspec.DecodeError) as error:
            logger.warning("placeholders.record %s cannot be read, so its placeholders stay: %s", record, error)
            self._made = {}

    def hold(self, attempt: str, names: Iterable[str]) -> None:
        """Create placeholders for missing ``names``, which stay until ``attempt`` releases them. Raises OSError."""
        wanted = frozenset(names)
        self._held[attempt] = wanted
        for name in sorted(wanted):
            with suppress(FileExistsError):
                if name in _FILES:
                    os.close(os.open(self._root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
                else:
                    os.mkdir(self._root / name)
                self._made[name] = self._now(name)
                if (above := os.path.dirname(name)) in self._made:
                    self._made[above] = self._now(above)
                self._write()

    def release(self, attempt: str) -> None:
        """Remove the unchanged placeholders that only ``attempt`` held."""
        released = self._held.pop(attempt, frozenset()).difference(*self._held.values()) & self._made.keys()
        unchanged: list[str] = []
        for name in sorted(released, reverse=True):
            with suppress(OSError):
                unchanged += [name] if self._now(name) == self._made[name] else []
        for name in released:
            del self._made[name]
        for name in unchanged:
            with suppress(OSError):  # deleted, or not empty
                (os.unlink if name in _FILES else os.rmdir)(self._root / name)
        if released:
            self._write()

    def held_by(self, attempt: str) -> tuple[str, ...]:
        """Return the names that ``attempt`` holds."""
        return tuple(sorted(self._held.get(attempt, ())))

    def let_go(self, attempt: str) -> None:
        """Release the placeholders of ``attempt`` without removing them, which the next kernel process does."""
        self._held.pop(attempt, None)

    def _now(self, name: str) -> _Made:
        facts = os.lstat(self._root / name)
        return _Made(inode=facts.st_ino, changed_ns=facts.st_ctime_ns)

    def _write(self) -> None:
        """Write the record; without it, placeholders left by a crash count as the user's, which is harmless."""
        try:
            with replacing(self._record, 0o666, beside=f"{self._record}.new", sync=False) as file:
                file.write(msgspec.json.encode(self._made))
        except OSError as error:
            logger.warning("placeholders.record %s: %s", self._record, error.strerror)


logger = logging.getLogger(__name__)

_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._@-]+")
_PROTECTED: Final = (AGENTS, WORKFLOWS, *PROJECT_FILES)
"""Project paths that define agents and their permissions; an agent that can write them escapes its sandbox."""
_QUARTER: Final = 4
"""Fraction of the machine's memory for each private folder of an agent without a memory limit."""
_TRIAL: Final = (
    "--unshare-user", "--disable-userns", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
    "--size", "4096", "--tmpfs", "/tmp", "--",  # noqa: S108  (a private one)
)  # fmt: skip
_TRIAL_SECONDS: Final = 20.0
_SAID: Final = 300
_REMOVING: Final = ".going-"


class AttemptPaths:
    """Paths of attempts and CLI homes below ``state``. ``home`` is the folder of all projects."""

    def __init__(self, *, state: Path, home: Path) -> None:
        self._state = state
        self.hidden: tuple[str, ...] = (str(home),)
        """Directories that are hidden from agents."""

    def attempt(self, leased: Leased) -> str:
        """Return the directory of the attempt, which its launcher creates."""
        return str(self._state / RUN / leased.attempt)

    def session(self, leased: Leased, definition: AgentDefinition) -> str:
        """Return the home of the agent's CLI in that space, created with mode 0700; "" without one. Raises OSError."""
        if not BACKENDS[definition.backend].own_session:
            return ""
        place = self.sessions(leased.agent) / folder_name(leased.space) / definition.backend
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(place)

    def sessions(self, agent: str) -> Path:
        """Return the directory of all CLI homes of one agent (its key)."""
        return self._state / SESSIONS / folder_name(agent)


def folder_name(name: str) -> str:
    """Convert the key of an agent or a space to a directory name: ``review:main`` becomes ``review+main``."""
    return _NOT_PLAIN.sub("+", name)


class WorkingDirectory(msgspec.Struct, frozen=True):
    """Working directory ``cwd`` of an agent, inside the writable folder ``top``; ``tree`` is its own tree, if any."""

    cwd: str
    top: str
    tree: Worktree | None = None


def in_project(root: Path) -> Callable[[Leased], WorkingDirectory]:
    """Return a lookup that always returns the project itself."""
    directory = WorkingDirectory(str(root), str(root))
    return lambda _leased: directory


class Confinement(msgspec.Struct, eq=False, kw_only=True):
    """Builds the sandboxes of agents' programs, and tests them on this machine.

    ``commands``: folders of the kernel's commands for attempts.

    ``contexts``: folders of agents' contexts outside ``.agents``.
    """

    root: Path
    environ: Mapping[str, str]
    launcher: Launcher
    placeholders: Placeholders
    commands: tuple[str, ...] = ()
    contexts: Callable[[], Iterable[str]] = tuple
    _works: set[str] = set()
    _trials: int = 0

    def of(self, definition: AgentDefinition, directory: WorkingDirectory, start: Start) -> Sandbox | None:
        """Return the sandbox for programs of ``start``, or None. Raises CauseError if it cannot be created."""
        if definition.sandbox == "off":
            return None
        if definition.backend == EXEC:
            text = "sandbox: on is not available for backend exec, whose program is the worker itself"
            raise CauseError("spawn_permanent", f"{text} (set sandbox: off, and let the program confine itself)")
        fault = home_fault(self.root, self.environ) or link_fault(
            self.root, (*_PROTECTED, *RUN_OUTSIDE, *_steps(self.contexts()))
        )
        if fault is not None:
            raise CauseError("spawn_permanent", fault)
        box = (
            Sandbox(
                program=need_bubblewrap(self.environ),
                writable=(str(self.root), *self._above()),
                readable=(*self._protected(), *(str(self.root / name) for name in RUN_OUTSIDE)),
                hidden=start.hidden,
                private_bytes=_machine_bytes() // _QUARTER,
            )
            if directory.tree is None
            else self.of_tree(directory.tree, start.hidden)
        )
        return msgspec.structs.replace(
            box,
            writable=tuple(filter(None, (*box.writable, start.attempt_dir, start.session_dir))),
            readable=(*box.readable, str(Path(start.attempt_dir) / LOCK_FILE), *self.commands),
            private_bytes=definition.limits.memory or box.private_bytes,
        )

    def of_tree(self, tree: Worktree, hidden: tuple[str, ...]) -> Sandbox:
        """Return the sandbox for programs, commands and git in the ``tree`` of a confined agent.

        Of all git directories, only the agent's clone is writable. Raises CauseError.
        """
        return Sandbox(
            program=need_bubblewrap(self.environ),
            writable=(tree.path, clone_of(tree)),
            readable=(str(self.root), *self._protected(), *shared_objects(tree)),
            hidden=hidden,
            instead={f"{tree.path}/.git": link_of(tree)},
            private_bytes=_machine_bytes() // _QUARTER,
        )

    def of_check(self, top: str, hidden: tuple[str, ...]) -> Sandbox:
        """Return the sandbox for a check command, which may write only in ``top``. Raises CauseError."""
        outside = () if top == str(self.root) else (str(self.root),)
        return Sandbox(
            program=need_bubblewrap(self.environ),
            writable=(top,) if outside else (top, *self._above()),
            readable=(*outside, *self._protected(), *(str(self.root / name) for name in RUN_OUTSIDE)),
            hidden=hidden,
            private_bytes=_machine_bytes() // _QUARTER,
        )

    def _protected(self) -> Iterator[str]:
        return (str(self.root / name) for name in (*_PROTECTED, *self.contexts()))

    def _above(self) -> Iterator[str]:
        """Return the parent folders of contexts, mounted separately so that an agent cannot move or replace them."""
        contexts = tuple(self.contexts())
        return (str(self.root / name) for name in _steps(contexts) if name not in contexts)

    async def ready(self, attempt: str, sandbox: Sandbox) -> None:
        """Test the sandbox, and protect its paths until ``release``. Raises CauseError, SpawnTransient."""
        await self.check(sandbox)
        mounted = {*sandbox.readable, *sandbox.writable} if str(self.root) in sandbox.writable else set()
        names = [name for name in (*RUN_OUTSIDE, *_steps(self.contexts())) if str(self.root / name) in mounted]
        try:
            self.placeholders.hold(attempt, names)
        except OSError as error:
            text = f"sandbox: on requires protecting {error.filename}, which failed: {error.strerror}"
            raise CauseError("spawn_permanent", text) from error

    def release(self, attempt: str) -> None:
        """Remove the placeholders that only ``attempt`` needed; its processes have exited."""
        self.placeholders.release(attempt)

    async def check(self, sandbox: Sandbox) -> None:
        """Test the program of the sandbox, once. Raises CauseError if it fails, SpawnTransient."""
        if sandbox.program in self._works:
            return
        self._trials += 1
        result = await run_command(
            self.launcher,
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


def _steps(folders: Iterable[str]) -> tuple[str, ...]:
    steps = {
        "/".join(parts[:count]) for one in folders for parts in [one.split("/")] for count in range(1, 1 + len(parts))
    }
    return tuple(sorted(steps))


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class CliHomes(msgspec.Struct, eq=False):
    """Homes of a project's CLIs, ``sessions/<agent>/<space>/``, below ``root``; None: there are none.

    A home is needed while a session in it may be resumed: while its agent has open or recently ended work in its
    space. It is removed together with the messages of the space, and when it is no longer needed.
    """

    root: Path | None = None

    async def forget(self, agent: str | None, space: str | None) -> None:
        """Remove the CLI homes that match all given values: the key ``agent``, the ``space``.

        Raises nothing. Cancellation waits until they are removed.
        """

        def is_needed(home: tuple[str, str]) -> bool:
            return any(given and folder_name(given) != name for given, name in zip((agent, space), home, strict=True))

        await trio.to_thread.run_sync(self._remove, is_needed)

    async def keep(self, needed: Collection[tuple[str, str]]) -> int:
        """Remove all homes except for ``needed`` (agent key, space); return how many."""
        names = {(folder_name(agent), folder_name(space)) for agent, space in needed}
        return await trio.to_thread.run_sync(self._remove, names.__contains__)

    def _remove(self, is_needed: Callable[[tuple[str, str]], bool]) -> int:
        if self.root is None:
            return 0
        homes = [path for path in self.root.glob("*/*") if path.is_dir() and not path.is_symlink()]
        removed = [home for home in homes if not is_needed((home.parent.name, home.name))]
        for home in removed:
            # Renamed first, so that a new attempt creates a new home.
            removing = home.with_name(f"{_REMOVING}{secrets.token_hex(4)}")
            try:
                home.rename(removing)
            except OSError as error:
                logger.warning("homes.kept %s: %s", home, error)
            else:
                shutil.rmtree(removing, ignore_errors=True)
            with suppress(OSError):  # the agent's directory, if that was its last home
                home.parent.rmdir()
        return len(removed)
