"""One run of git, in a keeper: exactly the settings and the environment it is given, bounded in time and output."""

import itertools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kernel.procs.command import CommandResult, run_command
from kernel.procs.launcher import Launcher

_TAIL: Final = 500
_numbers: Final = itertools.count(1)
"""Attempt directories are distinct for the life of a kernel, which sweeps older ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommand:
    """How git is run. ``path`` is where it is looked for."""

    launcher: Launcher
    path: str
    settings: Sequence[str]
    """Each as ``-c`` takes it; they outweigh every configuration."""
    variables: Mapping[str, str]
    """The whole environment."""
    seconds: float
    limit_bytes: int

    async def run(
        self, cwd: str, *words: str, variables: Mapping[str, str] | None = None, given: bytes = b""
    ) -> CommandResult:
        """Run ``git words`` in ``cwd``, with more ``variables``, and ``given`` to read.

        Raises GitMissing, SpawnTransient. Cancellation kills its tree.
        """
        git = shutil.which("git", path=self.path)
        if git is None:
            raise GitMissing
        return await run_command(
            self.launcher,
            f"git-{next(_numbers)}",
            (git, *(word for one in self.settings for word in ("-c", one)), *words),
            cwd=cwd,
            env={**self.variables, **(variables or {})},
            timeout_seconds=self.seconds,
            output_limit_bytes=self.limit_bytes,
            given=given,
        )

    def why(self, result: CommandResult) -> str:
        """Why a run that went wrong did, in git's words where it said any."""
        if result.timed_out:
            return f"it took more than {self.seconds:g} s"
        if result.truncated:
            return f"there is more than {self.limit_bytes // 2**20} MiB"
        said = " ".join(result.stderr_tail.decode("utf-8", "replace").split())[-_TAIL:]
        return said or f"exit code {result.exit.code}"


class GitMissing(Exception):
    """There is no git on the path."""
