"""The folder of a node: private, ours, and of one node process at a time. A home that machines share has one for each.

Of a lock or a process in a shared folder, no machine can tell whether it is its own.
"""

import fcntl
import os
import re
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from protocol.node import NodeFacts
from protocol.version import VERSION

LOCK: Final = "node.lock"
LOG: Final = "node.log"
LOG_BYTES: Final = 1024 * 1024
"""A log that is longer is truncated by the next node process."""
RUN: Final = "run"
_PASSED_ON = frozenset(
    {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_ODD = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)


class FolderRefused(Exception):
    """The folder is somebody else's, or none."""


def of_this_machine(state: Path) -> Path:
    """The part of ``state`` that belongs to this machine."""
    return state / (_ODD.sub("_", socket.gethostname()).lstrip(".")[:64] or "machine")


def prepare_folder(state: Path) -> None:
    """Make it with mode 0700, or see that it is ours and that nobody else reads it. Raises FolderRefused, OSError."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = os.lstat(state)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise FolderRefused(f"{state} is not a directory of yours: name another one with --state")
    if info.st_mode & 0o077:
        os.chmod(state, 0o700)


def lock_folder(state: Path) -> int | None:
    """Be the one node process of this folder, as long as the descriptor is open; None where there is one."""
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def holder_of(state: Path) -> int:
    """Return the node process that has locked the folder. Raises OSError, ValueError."""
    return int((state / LOCK).read_text("ascii"))


def open_log(state: Path) -> int:
    """Open the log of the folder, to append to."""
    log = os.open(state / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(log).st_size > LOG_BYTES:
        os.ftruncate(log, 0)
    return log


def search_path(environ: Mapping[str, str]) -> str:
    """The folders of programs: PATH without relative folders, which would follow the working directory."""
    parts = (environ.get("PATH") or _DEFAULT_PATH).split(":")
    return ":".join(part for part in parts if part.startswith("/")) or _DEFAULT_PATH


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of the environment that a worker has; its programs get theirs from the start frame."""
    kept = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    return {**kept, "PATH": search_path(environ)}


_CGROUP_MEMORY: Final = Path("/sys/fs/cgroup/memory.max")


def gather(state: Path, environ: Mapping[str, str], mcp_url: str) -> NodeFacts:
    """Look at the machine now."""
    return NodeFacts(
        version=VERSION,
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=_memory_bytes(),
        gpus=_gpus(environ),
        home=str(Path.home()),
        path=search_path(environ)[:16000],
        state_dir=str(state),
        mcp_url=mcp_url,
    )


def _memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # there is no such file, or it says max
        return min(machine, int(_CGROUP_MEMORY.read_text("ascii")))
    return machine


def _gpus(environ: Mapping[str, str]) -> int:
    given = environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return len([word for word in given.split(",") if word.strip() and word.strip() != "-1"])
    return len([path for path in Path("/dev").glob("nvidia[0-9]*") if path.name[6:].isdecimal()])
