"""The working directory of an attempt: its place, its sandbox, its own directory, and the home of its CLI.

They are named while the start frame is built, from rows and files; made and tried before anything is started. A worker
itself is not confined (it holds the key): what it starts is, and its file tools keep to its directory. The home of a
CLI is made when it is first needed; nothing of the user's or of the project is ever a home.

Placeholders are empty files and directories that stand in a project while confined agents work there: what is not there
cannot be mounted read-only, and an agent could make what programs of the user would run. Only what was made here is
removed again: a record beside the database says which it was, also where a kernel was killed. What anybody has touched
since is not the one that was made, and stays.
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
    """Identifies what was made. Its inode alone may be given to another; whatever is done with it changes its time."""

    inode: int
    changed_ns: int


_decode: Final = msgspec.json.Decoder(dict[str, _Made]).decode


class Placeholders:
    """Holds placeholders below ``root``. Attempts share them; the last one that releases them has them removed.

    ``record`` is a file where no confined agent can write.
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
            logger.warning("placeholders.record %s cannot be read, what it named stays: %s", record, error)
            self._made = {}

    def hold(self, attempt: str, names: Iterable[str]) -> None:
        """Make those of ``names`` that are not there, to stay until ``attempt`` releases them. Raises OSError."""
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
        """Remove what was made of that which ``attempt`` held and nobody else holds, if it is as it was made."""
        released = self._held.pop(attempt, frozenset()).difference(*self._held.values()) & self._made.keys()
        unchanged: list[str] = []
        for name in sorted(released, reverse=True):
            with suppress(OSError):
                unchanged += [name] if self._now(name) == self._made[name] else []
        for name in released:
            del self._made[name]
        for name in unchanged:
            with suppress(OSError):  # it is gone, or something is in it by now
                (os.unlink if name in _FILES else os.rmdir)(self._root / name)
        if released:
            self._write()

    def held_by(self, attempt: str) -> tuple[str, ...]:
        """Return the names that ``attempt`` holds."""
        return tuple(sorted(self._held.get(attempt, ())))

    def let_go(self, attempt: str) -> None:
        """Remove nothing that ``attempt`` holds: the next program of this kernel does."""
        self._held.pop(attempt, None)

    def _now(self, name: str) -> _Made:
        facts = os.lstat(self._root / name)
        return _Made(inode=facts.st_ino, changed_ns=facts.st_ctime_ns)

    def _write(self) -> None:
        """Write the record. Without it, what a killed kernel leaves is taken for the user's: that loses nothing."""
        try:
            with replacing(self._record, 0o666, beside=f"{self._record}.new", sync=False) as file:
                file.write(msgspec.json.encode(self._made))
        except OSError as error:
            logger.warning("placeholders.record %s: %s", self._record, error.strerror)


logger = logging.getLogger(__name__)

_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._@-]+")
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
_REMOVING: Final = ".going-"


class AttemptPaths:
    """Names directories below ``state``, and makes those that outlive an attempt. ``home`` is all projects'."""

    def __init__(self, *, state: Path, home: Path) -> None:
        self._state = state
        self.hidden: tuple[str, ...] = (str(home),)
        """Directories in which no agent has any business."""

    def attempt(self, leased: Leased) -> str:
        """Return the directory of the attempt; whoever spawns it makes it."""
        return str(self._state / RUN / leased.attempt)

    def session(self, leased: Leased, definition: AgentDefinition) -> str:
        """Return the home of the agent's CLI in that space, made with mode 0700; "" without one. Raises OSError."""
        if not BACKENDS[definition.backend].own_session:
            return ""
        place = self.sessions(leased.agent) / folder_name(leased.space) / definition.backend
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(place)

    def sessions(self, agent: str) -> Path:
        """Return the directory of all CLI homes of one agent (its key)."""
        return self._state / SESSIONS / folder_name(agent)


def folder_name(name: str) -> str:
    """Return a key, of an agent or a space, as one directory name: only ``review:main`` becomes ``review+main``."""
    return _NOT_PLAIN.sub("+", name)


class WorkingDirectory(msgspec.Struct, frozen=True):
    """``cwd`` is the agent's working directory; ``top`` the folder it is free to change, which holds ``cwd``.

    ``tree`` is its working tree, where it has one of its own.
    """

    cwd: str
    top: str
    tree: Worktree | None = None


def in_project(root: Path) -> Callable[[Leased], WorkingDirectory]:
    """Return a lookup by which everybody works in the project itself."""
    directory = WorkingDirectory(str(root), str(root))
    return lambda _leased: directory


class Confinement(msgspec.Struct, eq=False, kw_only=True):
    """Builds the sandboxes of agents' programs, and tries whether they work on this machine.

    ``commands``: folders of ours that programs of an attempt are to find.

    ``contexts``: the folders of agents' contexts elsewhere in the project than in ``.agents``.
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
        """Return the sandbox of the programs of ``start``, if it has one. Raises CauseError where none can be made."""
        if definition.sandbox == "off":
            return None
        if definition.backend == EXEC:
            text = "sandbox: on confines what a worker starts, and with backend exec your program is the worker"
            raise CauseError("spawn_permanent", f"{text} (write sandbox: off, and have it confine itself)")
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
        """Return the sandbox of whatever runs in ``tree``, whose agent is confined: its programs, commands, our git.

        Its git directory is the clone, and no other one can be written there. Raises CauseError.
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
        """Return the sandbox of a command that checks what is in ``top``, and writes only there. Raises CauseError."""
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
        """The folders above contexts, each a mount of its own: else one could be moved away, and made anew."""
        contexts = tuple(self.contexts())
        return (str(self.root / name) for name in _steps(contexts) if name not in contexts)

    async def ready(self, attempt: str, sandbox: Sandbox) -> None:
        """Check that it works, and protect all of it until ``release``. Raises CauseError, SpawnTransient."""
        await self.check(sandbox)
        mounted = {*sandbox.readable, *sandbox.writable} if str(self.root) in sandbox.writable else set()
        names = [name for name in (*RUN_OUTSIDE, *_steps(self.contexts())) if str(self.root / name) in mounted]
        try:
            self.placeholders.hold(attempt, names)
        except OSError as error:
            text = f"sandbox: on, but {error.filename} cannot be protected: {error.strerror}"
            raise CauseError("spawn_permanent", text) from error

    def release(self, attempt: str) -> None:
        """Remove the placeholders that only ``attempt`` needed, of which nothing runs any more."""
        self.placeholders.release(attempt)

    async def check(self, sandbox: Sandbox) -> None:
        """Try it once. Raises CauseError where it fails, SpawnTransient."""
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
    """The homes of a project's CLIs, ``sessions/<agent>/<space>/``, below ``root``; None: there are none.

    A home is of use as long as something in it may be resumed: while its agent has work in its space that has not
    ended, or that ended not long ago. It is removed with what was said there, and when nothing needs it.
    """

    root: Path | None = None

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
        if self.root is None:
            return 0
        homes = [path for path in self.root.glob("*/*") if path.is_dir() and not path.is_symlink()]
        removed = [home for home in homes if unwanted((home.parent.name, home.name))]
        for home in removed:
            # Out of the way first: whoever begins now makes itself a new one.
            removing = home.with_name(f"{_REMOVING}{secrets.token_hex(4)}")
            try:
                home.rename(removing)
            except OSError as error:
                logger.warning("homes.kept %s: %s", home, error)
            else:
                shutil.rmtree(removing, ignore_errors=True)
            with suppress(OSError):  # the agent's directory, where that was its last home
                home.parent.rmdir()
        return len(removed)
