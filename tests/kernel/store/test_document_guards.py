"""Second conditions of documents: what was written, suggested or decided by another one, elsewhere, or meanwhile."""

from functools import partial
from typing import Any, Final

import msgspec
import pytest

from kernel.policy.documents import DocumentChange, Mirrored, mirror_step
from kernel.rule.draft import Draft
from kernel.store import documents, mirrors
from kernel.store.decisions import DOCUMENT
from kernel.store.mirrors import DocumentFolder
from kernel.store.rows import RowPage
from kernel.store.transitions import documents as commits
from kernel.store.transitions.append import append
from kernel.store.transitions.runs import stop_workflow
from protocol.documents import MOST_FILES, MOST_SUGGESTIONS, SuggestionInfo
from protocol.errors import Refused
from protocol.message import SYSTEM, USER
from protocol.voting import Binds
from tests.kernel.store.busy_workspace import SPACE, BusyWorkspace, asked, refused
from tests.shorthand import present

pytestmark = pytest.mark.promise("P37")

FILE: Final = "notes.md"
BELOW: Final = "review:main~design"
SAID: Final = "SELECT text FROM messages WHERE kind = 'document' AND sender = ? ORDER BY seq"


@pytest.fixture
def work(workspace: BusyWorkspace) -> BusyWorkspace:
    """alice, bob and carol at work, with a document."""
    write(workspace, USER, "one")
    return workspace


def write(work: BusyWorkspace, who: str, text: str, since: int | None = None, file: str = FILE) -> Any:
    return work.commit(commits.change, SPACE, file, DocumentChange("write", text, since), author=work.author(who))


def suggest(work: BusyWorkspace, who: str, text: str, since: int | None = None, file: str = FILE) -> str:
    return work.commit(commits.suggest, SPACE, file, text, since=since, author=work.author(who)).id


def state(work: BusyWorkspace, name: str) -> SuggestionInfo:
    return DOCUMENT.find(work.conn, SPACE, name)


def text(work: BusyWorkspace, file: str = FILE) -> str | None:
    found = documents.find(work.conn, SPACE, file)
    return None if found is None else found.text


def told(work: BusyWorkspace, who: str = SYSTEM) -> list[str]:
    return [str(one) for (one,) in work.conn.execute(SAID, (who,))]


def put_to_the_vote(work: BusyWorkspace, name: str) -> None:
    what = asked("approval", name="take", rule="majority", binding=True)
    work.create(USER, msgspec.structs.replace(what, binds=Binds(suggestion=name)))


def decide(work: BusyWorkspace, choice: str) -> None:
    for who in ("alice", "bob"):
        work.vote(who, "take", choice)


@pytest.mark.parametrize(("choice", "becomes", "is_now"), [("yes", "accepted", "two"), ("no", "rejected", "one")])
def test_a_binding_vote_decides_about_a_suggestion(work: BusyWorkspace, choice: str, becomes: str, is_now: str) -> None:
    name = suggest(work, "alice", "two")
    put_to_the_vote(work, name)
    decide(work, choice)
    assert (state(work, name).state, state(work, name).decided_by, text(work)) == (becomes, SYSTEM, is_now)
    assert len(told(work)) == 1


@pytest.mark.parametrize("choice", ["yes", "no"])
@pytest.mark.parametrize("accepts", [True, False])
def test_a_vote_changes_nothing_that_a_person_decided_meanwhile(
    work: BusyWorkspace, choice: str, accepts: bool
) -> None:
    name = suggest(work, "alice", "two")
    put_to_the_vote(work, name)
    work.commit(commits.decide, SPACE, name, accepts=accepts)
    before = (state(work, name), text(work), told(work))
    decide(work, choice)
    assert (state(work, name), text(work), told(work)) == before
    assert before[0].decided_by == USER


def test_a_vote_without_a_winner_leaves_a_suggestion_open(work: BusyWorkspace) -> None:
    name = suggest(work, "alice", "two")
    put_to_the_vote(work, name)
    work.advance(120)
    assert (state(work, name).state, told(work)) == ("open", [])


def test_what_was_voted_for_and_clashes_meanwhile_stays_open(work: BusyWorkspace) -> None:
    name = suggest(work, "alice", "two")
    put_to_the_vote(work, name)
    write(work, USER, "three")
    decide(work, "yes")
    assert (state(work, name).state, text(work)) == ("open", "three")
    assert "stays open" in told(work)[-1]


def test_what_is_decided_is_decided_once(work: BusyWorkspace) -> None:
    name = suggest(work, "alice", "two")
    work.commit(commits.decide, SPACE, name, accepts=False, author=work.author("bob"))
    for accepts in (True, False):
        assert refused(partial(work.commit, commits.decide, SPACE, name, accepts=accepts)) == "conflict"
    work.commit(DOCUMENT.decide, name, "accepted", USER, "", 9)
    assert (state(work, name).state, state(work, name).decided_by) == ("rejected", "bob")


def test_a_suggestion_that_lacks_most_lines_has_to_say_so(work: BusyWorkspace) -> None:
    """A model that suggests "add a section" as the whole text would delete everything else."""
    whole = "".join(f"line {number}\n" for number in range(10))
    write(work, USER, whole)
    with pytest.raises(Refused, match="deletes 10 of 10 lines") as caught:
        suggest(work, "alice", "please add a section")
    assert (caught.value.code, "deletes_most" in str(caught.value.hint)) == ("bad_request", True)
    for fine in (whole.replace("line 3\n", ""), "x\n" * 10, whole[: len(whole) // 2]):
        assert suggest(work, "alice", fine)
    author = work.author("alice")
    assert work.commit(commits.suggest, SPACE, FILE, "short", deletes_most=True, author=author).state == "open"


def test_a_suggestion_is_its_spaces_own(work: BusyWorkspace) -> None:
    name = suggest(work, "alice", "two")
    conn = work.conn
    assert refused(lambda: DOCUMENT.find(conn, BELOW, name)) == "not_found"
    work.commit(DOCUMENT.propose, BELOW, BELOW, FILE, "x", author="bob", detail={"since": 0})
    assert (DOCUMENT.count(conn, SPACE), DOCUMENT.count(conn, BELOW)) == (1, 1)
    work.commit(commits.decide, SPACE, name, accepts=False)
    assert [documents.suggestions(conn, SPACE, RowPage(), open_only=only).total for only in (True, False)] == [0, 1]
    listed = {only: documents.suggestions(conn, SPACE, RowPage(), open_only=only).suggestions for only in (True, False)}
    assert ([one.id for one in listed[True]], [one.id for one in listed[False]]) == ([], [name])


def test_the_id_of_a_deleted_suggestion_is_not_used_again(work: BusyWorkspace) -> None:
    assert suggest(work, "alice", "two") == "s1"
    work.conn.execute("DELETE FROM decisions")
    assert suggest(work, "alice", "two") == "s2"


def test_a_suggestion_that_is_in_the_document_already_makes_no_version(work: BusyWorkspace) -> None:
    name = suggest(work, "alice", "two")
    write(work, "bob", "two")
    made = work.commit(commits.decide, SPACE, name, accepts=True, author=work.author("carol"))
    found = present(documents.find(work.conn, SPACE, FILE))
    assert (made.state, made.accepted_version, found.version) == ("accepted", 2, 2)


def test_what_would_change_nothing_is_no_suggestion(work: BusyWorkspace) -> None:
    assert refused(lambda: suggest(work, "alice", "one")) == "bad_request"
    write(work, USER, "two")
    assert suggest(work, "alice", "one")  # back to what it was
    with pytest.raises(Refused):
        suggest(work, "alice", "one", since=1)
    with pytest.raises(Refused, match="has no version 3"):
        suggest(work, "alice", "three", since=3)


@pytest.mark.parametrize(("owner", "woken"), [(None, []), ("alice", []), ("bob", ["bob"])])
def test_an_owner_is_woken_by_what_another_one_suggests(
    work: BusyWorkspace, owner: str | None, woken: list[str]
) -> None:
    if owner is not None:
        work.commit(documents.set_owners, SPACE, (FILE,), owner)
    suggest(work, "alice", "two")
    assert work.woken_by("document") == woken


def test_too_many_suggestions_and_documents_are_refused(work: BusyWorkspace) -> None:
    for number in range(MOST_SUGGESTIONS):
        work.commit(DOCUMENT.propose, SPACE, SPACE, FILE, f"x{number}", author="bob", detail={"since": 1})
    with pytest.raises(Refused, match="open suggestions"):
        suggest(work, "alice", "two")
    work.commit(commits.decide, SPACE, "s1", accepts=False)
    assert suggest(work, "alice", "two")
    conn = work.conn
    conn.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO documents "
        "(space, file, version, content, deleted) SELECT ?, 'f' || i, 1, 'x', 0 FROM n",
        (MOST_FILES - 1, SPACE),
    )
    with pytest.raises(Refused, match="has the maximum of"):
        write(work, USER, "x", file="more.md")
    assert write(work, USER, "two").version == 2
    work.commit(commits.change, SPACE, "f1", DocumentChange("delete"))
    assert write(work, USER, "x", file="more.md").version == 1


def test_a_deleted_name_may_be_taken_by_another_spelling(work: BusyWorkspace) -> None:
    """Names are compared with those that are there, and only where one more comes."""
    assert refused(lambda: write(work, USER, "x", file="NOTES.md")) == "conflict"
    assert work.commit(commits.change, SPACE, FILE, DocumentChange("delete")).version == 2
    assert write(work, USER, "x", file="NOTES.md").version == 1


@pytest.mark.parametrize(
    ("by", "who", "since", "note"),
    [(USER, "alice", None, "it replaced version 1 by user"), ("alice", "alice", None, ""), (USER, "alice", 1, "")],
)
def test_who_writes_over_another_ones_text_is_told_so(
    work: BusyWorkspace, by: str, who: str, since: int | None, note: str
) -> None:
    write(work, by, "theirs", file="x.md")
    said = write(work, who, "mine", since, file="x.md").note
    assert (note in said) if note else said == ""
    assert write(work, who, "new", file="y.md").note == ""


def test_what_is_merged_is_said_to_be(work: BusyWorkspace) -> None:
    write(work, USER, "a\nb\nc\nd", file="x.md")
    write(work, USER, "A\nb\nc\nd", file="x.md")
    merged = write(work, "alice", "a\nb\nc\nD", 1, file="x.md")
    assert (merged.merged, "were merged into it" in merged.note, text(work, "x.md")) == (True, True, "A\nb\nc\nD")
    assert "were merged into it" not in write(work, "alice", "z", 3, file="x.md").note


def test_documents_of_one_space_are_no_other_spaces(work: BusyWorkspace) -> None:
    conn = work.conn
    new = commits.NewVersion(
        action="create", message=1, author=USER, instruction=None, reason="", content="below", undo=[], growth=(1, 0)
    )
    work.commit(commits.add_version, BELOW, FILE, new)
    work.commit(commits.add_version, BELOW, "only.md", new)
    work.commit(documents.set_owners, BELOW, (FILE,), "bob")
    assert (text(work), documents.files(conn, SPACE)) == ("one", (FILE,))
    assert documents.find(conn, SPACE, "only.md") is None
    assert documents.settings(conn, SPACE).owner(FILE) is None
    assert [row.file for row in documents.listing(conn, SPACE).documents if row.version] == [FILE]
    assert mirrors.versions(conn, SPACE) == {FILE: (1, False)}
    work.commit(commits.change, SPACE, FILE, DocumentChange("delete"))
    assert (documents.files(conn, SPACE), documents.files(conn, BELOW)) == ((), (FILE, "only.md"))
    assert [row.file for row in documents.listing(conn, SPACE).documents if row.version] == []
    work.commit(documents.begin, SPACE, None)
    assert documents.settings(conn, SPACE).owner(FILE) is None
    owners = conn.execute("SELECT count(*) FROM document_owners WHERE space = ?", (BELOW,))
    assert owners.get == 1


def test_versions_are_read_from_and_to_where_they_were_asked_for(work: BusyWorkspace) -> None:
    for number in range(2, 6):
        write(work, USER, f"{number}")
        write(work, USER, f"other {number}", file="other.md")
    conn = work.conn
    assert documents.texts_of(conn, present(documents.find(conn, SPACE, FILE)), 2, 4) == {2: "2", 3: "3", 4: "4"}
    page = documents.history(conn, SPACE, FILE, RowPage(after=4, limit=2))
    assert [row.version for row in page.versions] == [3, 2]
    for number in (0, 6):
        with pytest.raises(Refused):
            documents.read(conn, SPACE, FILE, number)
    assert [documents.read(conn, SPACE, FILE, number).content for number in (None, 5, 2)] == ["5", "5", "2"]


NEW, OLD, THEIRS = b"new", b"old", b"theirs"


@pytest.mark.parametrize(
    ("newest", "left", "found", "step"),
    [
        (NEW, Mirrored(2, NEW), NEW, "same"),
        (None, Mirrored(2, NEW), None, "same"),
        (NEW, Mirrored(1, OLD), OLD, "write"),
        (NEW, None, None, "write"),
        (None, Mirrored(1, OLD), OLD, "remove"),
        (NEW, Mirrored(2, NEW), None, "delete"),
        (NEW, Mirrored(1, OLD), None, "write"),
        (NEW, Mirrored(2, NEW), THEIRS, "take"),
        (NEW, Mirrored(1, OLD), THEIRS, "take"),
        (NEW, None, THEIRS, "take"),
        (NEW, Mirrored(1, OLD, THEIRS), THEIRS, "leave"),
        (NEW, Mirrored(1, OLD, b"before"), THEIRS, "take"),
        (None, None, THEIRS, "take"),
    ],
)
def test_what_is_done_with_the_file_of_version_2(
    newest: bytes | None, left: Mirrored | None, found: bytes | None, step: str
) -> None:
    assert mirror_step(2, newest, left, found) == step


def test_files_are_left_by_space_and_folder(work: BusyWorkspace) -> None:
    conn = work.conn
    here, there = DocumentFolder(SPACE, "here"), DocumentFolder(BELOW, "here")
    work.commit(mirrors.leave_files, here, {"a": Mirrored(1, OLD), "b": Mirrored(1, OLD)})
    work.commit(mirrors.leave_files, there, {"a": Mirrored(2, NEW)})
    assert set(mirrors.left_files(conn, here)) == {"a", "b"}
    assert mirrors.left_files(conn, DocumentFolder(SPACE, "elsewhere")) == {}
    work.commit(mirrors.leave_files, here, {"a": None})
    assert (set(mirrors.left_files(conn, here)), set(mirrors.left_files(conn, there))) == ({"b"}, {"a"})
    assert set(mirrors.document_folders(conn)) >= {here, there}


def test_an_election_of_owners_is_over_with_its_run(work: BusyWorkspace) -> None:
    conn = work.conn
    conn.execute("UPDATE workflows SET held_kickoff = ? WHERE space = ?", (b'{"election": "document-owner"}', SPACE))
    assert documents.settings(conn, SPACE).election == "document-owner"
    assert documents.settings(conn, BELOW).election is None
    work.commit(append, Draft(kind="said", space=SPACE, sender=USER, text="x"))
    work.commit(stop_workflow, SPACE, "stopped", 0)
    assert documents.settings(conn, SPACE).election is None
