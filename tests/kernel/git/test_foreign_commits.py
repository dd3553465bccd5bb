"""Commits from elsewhere, by what would be checked out: links, attributes, submodules, names."""

import os
import random
from pathlib import Path

import pytest

from kernel.git.clone import CommitChange, attributes_fault, change_fault, link_fault, read_changes

pytestmark = pytest.mark.promise("P89")

NAMES = ("a", "b", "c")


def drawn(dice: random.Random, length: int, words: tuple[str, ...]) -> str:
    return "/".join(dice.choice(words) for _ in range(dice.randint(1, length)))


def test_no_chain_of_links_that_are_taken_leads_out_of_the_tree(tmp_path: Path) -> None:
    dice, taken, refused = random.Random(7), 0, 0
    for number in range(400):
        top = tmp_path / str(number) / "top"
        links: list[Path] = []
        top.mkdir(parents=True)
        for _ in range(8):
            path = drawn(dice, 3, NAMES)
            target = drawn(dice, 5, (*NAMES, "..", "..", "."))
            place = top / path
            if any(above.is_symlink() for above in place.parents) or os.path.lexists(place):
                continue  # git has links in folders, never below links
            place.parent.mkdir(parents=True, exist_ok=True)
            if link_fault(path, target.encode()) is None:
                place.symlink_to(target)
                links.append(place)
                taken += 1
            else:
                refused += 1
        for link in links:
            try:
                real = Path(os.path.realpath(link, strict=True))
            except OSError:
                real = top  # it leads nowhere, or round in circles
            assert real.is_relative_to(top), (link, os.readlink(link), real)
    assert min(taken, refused) > 100


def test_a_link_is_judged_by_its_words() -> None:
    """Up only at the beginning, and no further than the top; never into git's folder."""
    for path, target, fine in (
        ("a", "b", True), ("d/a", "../b", True), ("a", "..", False), ("d/a", "../../b", False), ("a", "/etc", False),
        ("d/a", "x/../../../b", False), ("a", "x/../b", False), ("a", ".git/config", False), ("d/a", "../.GIT", False),
        ("a", "", True), ("a", "./b", True),
    ):  # fmt: skip
        assert (link_fault(path, target.encode()) is None) is fine, (path, target)


def test_attributes_that_run_programs_are_refused_where_they_are_new() -> None:
    for text, before, fine in (
        (b"*.txt text\n*.png -text merge=binary\n", (), True), (b"*.bin filter=lfs\n", (), False),
        (b"*.bin filter=lfs\n*.c text\n", (b"*.bin filter=lfs\n",), True), (b"[attr]x filter=y\n", (), False),
        (b"* merge=ours-driver\n", (), False), (b"* merge=union\n", (), True), (b"# filter=x\n", (), True),
        (b"* -filter\n", (), True), (b"*\tfilter=x\n", (), False), (b'"a b" filter=x\n', (), False),
        (b"\v# filter=x\n", (), False), (b"\f# filter=x\n", (b"# filter=x\n",), False),
        (b"* \rfilter=x\n", (), False), (b"\v filter=x\n", (), False), (b'"a"filter=x\n', (), False),
    ):  # fmt: skip
        assert (attributes_fault(".gitattributes", text, before) is None) is fine, text


def test_changes_are_read_as_git_prints_them_and_nothing_else_is() -> None:
    one, two = "1" * 40, "2" * 40
    raw = f":100644 120000 {one} {two} T\0a\0::100644 100644 160000 {one} {one} {two} MM\0b c\0".encode()
    assert list(read_changes(raw)) == [
        CommitChange("a", "120000", two, (one,)),
        CommitChange("b c", "160000", two, (one, one)),
    ]
    assert change_fault(CommitChange("vendor", "160000", two, ())) is not None
    assert change_fault(CommitChange("d/.Git/x", "100644", two, ())) is not None
    assert change_fault(CommitChange("d/.gitmodules", "100644", two, ())) is not None
    assert change_fault(CommitChange("d/.gitmodules", "000000", "0" * 40, (one,))) is None
    for broken in (b"100644\0a\0", b":100644 100644 1 M\0a\0"):
        with pytest.raises(ValueError, match=r".*"):
            list(read_changes(broken))
