"""One kernel per state directory, and nobody else's eyes in it."""

import errno
import fcntl
import os
import re
from pathlib import Path

import pytest

from kernel.boot.state_dir import Locked, StateDirRefused, prepare_state_dir, remedy, take_lock


@pytest.mark.promise("XF13")
def test_a_new_state_directory_is_private_with_all_its_parents(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        prepare_state_dir(str(tmp_path / "home" / "projects" / "x"))
    finally:
        os.umask(before)
    for directory in ("home", "home/projects", "home/projects/x"):
        assert (tmp_path / directory).stat().st_mode & 0o777 == 0o700


@pytest.mark.promise("XF13")
def test_a_readable_state_directory_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    prepare_state_dir(str(tmp_path / "state"))
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("folder", "mode"), [("home", 0o777), ("home/projects", 0o777), ("home/projects", 0o720)])
def test_a_folder_above_it_that_others_can_write_to_is_refused(tmp_path: Path, folder: str, mode: int) -> None:
    (tmp_path / "home" / "projects").mkdir(parents=True)
    (tmp_path / folder).chmod(mode)
    with pytest.raises(StateDirRefused, match=re.escape(f"{tmp_path / folder} is writable by others")):
        prepare_state_dir(str(tmp_path / "home" / "projects" / "x"))
    assert not (tmp_path / "home" / "projects" / "x").exists()
    (tmp_path / folder).chmod(mode | 0o1000)  # as /tmp: who may write there may not rename what is another's
    prepare_state_dir(str(tmp_path / "home" / "projects" / "x"))


@pytest.mark.promise("XF14")
def test_a_symbolic_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirRefused, match="not a directory"):
        prepare_state_dir(str(tmp_path / "state"))


def release(locked: Locked | None) -> None:
    """As the end of its process does."""
    assert locked is not None
    for descriptor in locked:
        if descriptor is not None:
            os.close(descriptor)


@pytest.mark.promise("P23")
def test_the_lock_has_one_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "daemon.lock")
    first = take_lock(path)
    assert take_lock(path) is None
    release(first)
    release(take_lock(path))


@pytest.mark.promise("P23")
def test_who_removes_the_lock_lets_no_second_kernel_in(tmp_path: Path) -> None:
    path = str(tmp_path / "daemon.lock")
    first = take_lock(path)
    os.unlink(path)
    assert take_lock(path) is None
    release(first)
    release(take_lock(path))


@pytest.mark.promise("SF22", "P23")
@pytest.mark.parametrize("idle", ["flock", "fcntl"])
def test_locks_that_succeed_and_do_nothing_are_found_out(
    tmp_path: Path, idle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def do_nothing(*_arguments: object) -> int:
        return 0

    monkeypatch.setattr(fcntl, idle, do_nothing)
    with pytest.raises(StateDirRefused, match=r"are ineffective.*AGENT_WORKER_HOME"):
        take_lock(str(tmp_path / "daemon.lock"))


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, r"^the disk of /state is full: free some space"),
        (errno.ENOLCK, r"^the file system of /state has no locks: set AGENT_WORKER_HOME"),
        (errno.EROFS, r"^cannot use /state: Read-only file system"),
    ],
)
def test_what_keeps_a_kernel_from_starting_is_told_with_its_place_and_what_to_do(number: int, told: str) -> None:
    said = remedy(OSError(number, os.strerror(number)), "/state")
    assert re.search(told, said)
    assert "backup" not in said
    assert "/elsewhere" in remedy(OSError(number, os.strerror(number), "/elsewhere"), "/state")
