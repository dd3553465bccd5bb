"""The start of a kernel: its command line, the facts of its boot, and how its heap is kept."""

import argparse
import ctypes
import gc
import os
import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from kernel.boot.service_end import KeptBy
from kernel.boot.state_dir import Locked
from protocol.discovery import forget_empty_home, project_state, state_home


class KernelArguments(NamedTuple):
    """The command line, resolved: absolute paths, no symbolic links in ``project``."""

    project: str
    home: str
    state: str
    foreground: bool
    trusted: bool
    handover: int | None = None
    """Descriptor of what an earlier program of this kernel hands over."""
    returned: str | None = None
    """Why the program that was to replace it did not: this one goes on."""
    trial: int | None = None
    """Descriptor of what a kernel would hand over: say whether that can be taken over, and do nothing."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that start a kernel as this one was started."""
        flags = {"--foreground": self.foreground, "--trust": self.trusted}
        return ("--project", self.project, *(flag for flag, given in flags.items() if given))


class Boot(NamedTuple):
    """The facts of one start. ``listener`` is bound and listening; ``token`` is the administrator's."""

    arguments: KernelArguments
    listener: socket.socket
    lock: Locked
    token: str
    record_token: str
    """The limited one, which the discovery record shows."""
    version: str
    started_at: str
    clock_offset_ns: int
    """Of the kernel's clock: what the first program of it has found."""
    after_death: bool = False
    """The kernel before did not take its record away: it was killed."""
    kept_by: KeptBy | None = None
    """The service that starts it again when it died."""
    early_signals: Sequence[int] = ()
    """Those that asked it to stop while it was being imported; may grow until its services start."""


def parse_arguments(words: list[str]) -> KernelArguments:
    """Parse ``python -I -m kernel`` words. Exits with 2 on bad usage."""
    parser = argparse.ArgumentParser(prog="python -I -m kernel", description="The agent-worker kernel of one project.")
    parser.add_argument("--project", default=os.getcwd(), help="the project's root (default: here)")
    parser.add_argument("--foreground", action="store_true", help="log to standard error, stop on Ctrl-C")
    parser.add_argument(
        "--trust", action="store_true", help="let agents run the commands that the project's files name"
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
    return KernelArguments(
        project=project,
        home=home,
        state=project_state(home, project),
        foreground=given.foreground,
        trusted=given.trust,
        handover=given.handover,
        returned=given.returned,
        trial=given.trial,
    )


COLLECTED_AFTER: Final = (2_000, 20, 20)
"""Objects that are not freed by themselves; and collections of the young before one of the older."""
MAPPED_BYTES: Final = 128 * 1024
"""Blocks of so many bytes are mapped each by itself, and unmapped when they are freed."""
_M_MMAP_THRESHOLD: Final = -3
"""mallopt(3)."""


def tune_gc() -> None:
    """Freeze the heap of a started kernel, and collect less often: what there is now stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def give_back_large_blocks() -> None:
    """Hold glibc to the threshold it begins with: it raises it at the first large block that is freed.

    From then on bodies of megabytes lie on the heap among what is small, and stay when they are freed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # there are other libraries than glibc
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
