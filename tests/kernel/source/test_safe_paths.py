"""Folders that we write to: whatever a name says and whatever is there, nothing outside is touched."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.source.safe_paths import NotInside, folder_fault, open_file, open_folder, plain_path


@pytest.mark.parametrize(("text", "path"), [("./data//x/", "data/x"), ("a", "a"), (".hidden/b c", ".hidden/b c")])
def test_a_path_is_told_in_one_way(text: str, path: str) -> None:
    """contracts 1: relative to the project root."""
    assert plain_path(text) == path


@pytest.mark.promise("P15", "CF12")
@pytest.mark.parametrize("text", ["", ".", "./", "..", "a/../b", "/etc", "~/x", "a\0b", "a\nb", "a/b/../../.."])
def test_a_path_that_is_none_of_the_project_is_refused(text: str) -> None:
    with pytest.raises(NotInside):
        plain_path(text)


@pytest.mark.promise("P15")
@given(st.text(alphabet="ab./~\0-", max_size=12))
def test_what_passes_has_no_step_upward(text: str) -> None:
    try:
        parts = plain_path(text).split("/")
    except NotInside:
        return
    assert parts and not {"", ".", ".."} & set(parts)


@pytest.mark.promise("P15", "XF05")
def test_a_link_is_not_followed_anywhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    (root / "a").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("theirs")
    (root / "link").symlink_to(outside)
    (root / "a/link").symlink_to(outside)
    (root / "a/file").symlink_to(outside / "file")
    for path in ("link", "link/new", "a/link/new"):
        with pytest.raises(OSError, match=r"Not a directory|symbolic"):
            open_folder(str(root), path, make=True)
    folder = open_folder(str(root), "a")
    with pytest.raises(OSError, match="is a link, which is not followed"):
        open_file(folder, "file", os.O_WRONLY | os.O_CREAT)
    os.close(folder)
    assert sorted(path.name for path in outside.iterdir()) == ["file"]
    assert (outside / "file").read_text() == "theirs"


@pytest.mark.promise("CF11")
def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match=r"regular|No such device"):
        os.close(open_file(folder, "pipe", os.O_RDWR))
    for name in ("../pipe", str(tmp_path / "x"), "a/b"):
        with pytest.raises(OSError, match="is not a file name"):
            open_file(folder, name, os.O_WRONLY | os.O_CREAT)
    os.close(folder)


@pytest.mark.promise("CF12")
def test_a_folder_with_another_purpose_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "file").touch()
    assert folder_fault("data/x", tmp_path) is None
    assert folder_fault(".git/x", tmp_path) == "'.git/x' is in .git, which is reserved"
    assert folder_fault("link/x", tmp_path) == "'link' is a link"
    assert folder_fault("file", tmp_path) == "'file' is not a folder"
    assert folder_fault("link/x") is None
