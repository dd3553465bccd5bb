"""Reading users' files: only regular ones, inside, bounded, without blocking."""

import os
from pathlib import Path

import pytest

from kernel.source.diagnostics import BadDefinition
from kernel.source.files import FileMissing, inside, read_bytes, read_text


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
    with pytest.raises(BadDefinition) as caught:
        read_bytes(path, "x")
    assert caught.value.errors[0].path == "x"


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
