"""Users' files: read bounded and only where regular, known again by one stat, and replaced as a whole."""

import os
import weakref
from pathlib import Path

import pytest

from kernel.source.diagnostics import BadDefinition
from kernel.source.files import SETTLED_SECONDS, FileMissing, StatCache, inside, read_bytes, read_text
from osfiles.atomic_write import replacing
from tests.kernel.refusals import faults


@pytest.mark.promise("CF11")
@pytest.mark.parametrize("path", ["../out.md", "/etc/passwd", "a/../../out.md", "~/x", "link.md", "dir/out.md", "a\0b"])
def test_a_path_that_leads_outside_is_refused(path: str, tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a").mkdir()
    (tmp_path / "out.md").write_text("secret")
    (root / "link.md").symlink_to(tmp_path / "out.md")
    (root / "dir").symlink_to(tmp_path)
    with pytest.raises(BadDefinition):
        inside(root, path, "alice.yaml")


def test_a_link_inside_the_project_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("hi")
    (tmp_path / "b.md").symlink_to("a.md")
    assert inside(tmp_path, "b.md", "alice.yaml") == (tmp_path / "a.md").resolve()


@pytest.mark.promise("CF11")
@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "loop"])
def test_what_is_no_regular_file_is_refused_without_waiting(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path = Path("/dev/zero")
    assert faults(read_bytes, path, "x")[0].path == "x"


@pytest.mark.promise("CF11")
def test_a_file_over_the_limit_is_refused_and_one_at_it_is_read(tmp_path: Path) -> None:
    """10 GB."""
    path = tmp_path / "x"
    path.write_bytes(b"a" * 2048)
    assert read_bytes(path, "x", limit=2048) == b"a" * 2048
    with pytest.raises(BadDefinition, match="larger than 1 KiB"):
        read_bytes(path, "x", limit=1024)
    os.truncate(path, 10 * 1024**3)
    with pytest.raises(BadDefinition, match="larger than 1024 KiB"):
        read_bytes(path, "x")


@pytest.mark.promise("CF18")
def test_a_missing_file_is_told_apart_from_a_bad_one(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / "none" / "deeper"):
        with pytest.raises(FileMissing):
            read_text(path, "x")


@pytest.mark.promise("CF18")
def test_what_may_have_been_written_twice_in_a_moment_is_not_settled(tmp_path: Path) -> None:
    now = 0.0
    glances, path = StatCache(lambda: now), tmp_path / "a.yaml"
    path.write_text("a")
    first = glances.at(str(path))
    now = SETTLED_SECONDS - 0.1
    assert (first.settled, glances.at(str(path)).settled) == (False, False)
    now = SETTLED_SECONDS
    settled = glances.at(str(path))
    assert settled.settled
    assert glances.at(str(path)) == settled


@pytest.mark.promise("CF18")
def test_an_edit_looks_different_and_has_to_settle_again(tmp_path: Path) -> None:
    now = 0.0
    glances, path = StatCache(lambda: now), tmp_path / "a.yaml"
    path.write_text("a")
    glances.at(str(path))
    now = 10.0
    before = glances.at(str(path))
    (tmp_path / "b").write_text("b")
    (tmp_path / "b").rename(path)
    after = glances.at(str(path))
    assert before.settled
    assert not after.settled
    assert after.signature != before.signature


@pytest.mark.promise("CF18")
def test_what_is_not_there_is_settled_and_its_coming_is_seen(tmp_path: Path) -> None:
    glances, path = StatCache(lambda: 0.0), tmp_path / "moniro.yaml"
    absent = glances.at(str(path))
    path.write_text("a")
    assert absent == (None, True)
    assert not glances.at(str(path)).settled


def test_a_name_that_stands_for_nothing_is_not_remembered(tmp_path: Path) -> None:
    class Name(str):
        """One that can be seen to be forgotten."""

    glances, there = StatCache(lambda: 0.0), tmp_path / "a.yaml"
    there.write_text("a")
    absent, gone = Name(tmp_path / "nobody.yaml"), Name(there)
    glances.at(absent)
    glances.at(gone)
    there.unlink()
    glances.at(gone)
    left = weakref.ref(absent), weakref.ref(gone)
    del absent, gone
    assert [one() for one in left] == [None, None]


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
