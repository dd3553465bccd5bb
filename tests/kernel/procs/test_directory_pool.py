"""Directories that are used again: only those that nobody can tell from new ones."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.procs.attempt_dir import MOST, DirectoryPool, create_attempt_dir


def test_an_untouched_directory_becomes_the_next_attempts(tmp_path: Path) -> None:
    spares = DirectoryPool()
    first = create_attempt_dir(tmp_path, "i1-1", "c1", spares)
    inode = os.stat(first.path).st_ino
    first.remove()
    assert not first.path.exists()
    second = create_attempt_dir(tmp_path, "i2-1", "c2", spares)
    assert (os.stat(second.path).st_ino, os.listdir(second.path)) == (inode, ["alive"])
    assert "c1" not in Path(second.lock).read_text()


def _file(path: Path) -> None:
    (path / "left").write_text("x")


def _mode(path: Path) -> None:
    path.chmod(0o755)


def _link(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


@pytest.mark.parametrize("leave", [_file, _mode, _link])
def test_what_an_attempt_has_changed_is_never_used_again(tmp_path: Path, leave: Callable[[Path], None]) -> None:
    spares = DirectoryPool()
    first = create_attempt_dir(tmp_path, "i1-1", "c1", spares)
    leave(first.path)
    first.remove()
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []
    second = create_attempt_dir(tmp_path, "i2-1", "c2", spares)
    assert os.lstat(second.path).st_mode == 0o40700
    assert os.listdir(second.path) == ["alive"]


def test_a_directory_that_was_given_away_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spares = DirectoryPool()
    first = create_attempt_dir(tmp_path, "i1-1", "c1", spares)
    owner = os.stat(first.path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    first.remove()
    assert os.listdir(tmp_path) == []


def test_a_name_in_use_is_refused_with_spares_as_without(tmp_path: Path) -> None:
    spares = DirectoryPool()
    create_attempt_dir(tmp_path, "i1-1", "c", spares).remove()
    used = create_attempt_dir(tmp_path, "i2-1", "c2", spares)
    other = create_attempt_dir(tmp_path, "i3-1", "c3", spares)
    other.remove()
    with pytest.raises(FileExistsError):
        create_attempt_dir(tmp_path, "i2-1", "c4", spares)
    with pytest.raises(FileExistsError):
        used.rename("i2-1")
    assert "c2" in Path(used.lock).read_text()


def test_no_more_are_kept_than_may_be_and_none_after_the_end(tmp_path: Path) -> None:
    spares = DirectoryPool()
    made = [create_attempt_dir(tmp_path, f"i{number}-1", "c", spares) for number in range(MOST + 2)]
    for one in made[1:]:
        one.remove()
    assert len(os.listdir(tmp_path)) == MOST + 1
    spares.close()
    made[0].remove()
    assert os.listdir(tmp_path) == []
