"""One kernel per state directory, and nobody else's eyes in it."""

import os
from pathlib import Path

import pytest

from kernel.boot.state_dir import StateDirRefused, prepare_state_dir, take_lock


def test_a_new_state_directory_is_private_with_all_its_parents(tmp_path: Path) -> None:
    """Fault XF13: whatever the umask says."""
    before = os.umask(0)
    try:
        prepare_state_dir(str(tmp_path / "home" / "projects" / "x"))
    finally:
        os.umask(before)
    for directory in ("home", "home/projects", "home/projects/x"):
        assert (tmp_path / directory).stat().st_mode & 0o777 == 0o700


def test_a_readable_state_directory_is_made_private(tmp_path: Path) -> None:
    """Fault XF13."""
    (tmp_path / "state").mkdir(mode=0o755)
    prepare_state_dir(str(tmp_path / "state"))
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_symbolic_link_in_its_place_is_refused(tmp_path: Path) -> None:
    """Fault XF14."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirRefused, match="not a directory"):
        prepare_state_dir(str(tmp_path / "state"))


def test_the_lock_has_one_holder(tmp_path: Path) -> None:
    """Promise P23: a held flock, not a pid test."""
    path = str(tmp_path / "daemon.lock")
    first = take_lock(path)
    assert first is not None
    assert take_lock(path) is None
    os.close(first)
    second = take_lock(path)
    assert second is not None
    os.close(second)
