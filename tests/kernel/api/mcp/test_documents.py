"""Documents by tools and by REST: versions, merges, refusals with their texts, suggestions, history and blame."""

from typing import Any

import pytest

from kernel.store import documents
from kernel.store.transaction import Transaction
from kernel.store.transitions.voting import expire_proposals
from tests.builders.api import REVIEW, ServedKernel
from tests.kernel.api.mcp.rpc import CALL_KEY, call, content

PATH = "/spaces/review:main/documents"
OWNED = REVIEW + "workspace: { document: index.md, documents: [plans/todo.md], document_owner: %s }\n"


async def done(team: ServedKernel, tool: str, token: str = "worker-token", /, **arguments: Any) -> Any:
    """The content of a call that is not refused."""
    result = await call(team, f"team_doc_{tool}", arguments, token)
    assert result["isError"] is False, result
    return result["structuredContent"]


async def refused(team: ServedKernel, tool: str, token: str = "worker-token", /, **arguments: Any) -> Any:
    """The content of a call that is refused."""
    result = await call(team, f"team_doc_{tool}", arguments, token)
    assert result["isError"] is True, result
    return result["structuredContent"]


@pytest.mark.promise("P37")
async def test_a_write_from_an_older_version_is_merged_or_refused_with_the_three_texts(team: ServedKernel) -> None:
    base = "one\ntwo\nthree\n"
    await done(team, "write", content=base)
    await done(team, "write", content="1\ntwo\nthree\n", if_version=1)
    merged = await done(team, "write", "bobs-token", content="one\ntwo\n3\n", if_version=1)
    assert (merged["version"], merged["merged"]) == (3, True)
    assert (await done(team, "read"))["content"] == "1\ntwo\n3\n"
    clash = await refused(team, "write", content="uno\ntwo\nthree\n", if_version=1)
    assert clash["code"] == "version_conflict"
    texts = [clash["conflict"][side] for side in ("base", "current", "yours")]
    assert texts == [base, "1\ntwo\n3\n", "uno\ntwo\nthree\n"]
    history = (await done(team, "history", file="notes.md"))["versions"]
    assert [(row["version"], row["author"], row["action"]) for row in history] == [
        (3, "bob", "merge"), (2, "alice", "write"), (1, "alice", "create"),
    ]  # fmt: skip
    assert all(row["instruction"] in ("i1", "i2") and row["run"] == "r1" for row in history)
    blamed = (await team.get("/spaces/review:main/document-blame/notes.md"))["lines"]
    assert [(row["text"], row["version"], row["author"]) for row in blamed] == [
        ("1", 2, "alice"), ("two", 1, "alice"), ("3", 3, "bob"),
    ]  # fmt: skip


async def test_what_is_overwritten_without_a_version_is_told(team: ServedKernel) -> None:
    await done(team, "write", content="mine\n")
    over = await done(team, "write", "bobs-token", content="his\n")
    assert (over["version"], "version 1 by alice" in over["note"]) == (2, True)
    assert (await done(team, "write", "bobs-token", content="his\n"))["unchanged"] is True
    assert (await done(team, "read", version=1))["content"] == "mine\n"


async def test_a_deleted_document_keeps_its_versions_and_counts_on(team: ServedKernel) -> None:
    """Only whoever has read it deletes it."""
    await done(team, "create", file="a.md", content="x\n")
    assert (await refused(team, "delete", file="a.md", if_version=0))["code"] == "version_conflict"
    assert (await done(team, "delete", file="a.md", if_version=1))["version"] == 2
    assert (await refused(team, "read", file="a.md"))["code"] == "not_found"
    assert (await done(team, "read", file="a.md", version=1))["content"] == "x\n"
    assert (await done(team, "create", file="a.md", content="y\n"))["version"] == 3
    blamed = (await team.get("/spaces/review:main/document-blame/a.md"))["lines"]
    assert [(row["text"], row["version"]) for row in blamed] == [("y", 3)]


@pytest.mark.promise("P4")
async def test_a_call_that_is_made_again_makes_no_second_version(team: ServedKernel) -> None:
    for _ in range(2):
        answer = await call(team, "team_doc_append", {"content": "line\n"}, **{CALL_KEY: "call-1"})
        assert answer["structuredContent"]["version"] == 1
    assert (await done(team, "read"))["content"] == "line\n"


@pytest.mark.promise("P38")
async def test_a_suggestion_is_accepted_by_a_colleague_and_its_lines_are_its_authors(team: ServedKernel) -> None:
    await done(team, "write", content="one\ntwo\nthree\n")
    made = await done(team, "suggest", "bobs-token", suggestion="one\ntwo\n3\n", reason="digits")
    assert made["id"] == "s1"
    await done(team, "write", content="1\ntwo\nthree\n", if_version=1)
    assert (await refused(team, "accept", "bobs-token", suggestion="s1"))["code"] == "forbidden"
    assert (await done(team, "read", suggestion="s1"))["suggested"]["diff"].endswith("-three\n+3\n")
    assert (await done(team, "accept", suggestion="s1"))["accepted_version"] == 3
    assert (await done(team, "read"))["content"] == "1\ntwo\n3\n"
    row = (await done(team, "history", file="notes.md"))["versions"][0]
    assert (row["author"], row["action"], row["reason"], row["instruction"]) == ("bob", "accept", "digits", "i2")
    assert (await refused(team, "accept", suggestion="s1"))["code"] == "conflict"


@pytest.mark.promise("P38")
async def test_a_rejected_suggestion_is_in_its_authors_inbox(team: ServedKernel) -> None:
    await done(team, "write", content="one\n")
    await done(team, "suggest", "bobs-token", suggestion="1\n")
    await done(team, "suggest", "bobs-token", suggestion="eins\n")
    await done(team, "accept", suggestion="s1")
    clash = await refused(team, "accept", suggestion="s2")
    assert (clash["code"], clash["conflict"]["current"]) == ("version_conflict", "1\n")
    assert [row["id"] for row in (await done(team, "list"))["suggestions"]] == ["s2"]
    await done(team, "reject", suggestion="s2", reason="English only")
    inbox = (await content(team, "my_inbox", {}, "bobs-token"))["deliveries"]
    assert inbox[-1]["text"] == "[DOC_SUGGEST] s2 for notes.md rejected: English only"


async def test_a_person_changes_only_the_version_that_was_read(team: ServedKernel) -> None:
    place, read = f"{PATH}/plans/a.md", team.headers(If_Match='"1"')
    made = await team.ask("PUT", place, {"content": "a"}, headers=team.headers(If_None_Match="*"))
    changed = await team.ask("PUT", place, {"content": "b"}, headers=read)
    assert (made.json["version"], changed.json["version"]) == (1, 2)
    for method, body in (("PUT", {"content": "c"}), ("DELETE", None)):
        assert (await team.ask(method, place, body, headers=read)).code == "version_conflict"


@pytest.mark.promise("P15")
@pytest.mark.parametrize("path", ["..%2F..%2Fetc", "%2e%2e/x", "a/%00", "//etc/passwd", "a/../../b", ".git/config"])
async def test_no_path_leads_out_of_the_workspace(team: ServedKernel, path: str) -> None:
    assert (await team.ask("PUT", f"{PATH}/{path}", {"content": "x"})).status in (400, 404)


async def test_a_personal_space_has_no_documents(team: ServedKernel) -> None:
    await team.end("i1")
    await team.attempt("alice", token="at-home")
    assert (await refused(team, "read", "at-home"))["code"] == "not_a_participant"


async def test_what_is_cleared_is_gone_with_its_versions(team: ServedKernel) -> None:
    await done(team, "write", content="secret words\n")
    await done(team, "suggest", "bobs-token", suggestion="more secret words\n")
    await team.end("i1")
    await team.end("i2")
    assert (await team.ask("POST", "/spaces/review:main/clear")).status == 200
    listed = await team.get(PATH)
    assert [(row["file"], row["version"]) for row in listed["documents"]] == [("notes.md", 0)]
    assert (await team.get("/spaces/review:main/suggestions"))["total"] == 0
    space = team.reader.now(lambda conn: documents.files(conn, "review:main#1"))
    assert space == ()


async def start_owned(team: ServedKernel, owner: str, more: str = "") -> None:
    """The workflow team runs, whose file says who owns the documents; alice and bob are at work in it."""
    root = team.root
    (root / ".workflows/team.yaml").write_text(OWNED % owner + more)
    answer = await team.ask("POST", "/workflows", {"workflow": "team"})
    assert answer.status == 201, answer.body


@pytest.mark.promise("P38")
async def test_who_does_not_own_the_documents_suggests_and_the_owner_is_woken(team: ServedKernel) -> None:
    await start_owned(team, "bob")
    await team.end("i1")
    await team.attempt("alice@team", token="alices")
    assert (await done(team, "read", "alices"))["file"] == "index.md"
    wrong = await refused(team, "write", "alices", content="x", file="plans/todo.md")
    assert (wrong["code"], wrong["hint"]) == ("forbidden", "suggest the change with team_doc_suggest")
    await done(team, "suggest", "alices", suggestion="- begin\n", file="plans/todo.md", reason="a start")
    queue = (await team.get("/agents/bob@team:main/queue"))["instructions"]
    assert [(row["status"], row["lane"]) for row in queue] == [("queued", "immediate")]
    await team.attempt("bob@team", token="bobs")
    assert (await done(team, "accept", "bobs", suggestion="s1"))["accepted_version"] == 1
    blamed = (await team.get("/spaces/team:main/document-blame/plans/todo.md"))["lines"]
    assert [row["author"] for row in blamed] == ["alice"]
    by_hand = await team.ask("POST", "/spaces/team:main/documents/plans/todo.md", {"content": "- by hand"})
    assert (by_hand.json["version"], by_hand.json["owner"]) == (2, "bob")


@pytest.mark.promise("P38")
async def test_the_kickoff_waits_until_the_owner_is_elected(team: ServedKernel) -> None:
    await team.end("i1")
    await start_owned(team, "elect", 'kickoff: "@alice begin"\n')
    asked = [(await team.get(f"/agents/{name}/queue"))["instructions"] for name in ("alice", "bob@team:main")]
    assert [len(rows) for rows in asked] == [1, 1]
    await team.attempt("alice@team", token="alices")
    await team.attempt("bob@team", token="bobs")
    waits = await refused(team, "write", "alices", content="x")
    assert (waits["code"], "document-owner" in waits["hint"]) == ("conflict", True)
    for token in ("alices", "bobs"):
        vote = {"proposal": "document-owner", "choice": "bob"}
        assert (await call(team, "team_vote", vote, token))["isError"] is False
    said = (await team.get("/spaces/team:main/channel"))["messages"]
    assert [message["kind"] for message in said[-3:]] == ["resolved", "system", "kickoff"]
    assert (await refused(team, "write", "alices", content="x"))["code"] == "forbidden"
    assert (await done(team, "write", "bobs", content="x"))["owner"] == "bob"


@pytest.mark.promise("P38")
async def test_a_deadline_ends_an_election_that_nobody_votes_in(team: ServedKernel) -> None:
    await team.end("i1")
    await start_owned(team, "elect", 'kickoff: "@alice begin"\n')

    def later(tx: Transaction) -> None:
        tx.now_ms += 60_000
        expire_proposals(tx)

    await team.writer.commit(later)
    said = (await team.get("/spaces/team:main/channel"))["messages"]
    assert [message["kind"] for message in said[-2:]] == ["resolved", "kickoff"]
    listed = await team.get("/spaces/team:main/documents")
    assert (listed["electing"], {row["owner"] for row in listed["documents"]}) == (None, {None})


@pytest.mark.promise("P38")
async def test_a_binding_vote_makes_an_owner_of_some_documents_or_accepts_a_suggestion(team: ServedKernel) -> None:
    election = {
        "type": "election",
        "title": "Who keeps findings?",
        "binding": True,
        "binds": {"documents": ["findings"]},
    }
    (vote,) = [(await content(team, "team_proposal_create", election))["proposal"]["id"]]
    for token in ("worker-token", "bobs-token"):
        await call(team, "team_vote", {"proposal": vote, "choice": "bob"}, token)
    assert (await refused(team, "write", file="findings/a.md", content="x"))["code"] == "forbidden"
    assert (await done(team, "write", content="x"))["owner"] is None
    await done(team, "suggest", suggestion="y", file="findings/a.md")
    approval = {"type": "approval", "title": "Take s1?", "binding": True, "binds": {"suggestion": "s1"}}
    vote = (await content(team, "team_proposal_create", approval))["proposal"]["id"]
    for token in ("worker-token", "bobs-token"):
        await call(team, "team_vote", {"proposal": vote, "choice": "yes"}, token)
    assert (await done(team, "read", file="findings/a.md"))["author"] == "alice"
    for terms in ({"type": "decision", "binding": True}, {"type": "election", "binds": {"documents": ["x"]}}):
        asked = {"title": "?", "options": [{"id": "a"}, {"id": "b"}], **terms}
        assert (await content(team, "team_proposal_create", asked))["code"] == "bad_request"
