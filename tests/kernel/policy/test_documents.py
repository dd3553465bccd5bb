"""Documents: names, owners, and what becomes of a change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.documents import (
    Clashing,
    DocumentChange,
    DocumentOwner,
    DocumentState,
    NextVersion,
    check_file,
    check_judge,
    check_writer,
    covers,
    file_fault,
    next_version,
    owner_of,
)
from tests.kernel.refusals import refused

BASE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.promise("P15")
@pytest.mark.parametrize(
    "name",
    ["", "/", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", ".git/config", "a/.b", "a\0b", "a\nb", "C:\\x",
     "~/x", "e\u0301.md", "a b ", "x" * 101, "a/" * 8 + "b", "\u202egnp.md", "a/..", "...", "a.", "a./b"],
)  # fmt: skip
def test_names_that_lead_elsewhere_or_cannot_be_shown_are_refused(name: str) -> None:
    assert file_fault(name) is not None
    assert refused(check_file, name).code == "bad_request"


@pytest.mark.promise("P15")
@given(st.text(alphabet=st.sampled_from("ab/.\\~ \0\n:é\u202e-_"), max_size=14))
def test_a_name_that_is_taken_has_only_plain_parts(name: str) -> None:
    if file_fault(name) is None:
        parts = name.split("/")
        assert all(part and part[0] not in ".~" and part.strip() == part and part.isprintable() for part in parts)


def test_a_name_is_no_folder_of_another_and_no_other_spelling_of_it() -> None:
    assert check_file("findings/auth.md", ["notes.md", "findings/db.md"]) == "findings/auth.md"
    for name, other in (("a/b", "a"), ("a", "a/b"), ("Notes.md", "notes.md"), ("A/x", "a")):
        assert refused(check_file, name, [other]).code == "conflict"


def test_patterns_name_files_and_what_is_below_folders() -> None:
    for pattern, yes, no in (
        ("**", ("a", "a/b/c.md"), ()),
        ("findings", ("findings/a.md", "findings/a/b"), ("findings.md", "x/findings")),
        ("*.md", ("notes.md",), ("a/notes.md",)),
        ("**/auth.md", ("auth.md", "a/b/auth.md"), ("a/xauth.md",)),
        ("findings/*.md", ("findings/a.md",), ("findings/a/b.md", "findings/a.txt")),
    ):
        assert all(covers(pattern, file) for file in yes), pattern
        assert not any(covers(pattern, file) for file in no), pattern
    owners = (DocumentOwner("**", "scribe"), DocumentOwner("findings", "reviewer"))
    assert [owner_of(file, owners) for file in ("notes.md", "findings/a")] == ["scribe", "reviewer"]
    assert owner_of("notes.md", owners[1:]) is None


@pytest.mark.promise("P38")
def test_who_does_not_own_a_document_suggests() -> None:
    """The owner and a person write; while the owner is elected only a person."""
    check_writer("a", "scribe", "scribe", person=False, electing=None)
    check_writer("a", "coder", None, person=False, electing=None)
    check_writer("a", "user", "scribe", person=True, electing="document-owner")
    for writer, owner, electing, code in (("coder", "scribe", None, "forbidden"), ("coder", None, "p1", "conflict")):
        assert refused(check_writer, "a", writer, owner, person=False, electing=electing).code == code
    check_judge("a", "coder", "reviewer", None, person=False, accepts=True)
    check_judge("a", "scribe", "scribe", "scribe", person=False, accepts=True)
    check_judge("a", "coder", "coder", "scribe", person=False, accepts=False)
    for judge, author, owner in (
        ("coder", "coder", None),
        ("coder", "reviewer", "scribe"),
        ("coder", "coder", "scribe"),
    ):
        assert refused(check_judge, "a", judge, author, owner, person=False, accepts=True).code == "forbidden"


NOW = DocumentState(3, BASE)


@pytest.mark.promise("P37")
@pytest.mark.parametrize(
    ("asked", "now", "becomes"),
    [
        (DocumentChange("write", "new"), NOW, NextVersion("write", "new")),
        (DocumentChange("write", "new", 3), NOW, NextVersion("write", "new")),
        (DocumentChange("write", BASE, 3), NOW, None),
        (DocumentChange("write", "new"), DocumentState(0, None), NextVersion("create", "new")),
        (DocumentChange("write", "new", 4), DocumentState(4, None), NextVersion("create", "new")),
        (DocumentChange("create", "new"), DocumentState(4, None), NextVersion("create", "new")),
        (DocumentChange("append", "six"), NOW, NextVersion("append", f"{BASE}six")),
        (DocumentChange("append", "six"), DocumentState(1, "five"), NextVersion("append", "five\nsix")),
        (DocumentChange("append", ""), NOW, None),
        (DocumentChange("append", "six"), DocumentState(0, None), NextVersion("create", "six")),
        (DocumentChange("delete", since=3), NOW, NextVersion("delete", None)),
        (
            DocumentChange("write", "zero\ntwo\nthree\nfour\n5\n", 1),
            NOW,
            NextVersion("merge", "one\ntwo\nthree\nfour\n5\n"),
        ),
    ],
)
def test_what_follows_from_a_change(asked: DocumentChange, now: DocumentState, becomes: NextVersion | None) -> None:
    """Version 1 had another first line."""
    assert next_version("a", asked, now, lambda _: BASE.replace("one", "zero")) == becomes


@pytest.mark.promise("P37")
@pytest.mark.parametrize(
    ("asked", "now", "code"),
    [
        (DocumentChange("create", "new"), NOW, "already_exists"),
        (DocumentChange("write", "new", 9), NOW, "bad_request"),
        (DocumentChange("write", "new", 2, strict=True), NOW, "version_conflict"),
        (DocumentChange("write", "new", 2), NOW, "version_conflict"),
        (DocumentChange("write", "new", 2), DocumentState(3, None), "version_conflict"),
        (DocumentChange("delete", since=2), NOW, "version_conflict"),
        (DocumentChange("delete", since=0), DocumentState(0, None), "not_found"),
        (DocumentChange("write", "x" * 300_000), NOW, "too_large"),
        (DocumentChange("append", "\n" * 19_995), NOW, "too_large"),
    ],
)
def test_what_a_change_is_refused_for(asked: DocumentChange, now: DocumentState, code: str) -> None:
    error = refused(next_version, "a", asked, now, lambda _: "base\n")
    assert error.code == code
    if isinstance(error, Clashing):
        told = error.conflict
        assert (told.base, told.current, told.yours, told.whole) == ("base\n", now.text or "", asked.content, True)


def test_of_long_texts_the_places_that_clash_are_told() -> None:
    lines = [f"line {number}" for number in range(5000)]
    texts = ["\n".join([*lines[:9], word, *lines[10:]]) for word in ("base", "now", "mine")]
    with pytest.raises(Clashing) as refused:
        next_version("a", DocumentChange("write", texts[2], 1), DocumentState(2, texts[1]), lambda _: texts[0])
    told = refused.value.conflict
    assert (told.whole, told.lines, told.base, told.current, told.yours) == (False, (10,), "base", "now", "mine")
