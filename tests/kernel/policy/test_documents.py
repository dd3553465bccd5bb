"""Documents: names, owners, and how texts are compared and merged, line by line."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.documents import (
    Change,
    Clashing,
    Hunk,
    NextVersion,
    Owner,
    Standing,
    applied,
    blame,
    changes,
    check_file,
    check_judge,
    check_writer,
    covers,
    file_fault,
    lines_of,
    merge,
    next_version,
    owner_of,
    undoing,
    unified,
)
from protocol.errors import Refused

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "d " * 3]), max_size=12)
BASE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.promise("P37")
@given(LINES, LINES)
def test_what_differs_makes_one_text_of_the_other_and_back(old: list[str], new: list[str]) -> None:
    """Hunks are in order, do not touch, and lose nothing."""
    hunks = changes(old, new)
    assert applied(old, hunks) == new
    assert applied(new, undoing(old, new)) == old
    assert all(before.end < after.start for before, after in pairwise(hunks))


@pytest.mark.promise("P37")
@given(st.lists(st.sampled_from("abcdef"), max_size=10), st.data())
def test_changes_of_different_places_are_merged_whoever_comes_first(base: list[str], data: st.DataObject) -> None:
    """Every line has its own text, so that each side's hunks are exactly what it changed."""
    lines = [f"{number} {text}" for number, text in enumerate(base)]
    sides = [data.draw(st.sets(st.integers(0, max(len(lines) - 1, 0)), max_size=3)) for _ in range(2)]
    texts = [
        "\n".join(f"{line} by {side}" if number in touched else line for number, line in enumerate(lines))
        for side, touched in enumerate(sides)
    ]
    apart = all(abs(x - y) > 1 for x in sides[0] for y in sides[1]) or not lines
    merged = merge("\n".join(lines), *texts)
    assert isinstance(merged, str) is apart
    if isinstance(merged, str):
        assert merged == merge("\n".join(lines), *reversed(texts))
        both = [
            f"{line} by 0" if number in sides[0] else f"{line} by 1" if number in sides[1] else line
            for number, line in enumerate(lines)
        ]
        assert lines_of(merged) == (both or [""])


@pytest.mark.promise("P37")
@given(LINES, LINES)
def test_a_text_that_one_side_alone_changed_is_taken(base: list[str], new: list[str]) -> None:
    """Merged with the base itself, or with the same change."""
    old, changed = "\n".join(base), "\n".join(new)
    assert merge(old, changed, old) == merge(old, old, changed) == merge(old, changed, changed) == changed


def test_what_touches_is_a_clash_with_all_three_sides() -> None:
    """The place, and what each made of it; changes of lines beside each other touch."""
    clashes = merge(BASE, BASE.replace("two", "2"), BASE.replace("two", "zwei"))
    assert clashes == ((2, ("two",), ("2",), ("zwei",)),)
    beside = merge(BASE, BASE.replace("two", "2"), BASE.replace("three", "3"))
    assert not isinstance(beside, str)
    assert merge(BASE, BASE.replace("one", "1"), BASE.replace("five", "5")) == "1\ntwo\nthree\nfour\n5\n"


def test_texts_made_to_be_slow_to_compare_are_compared_all_the_same() -> None:
    """Lines of which each is there twice, one inside the other, and lines that are all alike: it ends, and is right."""
    nested = [line for number in range(6000) for line in (f"x{number + 1}", f"x{number}")]
    alike = ["same"] * 15_000
    for old, new in ((["s", *nested], [*nested, "e"]), (["a", *alike, "b"], ["c", *alike, "same", "d"])):
        assert applied(old, changes(old, new)) == new


@pytest.mark.promise("P37")
@given(st.lists(LINES, min_size=1, max_size=6))
def test_every_line_is_from_the_version_that_brought_it(texts: list[list[str]]) -> None:
    """Against a model that carries the versions along with the lines."""
    model: list[tuple[str, int]] = []
    undo: list[tuple[int, list[Hunk]]] = []
    for version, text in enumerate(texts, 1):
        old = [line for line, _ in model]
        hunks = changes(old, text)
        for hunk in reversed(hunks):
            model[hunk.start : hunk.end] = [(line, version) for line in hunk.lines]
        undo.insert(0, (version, undoing(old, text)))
    assert blame(len(texts[-1]), undo) == [version for _, version in model]


def test_a_difference_is_shown_as_everybody_shows_it() -> None:
    """Hunks with three lines around, numbered as diff does."""
    old = [f"line {number}" for number in range(1, 21)]
    new = ["first", *old[:9], "line X", *old[10:]]
    assert unified(("a", "b"), old, new).splitlines() == [
        "--- a", "+++ b", "@@ -1,3 +1,4 @@", "+first", " line 1", " line 2", " line 3",
        "@@ -7,7 +8,7 @@", " line 7", " line 8", " line 9", "-line 10", "+line X", " line 11", " line 12", " line 13",
    ]  # fmt: skip
    assert unified(("a", "b"), old, old) == ""
    assert unified(("a", "b"), [], ["x"]).splitlines()[2:] == ["@@ -0,0 +1,1 @@", "+x"]


@pytest.mark.promise("P15")
@pytest.mark.parametrize(
    "name",
    ["", "/", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", ".git/config", "a/.b", "a\0b", "a\nb", "C:\\x",
     "~/x", "e\u0301.md", "a b ", "x" * 101, "a/" * 8 + "b", "\u202egnp.md", "a/..", "..."],
)  # fmt: skip
def test_names_that_lead_elsewhere_or_cannot_be_shown_are_refused(name: str) -> None:
    """Each with a reason."""
    assert file_fault(name) is not None
    with pytest.raises(Refused) as refused:
        check_file(name)
    assert refused.value.code == "bad_request"


@pytest.mark.promise("P15")
@given(st.text(alphabet=st.sampled_from("ab/.\\~ \0\n:é\u202e-_"), max_size=14))
def test_a_name_that_is_taken_has_only_plain_parts(name: str) -> None:
    """Nothing in it is a way up, a root, hidden or empty, whatever it is made of."""
    if file_fault(name) is None:
        parts = name.split("/")
        assert all(part and part[0] not in ".~" and part.strip() == part and part.isprintable() for part in parts)


def test_a_name_is_no_folder_of_another_and_no_other_spelling_of_it() -> None:
    """What files on every system could be."""
    assert check_file("findings/auth.md", ["notes.md", "findings/db.md"]) == "findings/auth.md"
    for name, other in (("a/b", "a"), ("a", "a/b"), ("Notes.md", "notes.md"), ("A/x", "a")):
        with pytest.raises(Refused) as refused:
            check_file(name, [other])
        assert refused.value.code == "conflict"


def test_patterns_name_files_and_what_is_below_folders() -> None:
    """``*`` stays in a folder, ``**`` does not; the newest that names a file says who owns it."""
    for pattern, yes, no in (
        ("**", ("a", "a/b/c.md"), ()),
        ("findings", ("findings/a.md", "findings/a/b"), ("findings.md", "x/findings")),
        ("*.md", ("notes.md",), ("a/notes.md",)),
        ("**/auth.md", ("auth.md", "a/b/auth.md"), ("a/xauth.md",)),
        ("findings/*.md", ("findings/a.md",), ("findings/a/b.md", "findings/a.txt")),
    ):
        assert all(covers(pattern, file) for file in yes), pattern
        assert not any(covers(pattern, file) for file in no), pattern
    owners = (Owner("**", "scribe"), Owner("findings", "reviewer"))
    assert [owner_of(file, owners) for file in ("notes.md", "findings/a")] == ["scribe", "reviewer"]
    assert owner_of("notes.md", owners[1:]) is None


@pytest.mark.promise("P38")
def test_who_does_not_own_a_document_suggests() -> None:
    """The owner and a person write; while the owner is elected only a person."""
    check_writer("a", "scribe", "scribe", person=False, electing=None)
    check_writer("a", "coder", None, person=False, electing=None)
    check_writer("a", "user", "scribe", person=True, electing="document-owner")
    for writer, owner, electing, code in (("coder", "scribe", None, "forbidden"), ("coder", None, "p1", "conflict")):
        with pytest.raises(Refused) as refused:
            check_writer("a", writer, owner, person=False, electing=electing)
        assert refused.value.code == code
    check_judge("a", "coder", "reviewer", None, person=False, accepts=True)
    check_judge("a", "scribe", "scribe", "scribe", person=False, accepts=True)
    check_judge("a", "coder", "coder", "scribe", person=False, accepts=False)
    for judge, author, owner in (
        ("coder", "coder", None),
        ("coder", "reviewer", "scribe"),
        ("coder", "coder", "scribe"),
    ):
        with pytest.raises(Refused) as refused:
            check_judge("a", judge, author, owner, person=False, accepts=True)
        assert refused.value.code == "forbidden"


NOW = Standing(3, BASE)


@pytest.mark.promise("P37")
@pytest.mark.parametrize(
    ("asked", "now", "becomes"),
    [
        (Change("write", "new"), NOW, NextVersion("write", "new")),
        (Change("write", "new", 3), NOW, NextVersion("write", "new")),
        (Change("write", BASE, 3), NOW, None),
        (Change("write", "new"), Standing(0, None), NextVersion("create", "new")),
        (Change("write", "new", 4), Standing(4, None), NextVersion("create", "new")),
        (Change("create", "new"), Standing(4, None), NextVersion("create", "new")),
        (Change("append", "six"), NOW, NextVersion("append", f"{BASE}six")),
        (Change("append", "six"), Standing(1, "five"), NextVersion("append", "five\nsix")),
        (Change("append", ""), NOW, None),
        (Change("append", "six"), Standing(0, None), NextVersion("create", "six")),
        (Change("delete", since=3), NOW, NextVersion("delete", None)),
        (Change("write", "zero\ntwo\nthree\nfour\n5\n", 1), NOW, NextVersion("merge", "one\ntwo\nthree\nfour\n5\n")),
    ],
)
def test_what_follows_from_a_change(asked: Change, now: Standing, becomes: NextVersion | None) -> None:
    """Version 1 had another first line."""
    assert next_version("a", asked, now, lambda _: BASE.replace("one", "zero")) == becomes


@pytest.mark.promise("P37")
@pytest.mark.parametrize(
    ("asked", "now", "code"),
    [
        (Change("create", "new"), NOW, "already_exists"),
        (Change("write", "new", 9), NOW, "bad_request"),
        (Change("write", "new", 2, strict=True), NOW, "version_conflict"),
        (Change("write", "new", 2), NOW, "version_conflict"),
        (Change("write", "new", 2), Standing(3, None), "version_conflict"),
        (Change("delete", since=2), NOW, "version_conflict"),
        (Change("delete", since=0), Standing(0, None), "not_found"),
        (Change("write", "x" * 300_000), NOW, "too_large"),
        (Change("append", "\n" * 20_000), NOW, "too_large"),
    ],
)
def test_what_a_change_is_refused_for(asked: Change, now: Standing, code: str) -> None:
    """A change of an older version with the three texts."""
    with pytest.raises(Refused) as refused:
        next_version("a", asked, now, lambda _: "base\n")
    assert refused.value.code == code
    if isinstance(refused.value, Clashing):
        told = refused.value.conflict
        assert (told.base, told.current, told.yours, told.whole) == ("base\n", now.text or "", asked.content, True)


def test_of_long_texts_the_places_that_clash_are_told() -> None:
    """A model reads the refusal."""
    lines = [f"line {number}" for number in range(5000)]
    texts = ["\n".join([*lines[:9], word, *lines[10:]]) for word in ("base", "now", "mine")]
    with pytest.raises(Clashing) as refused:
        next_version("a", Change("write", texts[2], 1), Standing(2, texts[1]), lambda _: texts[0])
    told = refused.value.conflict
    assert (told.whole, told.lines, told.base, told.current, told.yours) == (False, (10,), "base", "now", "mine")
