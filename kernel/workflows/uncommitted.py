"""Files of a project that are not as they were committed: they do not reach an agent that works on another machine."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from kernel.procs.spec import SpawnTransient
from kernel.workflows.git_directory import NoRepository, find_git_directory
from kernel.workflows.project_git import ProjectGit
from protocol.errors import Refused

MOST: Final = 10_000
"""More are not counted."""
SECONDS: Final = 5.0
_LIMIT_BYTES: Final = 4 * 1024 * 1024
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty")


async def uncommitted(git: ProjectGit, root: Path) -> int:
    """The number of files at ``root`` that are changed or new; at most MOST, and 0 where nobody can tell in time."""
    with suppress(NoRepository, Refused, SpawnTransient), trio.move_on_after(SECONDS):
        directory = await trio.to_thread.run_sync(find_git_directory, root)
        async with git.view(directory) as view:
            printed = await git.run(
                view, *_STATUS, "--untracked-files=all", "--", ".", cwd=str(root), limit_bytes=_LIMIT_BYTES
            )
            return min(MOST, printed.stdout.count(b"\0"))
    return 0
