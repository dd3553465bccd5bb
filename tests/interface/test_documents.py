"""doc: the documents of a workflow, read and written by people."""

import pytest

from protocol.documents import (
    BlameLine,
    DocumentBlame,
    DocumentChanged,
    DocumentDiff,
    DocumentHistory,
    DocumentInfo,
    DocumentList,
    DocumentRow,
    SuggestionList,
    SuggestionMade,
    SuggestionRow,
    VersionRow,
)
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble

HERE = "/spaces/review:main"
AT = "2026-11-22T10:00:00.000Z"
MADE = {"author": "bob", "instruction": "i2", "run": "r1", "at": AT}
NOTES = DocumentInfo(
    file="notes.md", version=2, owner=None, size=9, author="bob", at=AT, entry=True, space="review:main",
    content="one\n\x1b[31mtwo\n",
)  # fmt: skip
CHANGED = DocumentChanged(file="a b.md", version=3, owner="bob", merged=True)


@pytest.fixture
def kernel(kernel: KernelDouble) -> KernelDouble:
    rows = (DocumentRow(file="a b.md", version=0, owner="bob", size=0, author=None, at=None), NOTES)
    kernel.answers[f"GET {HERE}/documents"] = DocumentList(
        space="review:main", entry="notes.md", electing=None, documents=rows, total=2
    )
    kernel.answers[f"GET {HERE}/documents/notes.md"] = NOTES
    return kernel


def test_documents_are_listed_and_the_entry_is_read(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: doc list, read. What an agent wrote cannot colour a terminal."""
    assert [line.split() for line in cli("doc", "list", "@review").out.splitlines()] == [
        ["FILE", "VERSION", "BYTES", "OWNER", "BY", "AT"],
        ["a", "b.md", "0", "0", "bob", "-", "-"],
        ["notes.md", "*", "2", "9", "-", "bob", AT],
    ]
    assert cli("doc", "read", "@review").out == "one\n\\x1b[31mtwo\n"
    assert cli("doc", "read", "@review", "notes.md", "--version", "1", "--json").json()["schema"] == "awk/doc/1"
    assert kernel.of("GET", f"{HERE}/documents/notes.md")[-1].query == {"version": "1"}


def test_documents_are_written_from_a_version_or_whatever_is_there(cli: Cli, kernel: KernelDouble) -> None:
    for method in ("PUT", "POST", "DELETE"):
        kernel.answers[f"{method} {HERE}/documents/x/a b.md"] = CHANGED
    words = ("@review", "x/a b.md")
    said = "a b.md: version 3 (merged with later changes)\n"
    assert cli("doc", "write", *words, "new", "--if-version", "2", "--reason", "why").out == said
    assert cli("doc", "write", *words, "-", stdin="piped\n").out == said
    assert cli("doc", "create", *words, "new").out == said
    assert cli("doc", "append", *words, "more").out == said
    assert cli("doc", "delete", *words, "--if-version", "3", "--reason", "done").out == said
    puts = kernel.of("PUT", f"{HERE}/documents/x/a b.md")
    assert [(one.body, one.query, one.headers.get("if-none-match")) for one in puts] == [
        ({"content": "new", "reason": "why"}, {"from": "2"}, None),
        ({"content": "piped\n", "reason": ""}, {}, None),
        ({"content": "new", "reason": ""}, {}, "*"),
    ]
    (gone,) = kernel.of("DELETE", f"{HERE}/documents/x/a b.md")
    assert (gone.query, gone.headers["if-match"]) == ({"reason": "done"}, '"3"')


def test_who_wrote_what_is_shown(cli: Cli, kernel: KernelDouble) -> None:
    version = VersionRow(**MADE, version=2, action="merge", reason="why", added=1, removed=0, message_id="m9")
    lines = (BlameLine(**MADE, line=1, text="one", version=1), BlameLine(**MADE, line=2, text="two", version=12))
    kernel.answers[f"GET {HERE}/document-history/notes.md"] = DocumentHistory(
        space="review:main", file="notes.md", versions=(version,), total=1
    )
    kernel.answers[f"GET {HERE}/document-blame/notes.md"] = DocumentBlame(
        space="review:main", file="notes.md", version=2, lines=lines
    )
    kernel.answers[f"GET {HERE}/document-diff/notes.md"] = DocumentDiff(
        space="review:main", file="notes.md", since=1, until=2, diff="--- 1\n+++ 2\n"
    )
    history = cli("doc", "history", "@review", "notes.md").out.splitlines()[1].split()
    assert history == ["2", "merge", "bob", "i2", "r1", "+1", "-0", AT, "why"]
    assert cli("doc", "blame", "@review", "notes.md").out == "1   bob  i2  r1  one\n12  bob  i2  r1  two\n"
    assert cli("doc", "diff", "@review", "notes.md", "--from", "1").out == "--- 1\n+++ 2\n"


def test_suggestions_are_listed_and_decided(cli: Cli, kernel: KernelDouble) -> None:
    row = SuggestionRow(**MADE, id="s1", file="notes.md", since=2, reason=None, state="open")
    kernel.answers[f"GET {HERE}/suggestions"] = SuggestionList(space="review:main", suggestions=(row,), total=1)
    for what, version in (("accept", 3), ("reject", None)):
        kernel.answers[f"POST {HERE}/suggestions/s1/{what}"] = SuggestionMade(
            id="s1", file="notes.md", state="accepted" if version else "rejected", accepted_version=version
        )
    assert cli("doc", "suggestions", "@review").out.splitlines()[1].split() == [
        "s1", "notes.md", "2", "bob", "open", AT,
    ]  # fmt: skip
    assert cli("doc", "accept", "@review", "s1").out == "s1: accepted, notes.md, version 3\n"
    assert cli("doc", "reject", "@review", "s1", "--reason", "no").out == "s1: rejected, notes.md\n"
