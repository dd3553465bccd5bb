"""What is to be run."""

import re
from dataclasses import dataclass
from typing import Final

from protocol.ipc import Sandbox

_ATTEMPT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spec:
    """A worker (without ``argv``) or a command.

    ``attempt`` names the directory below ``run/`` and must not be in use. ``cwd`` None: the root directory for a fork,
    the kernel's for exec; a worker is told its own in ``start``. ``env`` is the whole environment of a command, and
    ignored for a worker, whose programs get theirs from ``start``. ``sandbox`` confines a command.
    """

    attempt: str
    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    sandbox: Sandbox | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an attempt that would not be a plain directory name, or an empty command."""
        if not _ATTEMPT.fullmatch(self.attempt):
            raise ValueError(f"{self.attempt!r} cannot name a directory below run/")
        if self.argv is not None and not self.argv:
            raise ValueError("argv is empty")
