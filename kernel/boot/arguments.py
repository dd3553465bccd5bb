"""Start of a kernel: its command line, the facts of its boot, and the settings of its heap."""

import argparse
import ctypes
import gc
import os
import socket
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kernel.boot.service_end import KeptBy
from kernel.boot.state_dir import Locked
from protocol.discovery import forget_empty_home, project_state, state_home


class KernelArguments(NamedTuple):
    """Resolved command line: absolute paths, no symbolic links in ``project``."""

    project: str
    home: str
    state: str
    foreground: bool
    trusted: bool
    handover: int | None = None
    """Descriptor of the state that an earlier program of this kernel hands over."""
    returned: str | None = None
    """Reason why the program that should have replaced this one failed."""
    trial: int | None = None
    """Descriptor of a trial handover: the process reports whether it could take over that state, and exits."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the command line that starts another kernel process with the same arguments."""
        flags = {"--foreground": self.foreground, "--trust": self.trusted}
        return ("--project", self.project, *(flag for flag, given in flags.items() if given))


class Boot(NamedTuple):
    """Facts of one start. ``listener`` is bound and listening; ``token`` is the administrator's."""

    arguments: KernelArguments
    listener: socket.socket
    lock: Locked
    token: str
    record_token: str
    """Limited token in the discovery record."""
    version: str
    started_at: str
    clock_offset_ns: int
    """Offset of the kernel's clock, as the kernel's first program determined it."""
    after_death: bool = False
    """Whether the previous kernel was killed: its discovery record still exists."""
    kept_by: KeptBy | None = None
    """Service that restarts the kernel after a crash."""
    early_signals: Sequence[int] = ()
    """Stop signals received during imports; may grow until the services start."""


def parse_arguments(words: list[str]) -> KernelArguments:
    """Parse ``python -I -m kernel`` words. Exits with 2 on bad usage."""
    parser = argparse.ArgumentParser(prog="python -I -m kernel", description="The agent-worker kernel of one project.")
    parser.add_argument("--project", default=os.getcwd(), help="the project's root (default: working directory)")
    parser.add_argument("--foreground", action="store_true", help="log to standard error, stop on Ctrl-C")
    parser.add_argument(
        "--trust", dest="trusted", action="store_true", help="allow agents to run the commands in the project's files"
    )
    for name, kind in (("--handover", int), ("--returned", str), ("--trial", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    project = os.path.realpath(given.project)
    if not os.path.isdir(project):
        parser.error(f"--project {given.project}: no such directory")
    try:
        project.encode()
    except UnicodeEncodeError:
        parser.error(f"--project {project!a}: the path is not UTF-8 text")
    forget_empty_home(os.environ)
    try:
        home = os.path.abspath(state_home(os.environ.get("AGENT_WORKER_HOME"), os.path.expanduser("~")))
    except ValueError as error:
        parser.error(str(error))
    resolved: dict[str, Any] = {"project": project, "home": home, "state": project_state(home, project)}
    return KernelArguments(**{**vars(given), **resolved})


COLLECTED_AFTER: Final = (2_000, 20, 20)
"""Thresholds of the garbage collector: new objects, and young collections before an older one."""
MAPPED_BYTES: Final = 128 * 1024
"""Size from which a block is mapped separately and returned to the system when it is freed."""
_M_MMAP_THRESHOLD: Final = -3
"""Parameter of mallopt(3)."""


def tune_gc() -> None:
    """Freeze the heap of a started kernel, because its objects remain, and collect garbage less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


_PR_SET_DUMPABLE: Final = 4


def hide_memory() -> None:
    """Let no other process of this user read the memory and environment of the kernel, and write no core dump.

    They contain the keys of providers. An executed program loses this protection, so each start repeats the call.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:  # only Linux has prctl
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def give_back_large_blocks() -> None:
    """Fix glibc's initial mmap threshold, which it otherwise raises when the first large block is freed.

    With a raised threshold, bodies of megabytes lie between small objects on the heap and are never returned.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # only glibc has mallopt
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
