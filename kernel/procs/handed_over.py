"""The handover of a process that runs on while the kernel's program is replaced, and who can be handed over so.

The descriptors keep their numbers: the kernel's process is the same, or a copy that holds duplicates of all of them.
"""

from typing import Protocol, runtime_checkable

import msgspec

from kernel.procs.procfs import ProcessId


class CannotHandOver(Exception):
    """It cannot be handed over now, or never: the text says why."""


class HandedHandle(msgspec.Struct, frozen=True, kw_only=True):
    """One keeper and its tree, as the next program of this kernel takes it over.

    ``stdin``, ``stdout``, ``stderr`` and ``lifeline`` are descriptors; ``heard`` is what was read of the lifeline and
    is no whole frame yet.
    """

    attempt: str
    cookie: str
    pid: int
    keeper_pid: int
    processes: tuple[ProcessId, ...]
    stdin: int
    stdout: int
    stderr: int
    lifeline: int
    heard: bytes = b""
    kill_sent: bool = False

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All that have to stay open."""
        return (self.stdin, self.stdout, self.stderr, self.lifeline)


@runtime_checkable
class HandsOverProcess(Protocol):
    """A handle whose process goes on under the kernel's next program. One of another kind is waited for instead.

    The place to extend: a handle that is not of pipes and a keeper's socket would hand over its own struct.
    """

    def is_local(self) -> bool:
        """Return whether its streams and its keeper's socket are descriptors of this process."""
        ...

    def export(self) -> HandedHandle:
        """Return what the next program needs. Raises CannotHandOver. Changes nothing."""
        ...

    def let_go(self) -> None:
        """Touch it no more: neither its end nor ours closes anything of it."""


def can_be_handed_over(handle: object) -> bool:
    """Return whether it is a handle whose process could go on under the kernel's next program."""
    return isinstance(handle, HandsOverProcess) and handle.is_local()


@runtime_checkable
class HandsOverLauncher(Protocol):
    """A launcher whose processes outlive it when the kernel's program is replaced."""

    async def hand_over(self) -> tuple[int, ...]:
        """Start nothing more, and leave all that runs alone. Returns children of ours that are to be reaped later."""
        ...
