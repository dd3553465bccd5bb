"""osfiles.atomic_write: a file is replaced as a whole or not at all."""

import os
from pathlib import Path

import pytest

from osfiles.atomic_write import replacing


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_file_is_what_it_was_until_the_block_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with replacing(file) as out:
        out.write(b"new")
        out.flush()
        assert file.read_text() == "old"
    assert (file.read_text(), _mode(file), os.listdir(tmp_path)) == ("new", 0o600, ["file"])


def test_a_block_that_fails_or_a_refusal_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")

    def refuse() -> None:
        raise OSError("no")

    with pytest.raises(FileNotFoundError), replacing(file) as out:
        out.write((tmp_path / "missing").read_bytes())
    with pytest.raises(OSError, match="no"), replacing(file, written=refuse) as out:
        out.write(b"new")
    assert (file.read_text(), os.listdir(tmp_path)) == ("old", ["file"])


def test_a_link_in_the_way_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    outside, file, beside = tmp_path / "outside", tmp_path / "file", tmp_path / "file.new"
    outside.write_text("theirs")
    for link in (file, beside):
        link.symlink_to(outside)
    with replacing(file, beside=beside, keep_mode=True) as out:
        out.write(b"ours")
    assert (file.read_text(), outside.read_text(), file.is_symlink()) == ("ours", "theirs", False)
    assert _mode(file) == 0o600, "a link has no permissions of its own"


def test_permissions_are_kept_and_a_new_file_replaces_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o640)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with replacing("file", 0o666, beside=".part", folder=folder, keep_mode=True) as out:
            out.write(b"new")
        with pytest.raises(FileExistsError), replacing("file", beside=".part", folder=folder, new=True) as out:
            out.write(b"other")
    finally:
        os.close(folder)
    assert (file.read_text(), _mode(file), os.listdir(tmp_path)) == ("new", 0o640, ["file"])
