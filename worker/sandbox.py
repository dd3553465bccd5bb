"""The sandbox: the command line that restricts a program's view to the project, the system and its tools.

bubblewrap uses namespaces: private mounts, processes and /tmp. The network is shared, for Daemon MCP. The start
frame contains the visible paths, which become mounts; of two nested mounts, the deeper applies.

Two options of bubblewrap are omitted on purpose. ``--die-with-parent`` requests a signal at the end of the
*thread* that started it, and Trio starts programs in threads that end after ten seconds. ``--new-session``
would remove the program from the group that its caller kills; there is no terminal to protect. A killed group
includes the first process of the namespace, whose exit ends all other processes there.
"""

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from protocol.ipc import Sandbox, Start
from worker import process_tree

_SYSTEM: Final = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap",
    "/run/current-system", "/run/systemd/resolve", "/sys/devices/system/cpu",
)  # fmt: skip
_PRIVATE: Final = ("/tmp", "/var/tmp")  # noqa: S108  (to be empty, not to be written to)
_ALONE: Final = (
    "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev",
)  # fmt: skip
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  (a private one)
_CLOSED: Final = ("--remount-ro", "/dev", "--remount-ro", "/")
"""Makes mount points read-only: they are in memory too, without a limit of size."""
_BESIDE: Final = ("lib", "libexec")
"""Folders next to a ``bin`` folder that contain libraries of its programs."""
_OWN: Final = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1]))
"""Our Python, and the modules for ``agent-worker call`` in an attempt."""

READ: Final = "--ro-bind-try"
WRITE: Final = "--bind"
EMPTY: Final = "--tmpfs"


class Mount(NamedTuple):
    """A path in the sandbox: READ or WRITE (with the outside content), or EMPTY."""

    path: str
    kind: str


def wrap(argv: Sequence[str], start: Start, see: Sequence[str] = ()) -> tuple[str, ...]:
    """Return ``argv`` wrapped in the sandbox of ``start``, with the same environment; unchanged without a sandbox.

    The program starts in ``start.cwd``. ``see``: additional absolute paths that it must read. If a signal ends it, the
    exit code is 128 + the signal's number.
    """
    box = start.sandbox
    return tuple(argv) if box is None else enclose(argv, box, env=start.env, cwd=start.cwd, see=see)


def enclose(
    argv: Sequence[str], box: Sandbox, *, env: dict[str, str], cwd: str, see: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return ``argv`` wrapped to run in ``box``, with ``cwd`` and ``env``."""
    options: list[str] = []
    for mount in mounts(argv[0], env, box, see):
        if mount.kind == EMPTY:
            options += ("--size", str(box.private_bytes), mount.kind, mount.path)
        else:
            options += (mount.kind, box.instead.get(mount.path, mount.path), mount.path)
    return (box.program, *_ALONE, *options, *_CLOSED, "--chdir", cwd, "--", *argv)


def ask_to_leave(outside: int) -> bool:
    """Send SIGTERM to the program in the sandbox of bubblewrap ``outside``; return False if there is none.

    bubblewrap itself gets no signal: it would exit at once, and hide the exit of its program.
    """
    for first in process_tree.children(outside):
        begun = {
            pid: facts.start_time
            for pid in process_tree.children(first)
            if (facts := process_tree.stat(pid)) is not None
        }
        if begun:
            program = min(begun, key=begun.__getitem__)  # others are orphans of the program
            process_tree.signal_member(program, signal.SIGTERM, (first,))
            return True
    return False


def mounts(program: str, env: dict[str, str], box: Sandbox, see: Sequence[str] = ()) -> tuple[Mount, ...]:
    """Return all mounts, each after its parent. Reads the file system without changing it."""
    empty = (*_PRIVATE, *(env[name] for name in ("HOME", "TMPDIR") if os.path.isdir(env.get(name, ""))))
    closed = tuple(path for path in (env.get("HOME", ""), *box.hidden) if path)
    tools = {path for path in _tools(program, env.get("PATH", "")) if not _is_theirs(path, box, closed)}
    # A link in a visible folder leads to a later mount, and cannot itself be a mount point.
    tools = {path for path in tools if os.path.dirname(path) not in tools}
    found = [
        *(Mount(path, READ) for path in _SYSTEM),
        Mount(_SHARED_MEMORY, EMPTY),
        *(Mount(path, EMPTY) for path in empty if path != "/"),
        *(Mount(path, READ) for path in (*tools, *see)),
        *(Mount(path, EMPTY) for path in box.hidden),
        *(Mount(path, WRITE) for path in box.writable),
        *(Mount(path, READ) for path in box.readable),
        *(Mount(path, READ) for path in box.instead),
    ]
    last = {os.path.normpath(mount.path): mount.kind for mount in found}
    return tuple(sorted((Mount(*one) for one in last.items()), key=lambda mount: len(Path(mount.path).parts)))


def _is_theirs(path: str, box: Sandbox, closed: Sequence[str]) -> bool:
    seen = any(_within(path, place) for place in (*_SYSTEM, *box.writable, *box.readable))
    return seen or any(_within(place, path) for place in closed) or any(_within(path, place) for place in box.hidden)


def _tools(program: str, search_path: str) -> Iterator[str]:
    for folder in filter(os.path.isdir, search_path.split(":")):
        yield folder
        if os.path.basename(folder) == "bin":
            yield from (os.path.join(os.path.dirname(folder), name) for name in _BESIDE)
    yield from _OWN
    named = shutil.which(program, path=search_path)
    if named is not None:
        yield from (named, *_package(Path(os.path.realpath(named))))


def _package(file: Path) -> Iterator[str]:
    yield str(file)
    modules = next((folder for folder in reversed(file.parents) if folder.name == "node_modules"), None)
    yield str(modules or file.parent)


def _within(path: str, place: str) -> bool:
    return Path(path).is_relative_to(place)
