"""Working trees on a full disk: work waits for room and goes on, as it does where the log's disk is full."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.agents.providers import CauseError
from kernel.procs.spec import SpawnTransient
from kernel.store import worktrees
from tests.kernel.git.git_project import ground_in, launched
from tests.kernel.services.landing_project import Interference, attempt_of, landing_ground


def filled(disk: Path) -> Callable[[str], os.statvfs_result]:
    """What the system says of disks, where that of ``disk`` has no block left."""
    look = os.statvfs

    def told(path: str) -> os.statvfs_result:
        said = list(look(path))
        if Path(path).is_relative_to(disk):
            said[4] = 0
        return os.statvfs_result(said)

    return told


@pytest.mark.promise("SF03")
@pytest.mark.parametrize("disk", ["project", "trees", ""])
async def test_a_tree_that_cannot_be_made_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: str
) -> None:
    git_project = ground_in(tmp_path / "here")
    async with launched(tmp_path) as launcher, landing_ground(git_project, launcher, Interference()) as place:
        place.branch("alice", {"alice.txt": b"x\n"})
        run = await place.run_of("alice")
        [tree] = place.reader.now(worktrees.of_run, run)
        (git_project.root / ".git/worktrees").write_text("in the way")
        if disk:
            monkeypatch.setattr("os.statvfs", filled(git_project.folder / disk))
            with pytest.raises(SpawnTransient, match="No space left on the disk of"):
                await place.trees().ready(attempt_of(tree), confined=False)
        else:
            with pytest.raises(CauseError, match="worktrees") as caught:
                await place.trees().ready(attempt_of(tree), confined=False)
            assert caught.value.cause == "spawn_permanent"
        (git_project.root / ".git/worktrees").unlink()
        assert await place.trees().ready(attempt_of(tree), confined=False)
