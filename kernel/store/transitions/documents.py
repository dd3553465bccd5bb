"""Documents: written, appended to and deleted; suggestions made and decided. Each change is one commit with its
message.

Without an author, the user acts. An agent's call is recorded, so that a repeated call returns the same answer.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kernel.policy.documents import (
    DocumentChange,
    DocumentState,
    NextVersion,
    check_file,
    check_judge,
    check_writer,
    next_version,
)
from kernel.policy.text_diff import Hunk, growth, lines_of, undoing, unified, visible
from kernel.rule.draft import Author, Draft
from kernel.store import documents
from kernel.store.decisions import DOCUMENT
from kernel.store.documents import StoredDocument
from kernel.store.transaction import Transaction
from kernel.store.transitions.append import Speaker, speaker
from protocol.documents import (
    MOST_FILES,
    MOST_SUGGESTIONS,
    Action,
    DocumentChanged,
    SuggestionInfo,
    SuggestionMade,
    SuggestionState,
)
from protocol.errors import Refused
from protocol.message import SYSTEM
from protocol.names import message_id, number_of, place_of
from protocol.text import one_line

DIFF_LINES: Final = 60
DIFF_CHARACTERS: Final = 4000
"""Limit of a suggestion in the channel; the rest can be read on demand."""


def change(
    tx: Transaction,
    space: str,
    file: str | None,
    asked: DocumentChange,
    reason: str = "",
    *,
    author: Author | None = None,
) -> DocumentChanged:
    """Apply a change to ``file`` (None: the entry document), if its owner permits it.

    Raises Refused: stale_attempt, forbidden, bad_request, not_found, already_exists, too_large, conflict and
    version_conflict (kernel.policy.documents).
    """
    who = speaker(tx, space, author, ("document", file, *asked, reason))
    if (before := who.known(DocumentChanged)) is not None:
        return before
    here = documents.settings(tx.conn, space)
    name = check_file(file or here.entry)
    owner = here.owner(name)
    check_writer(name, who.name, owner, person=author is None, electing=here.election)
    document = documents.find(tx.conn, space, name)
    following = _following(tx, space, name, document, asked)
    if following is None:
        assert document is not None, "a merge has a document"
        return DocumentChanged(file=name, version=document.version, owner=owner, unchanged=True)
    note = ""
    if following.action == "merge":
        note = f"changes since version {asked.since} were merged into it: read it before you continue"
    elif following.action == "write" and asked.since is None and document is not None:
        last = documents.version_row(tx.conn, document.id, document.version)
        if last.author != who.name:
            note = f"it replaced version {last.version} by {last.author}: pass if_version to merge changes"
    text = f"[DOC:{name}] {_VERBS[following.action]}"
    number, seq = _put(tx, space, name, document, following, (who.name, who.number), who, text, reason)
    merged = following.action == "merge"
    changed = DocumentChanged(
        file=name, version=number, owner=owner, merged=merged, note=note, message_id=message_id(seq)
    )
    return who.keep(tx, changed)


_encode: Final = msgspec.json.Encoder().encode
_VERBS: Final = {
    "create": "created",
    "write": "written",
    "append": "appended to",
    "merge": "written and merged with newer changes",
    "accept": "changed as suggested",
    "delete": "deleted",
}


def _following(
    tx: Transaction, space: str, file: str, document: StoredDocument | None, asked: DocumentChange
) -> NextVersion | None:
    def text_of(version: int) -> str:
        return "" if document is None else "\n".join(documents.lines_at(tx.conn, document, version))

    now = DocumentState(0, None) if document is None else DocumentState(document.version, document.text)
    following = next_version(file, asked, now, text_of)
    if following is not None and now.text is None:
        there = documents.files(tx.conn, space)
        check_file(file, there)
        if len(there) >= MOST_FILES:
            text = f"{place_of(space)} has the maximum of {MOST_FILES} documents"
            raise Refused("conflict", text, "use an existing document or delete one")
    return following


class NewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """New version of a document and its author. ``content`` None deletes the document."""

    action: Action
    message: int
    author: str
    instruction: int | None
    reason: str
    content: str | None
    undo: Sequence[Hunk]
    """Edits that restore the previous version."""
    growth: tuple[int, int]
    """Numbers of added and removed lines."""


PUT: Final = """
INSERT INTO documents (space, file, version, content, deleted) VALUES (:space, :file, 1, :content, :deleted)
ON CONFLICT (space, file) DO UPDATE SET version = version + 1, content = excluded.content, deleted = excluded.deleted
RETURNING id, version
"""
INSERT_VERSION: Final = """
INSERT INTO document_versions
  (document, version, action, message, author, instruction, run, at_ms, reason, added, removed, undo)
VALUES (:document, :version, :action, :message, :author, :instruction,
  (SELECT m.run FROM messages AS m WHERE m.seq = :message), :now, :reason, :added, :removed, :undo)
"""


def add_version(tx: Transaction, space: str, file: str, new: NewVersion) -> int:
    """Store the next version of ``file`` and return its number."""
    values = {"space": space, "file": file, "content": new.content or "", "deleted": new.content is None}
    row = tx.conn.execute(PUT, values).fetchone()
    assert row is not None, "an upsert returns its row"
    added, removed = new.growth
    version = {
        **msgspec.structs.asdict(new),
        "document": row[0],
        "version": row[1],
        "now": tx.now_ms,
        "added": added,
        "removed": removed,
        "undo": _encode(new.undo),
    }
    tx.conn.execute(INSERT_VERSION, version)
    return int(row[1])


def _put(
    tx: Transaction,
    space: str,
    file: str,
    document: StoredDocument | None,
    following: NextVersion,
    made_by: tuple[str, int | None],
    by: Speaker,
    text: str,
    reason: str,
) -> tuple[int, int]:
    old = [] if document is None else document.lines
    new = [] if following.text is None else lines_of(following.text)
    undo = undoing(old, new)
    added, removed = grown = growth(undo, new)
    number = 1 if document is None else document.version + 1
    because = f": {one_line(reason)}" if reason.strip() else ""
    said = f"{text} (version {number}, +{added} -{removed} lines){because}"
    draft = Draft(kind="document", space=space, sender=by.name, text=said)
    seq = by.say(tx, draft, f"{said}{following.text or ''}").first_seq
    written = add_version(
        tx,
        space,
        file,
        NewVersion(
            action=following.action,
            message=seq,
            author=made_by[0],
            instruction=made_by[1],
            reason=reason,
            content=following.text,
            undo=undo,
            growth=grown,
        ),
    )
    assert written == number, "there is one writer"
    return number, seq


def suggest(
    tx: Transaction,
    space: str,
    file: str | None,
    content: str,
    reason: str = "",
    *,
    since: int | None = None,
    deletes_most: bool = False,
    author: Author | None = None,
) -> SuggestionMade:
    """Suggest ``content`` as the next text of ``file`` and wake its owner.

    ``since``: version that the text is based on (None: the newest). Raises Refused as ``change``
    does, but not for documents of other owners.
    """
    who = speaker(tx, space, author, ("suggest", file, content, reason, since))
    if (before := who.known(SuggestionMade)) is not None:
        return before
    here = documents.settings(tx.conn, space)
    name = check_file(file or here.entry)
    if DOCUMENT.count(tx.conn, space) >= MOST_SUGGESTIONS:
        text = f"{place_of(space)} has the maximum of {MOST_SUGGESTIONS} open suggestions"
        raise Refused("conflict", text, "decide some of them first: team_doc_accept, team_doc_reject")
    document = documents.find(tx.conn, space, name)
    version = 0 if document is None else document.version
    if since is not None and not 0 <= since <= version:
        raise Refused("bad_request", f"{name} has no version {since}", f"its newest is {version}")
    base = version if since is None else since
    old = [] if document is None else documents.lines_at(tx.conn, document, base)
    # Merge as if it were accepted now: the text must not be too long, and must change something.
    standing = DocumentState(base, "\n".join(old) if old else None)
    if next_version(name, DocumentChange("write", content, base), standing, lambda _: "") is None:
        raise Refused("bad_request", f"suggestion equals the current text of {name}", "suggest a changed text")
    added, removed = growth(undoing(old, new := lines_of(content)), new)
    if removed > added and 2 * removed > len(visible(old)) and not deletes_most:
        text = f"suggestion deletes {removed} of {len(visible(old))} lines of {name}"
        raise Refused("bad_request", text, "suggest the complete text, or set deletes_most to true")
    identifier = DOCUMENT.propose(
        tx, space, space, name, content,
        reason=reason, author=who.name, instruction=who.number, detail={"since": base},
    )  # fmt: skip
    owner = here.owner(name)
    told = (owner,) if owner is not None and owner != who.name else ()
    diff = unified((f"{name} {base}", f"{name} {identifier}"), visible(old), visible(lines_of(content)))
    because = f": {one_line(reason)}" if reason.strip() else ""
    text = f"[DOC_SUGGEST] {identifier} for {name}, made from version {base}{because}\n{_shown(diff, identifier)}"
    draft = Draft(kind="document", space=space, sender=who.name, text=text, to=told)
    seq = who.say(tx, draft, f"{text}{content}").first_seq
    whom = f"its owner {owner} decides" if owner else "it has no owner: a colleague or a vote decides"
    made = SuggestionMade(id=identifier, file=name, state="open", note=whom, message_id=message_id(seq))
    return who.keep(tx, made)


def _shown(diff: str, identifier: str) -> str:
    lines = diff.splitlines()
    shown = "\n".join(lines[:DIFF_LINES])[:DIFF_CHARACTERS]
    read = f'team_doc_read with {{"suggestion": "{identifier}"}}'
    rest = "" if shown == diff.rstrip("\n") else f"\n(of {len(lines)} lines; full text: {read})"
    judge = f'team_doc_accept or team_doc_reject with {{"suggestion": "{identifier}"}}'
    return f"{shown}{rest}\nDecide: {judge}."


def decide(
    tx: Transaction, space: str, name: str, reason: str = "", *, accepts: bool, author: Author | None = None
) -> SuggestionMade:
    """Accept the suggestion ``name`` as a new version, merged if the document has changed since, or reject it.

    Raises Refused: not_found, forbidden, conflict (already decided), version_conflict: then it stays open.
    """
    who = speaker(tx, space, author, ("accept" if accepts else "reject", name, reason))
    if (before := who.known(SuggestionMade)) is not None:
        return before
    here = documents.settings(tx.conn, space)
    row = DOCUMENT.find(tx.conn, space, name)
    DOCUMENT.is_open(row)
    check_judge(row.file, who.name, row.author, here.owner(row.file), person=author is None, accepts=accepts)
    return who.keep(tx, _decide(tx, space, row, who, reason, accepts=accepts))


def decide_by_vote(tx: Transaction, space: str, name: str, winner: str | None, proposal: str) -> None:
    """Decide a suggestion as a binding vote did. On a conflict, announce that it stays open."""
    system = Speaker(SYSTEM)
    row = DOCUMENT.find(tx.conn, space, name)
    if row.state != "open" or winner is None:
        return
    try:
        _decide(tx, space, row, system, f"by the vote {proposal}", accepts=winner == "yes")
    except Refused as refused:
        text = f"[DOC_SUGGEST] {row.id} for {row.file} was approved by vote but stays open: {refused.text}"
        _say(tx, space, system, text, row)


def _decide(
    tx: Transaction, space: str, row: SuggestionInfo, by: Speaker, reason: str, *, accepts: bool
) -> SuggestionMade:
    document = documents.find(tx.conn, space, row.file)
    state: SuggestionState = "accepted" if accepts else "rejected"
    change = DocumentChange("write", row.content, row.since)
    if not accepts:
        because = f": {one_line(reason)}" if reason.strip() else ""
        version, said = None, _say(tx, space, by, f"[DOC_SUGGEST] {row.id} for {row.file} rejected{because}", row)
    elif (following := _following(tx, space, row.file, document, change)) is None:
        assert document is not None, "a suggestion has a document"
        version = document.version
        said = _say(tx, space, by, f"[DOC_SUGGEST] {row.id} is in {row.file} already", row)
    else:
        accepted = NextVersion("accept", following.text)
        text = f"[DOC:{row.file}] {row.id} of {row.author} accepted by {by.name}"
        made_by = (row.author, number_of(row.instruction or "", "i"))
        version, said = _put(tx, space, row.file, document, accepted, made_by, by, text, row.reason or reason)
    DOCUMENT.decide(tx, row.id, state, by.name, reason, version)
    return SuggestionMade(id=row.id, file=row.file, state=state, accepted_version=version, message_id=message_id(said))


def _say(tx: Transaction, space: str, by: Speaker, text: str, row: SuggestionInfo) -> int:
    draft = Draft(kind="document", space=space, sender=by.name, text=text, mentions=(row.author,))
    return by.say(tx, draft).first_seq
