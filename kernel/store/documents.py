"""Documents of workspaces: files, versions, suggestions and owners; rows and queries.

The newest text is stored completely, and each version with the edits that undo it. Older texts and
each line's origin are computed from these edits: a version needs only the space of its edits.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import apsw
import msgspec

from kernel.policy.documents import EVERYTHING, DocumentOwner, owner_of
from kernel.policy.text_diff import Hunk, applied, blame, lines_of, unified, visible
from kernel.store import rows
from kernel.store.decisions import DOCUMENT
from kernel.store.rows import RowPage, Sql
from kernel.store.transaction import Transaction, rfc3339
from protocol.documents import (
    ENTRY,
    BlameLine,
    DocumentBlame,
    DocumentDiff,
    DocumentHistory,
    DocumentInfo,
    DocumentList,
    DocumentRow,
    SuggestionInfo,
    SuggestionList,
    SuggestionRow,
    VersionRow,
)
from protocol.errors import Refused
from protocol.names import base_space, instruction_id, is_below, message_id, place_of, run_id


class StoredDocument(msgspec.Struct, frozen=True):
    """Row of the table of documents."""

    id: int
    file: str
    version: int
    content: str
    deleted: int

    @property
    def text(self) -> str | None:
        """Return the text, or None if the document is deleted."""
        return None if self.deleted else self.content

    @property
    def lines(self) -> list[str]:
        """Return the lines of the text; none if the document is deleted."""
        return [] if self.deleted else lines_of(self.content)


class _DocumentNames(msgspec.Struct, frozen=True):
    document: str | None = None
    documents: tuple[str, ...] = ()


class _WithDocuments(msgspec.Struct, frozen=True):
    workspace: _DocumentNames | bool = _DocumentNames()


class Settings(msgspec.Struct, frozen=True):
    """Document settings of the last run of a space: the entry document, the named documents and the owners."""

    entry: str
    named: tuple[str, ...]
    owners: tuple[DocumentOwner, ...]
    election: str | None
    """Open proposal that elects an owner."""

    def owner(self, file: str) -> str | None:
        """Return the owner of ``file``."""
        return owner_of(file, self.owners)


_shaped: Final = msgspec.json.Decoder(_WithDocuments)
_hunks: Final = msgspec.json.Decoder(list[Hunk])

RUN: Final = """
SELECT workspace <> 'none', definition,
  CASE state WHEN 'running' THEN json_extract(CAST(held_kickoff AS TEXT), '$.election') END
FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1
"""
OWNERS: Final = "SELECT pattern, owner AS name FROM document_owners WHERE space = ? ORDER BY id"


def settings(conn: apsw.Connection, space: str) -> Settings:
    """Return the settings of ``space``. Raises Refused (not_a_participant) if it has no documents."""
    row = cast("tuple[int, bytes, str | None] | None", conn.execute(RUN, (base_space(space),)).fetchone())
    if row is None or not row[0]:
        text = f"{place_of(space)} has no documents: it is not a shared workspace"
        raise Refused("not_a_participant", text, "only agents of a workflow with a workspace share documents")
    workspace = _shaped.decode(row[1]).workspace
    own = workspace if isinstance(workspace, _DocumentNames) else _DocumentNames()
    entry = own.document or ENTRY
    owners = tuple(rows.each(conn.execute(OWNERS, (space,)), OWNERS, DocumentOwner))
    return Settings(entry, (entry, *own.documents), owners, None if is_below(space) else row[2])


find = Sql("SELECT id, file, version, content, deleted FROM documents WHERE space = ? AND file = ?").row(StoredDocument)
"""Return the document ``file``, deleted or not; None if it never existed."""


files = Sql("SELECT file FROM documents WHERE space = ? AND deleted = 0 ORDER BY file").column(str)
"""Return the names of the existing documents."""


NEWEST_FIRST: Final = """
SELECT version, undo FROM document_versions WHERE document = ? AND version > ? ORDER BY version DESC
"""


BETWEEN: Final = """
SELECT version, undo FROM document_versions WHERE document = ? AND version > ? AND version <= ? ORDER BY version DESC
"""


def _undo(conn: apsw.Connection, document: int, after: int) -> Iterator[tuple[int, list[Hunk]]]:
    for version, undo in conn.execute(NEWEST_FIRST, (document, after)):
        yield cast("int", version), _hunks.decode(cast("bytes", undo))


def lines_at(conn: apsw.Connection, document: StoredDocument, version: int) -> list[str]:
    """Return the lines of ``document`` in an existing version; none if that is a deletion."""
    lines = document.lines
    for _, hunks in _undo(conn, document.id, version):
        lines = applied(lines, hunks)
    return lines


def texts_of(conn: apsw.Connection, document: StoredDocument, first: int, last: int) -> dict[int, str]:
    """Return the texts of versions ``first`` to ``last`` by number; "" for a deletion."""
    lines = lines_at(conn, document, last)
    texts = {last: "\n".join(lines)}
    for version, undo in conn.execute(BETWEEN, (document.id, first, last)):
        lines = applied(lines, _hunks.decode(cast("bytes", undo)))
        texts[cast("int", version) - 1] = "\n".join(lines)
    return texts


VERSION: Final = """
SELECT version, action, author, instruction, run, at_ms AS at, reason, added, removed, message AS message_id
FROM document_versions WHERE document = ? AND version = ?
"""
VERSIONS: Final = """
SELECT version, action, author, instruction, run, at_ms AS at, reason, added, removed, message AS message_id
FROM document_versions WHERE document = :document AND version < :before ORDER BY version DESC LIMIT :limit
"""
MADE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "instruction": lambda number: None if number is None else instruction_id(number),
    "run": lambda number: None if number is None else run_id(number),
    "at": rfc3339,
    "reason": lambda reason: reason or None,
    "message_id": message_id,
}
"""Columns of a version's author and time."""


def version_row(conn: apsw.Connection, document: int, version: int) -> VersionRow:
    """Return the version ``version`` of a document; it must exist."""
    found = rows.one(conn.execute(VERSION, (document, version)), VERSION, VersionRow, **MADE)
    assert found is not None, (document, version)
    return found


def _known(conn: apsw.Connection, space: str, file: str) -> StoredDocument:
    document = find(conn, space, file)
    if document is None:
        raise missing(conn, space, file)
    return document


def missing(conn: apsw.Connection, space: str, file: str) -> Refused:
    """Return the error for a missing document; its hint names a similar or existing documents."""
    there = files(conn, space)
    close = difflib.get_close_matches(file, there, n=1)
    known = "this workspace has no documents"
    if there:
        known = f"existing documents: {', '.join(there[:8])}{' and more' if len(there) > 8 else ''}"
    hint = f"did you mean {close[0]}?" if close else known
    return Refused("not_found", f"document {file[:100]!r} not found in {place_of(space)}", hint)


def _checked(document: StoredDocument, version: int) -> int:
    if not 1 <= version <= document.version:
        text = f"{document.file} has no version {version}"
        raise Refused("not_found", text, f"its versions are 1 to {document.version}")
    return version


def read(conn: apsw.Connection, space: str, file: str | None, version: int | None = None) -> DocumentInfo:
    """Return the document ``file`` (None: the entry document), or an older ``version`` of it.

    A document that the workflow names has version 0 and no text until it is written. Raises Refused
    (not_found, not_a_participant).
    """
    here = settings(conn, space)
    file = file or here.entry
    document = find(conn, space, file)
    shown = _blank(file, here)
    if version is None and (document is None or document.deleted):
        if file not in here.named:
            raise missing(conn, space, file)
        return DocumentInfo(
            file=file,
            version=0 if document is None else document.version,
            owner=shown.owner,
            size=0,
            author=None,
            at=None,
            entry=shown.entry,
            space=place_of(space),
            content="",
        )
    document = document or _known(conn, space, file)
    number = document.version if version is None else _checked(document, version)
    row = version_row(conn, document.id, number)
    content = document.content if number == document.version else "\n".join(lines_at(conn, document, number))
    return DocumentInfo(
        file=file,
        version=number,
        owner=shown.owner,
        size=len(content.encode()),
        author=row.author,
        at=row.at,
        entry=shown.entry,
        space=place_of(space),
        content=content,
    )


def _blank(file: str, here: Settings) -> DocumentRow:
    owner = here.owner(file)
    return DocumentRow(file=file, version=0, owner=owner, size=0, author=None, at=None, entry=file == here.entry)


LIST: Final = """
SELECT d.file, d.version, d.content, v.author, v.at_ms
FROM documents AS d CROSS JOIN document_versions AS v ON v.document = d.id AND v.version = d.version
WHERE d.space = ? AND d.deleted = 0
"""


def listing(conn: apsw.Connection, space: str) -> DocumentList:
    """Return all documents by name, including unwritten documents that the workflow names."""
    here = settings(conn, space)
    shown = {file: _blank(file, here) for file in here.named}
    for file, version, content, author, at_ms in conn.execute(LIST, (space,)):
        name = str(file)
        size = len(str(content).encode())
        shown[name] = msgspec.structs.replace(
            _blank(name, here), version=version, size=size, author=author, at=rfc3339(cast("int", at_ms))
        )
    documents = tuple(row for _, row in sorted(shown.items()))
    return DocumentList(
        space=place_of(space), entry=here.entry, electing=here.election, documents=documents, total=len(documents)
    )


def history(conn: apsw.Connection, space: str, file: str, page: RowPage) -> DocumentHistory:
    """Return the versions of ``file``, the newest first. Raises Refused (not_found)."""
    document = _known(conn, space, file)
    before = document.version + 1 if page.after is None else page.after
    values = {"document": document.id, "before": before, "limit": page.limit + 1}
    found = rows.all_(conn.execute(VERSIONS, values), VERSIONS, VersionRow, **MADE)
    shown, following = page.cut(found, lambda row: f"v{row.version}")
    return DocumentHistory(space=place_of(space), file=file, versions=shown, total=document.version, next=following)


def blame_of(conn: apsw.Connection, space: str, file: str) -> DocumentBlame:
    """Return the author of each line of ``file``. Reads all versions: call in a thread. Raises Refused (not_found)."""
    document = _known(conn, space, file)
    lines = document.lines
    brought = blame(len(lines), _undo(conn, document.id, 0))
    lines = list(visible(lines))
    made = {version: version_row(conn, document.id, version) for version in set(brought[: len(lines)])}
    shown = tuple(
        BlameLine(
            line=number,
            text=text,
            version=row.version,
            author=row.author,
            instruction=row.instruction,
            run=row.run,
            at=row.at,
        )
        for number, (text, row) in enumerate(zip(lines, (made[one] for one in brought), strict=False), 1)
    )
    return DocumentBlame(space=place_of(space), file=file, version=document.version, lines=shown)


def diff(conn: apsw.Connection, space: str, file: str, since: int | None, until: int | None) -> DocumentDiff:
    """Return the changes from version ``since`` (0: empty; None: the previous) to ``until`` (None: the newest).

    Call in a thread. Raises Refused (not_found).
    """
    document = _known(conn, space, file)
    last = _checked(document, document.version if until is None else until)
    first = last - 1 if since is None else since and _checked(document, since)
    return DocumentDiff(
        space=place_of(space),
        file=file,
        since=first,
        until=last,
        diff=unified(
            (f"{file} {first}", f"{file} {last}"),
            visible(lines_at(conn, document, first)),
            visible(lines_at(conn, document, last)),
        ),
    )


def suggestion_info(conn: apsw.Connection, space: str, name: str) -> SuggestionInfo:
    """Return one suggestion with its diff. Raises Refused (not_found)."""
    row = DOCUMENT.find(conn, space, name)
    document = find(conn, space, row.file)
    base = [] if document is None else lines_at(conn, document, row.since)
    names = f"{row.file} {row.since}", f"{row.file} as suggested"
    return msgspec.structs.replace(row, diff=unified(names, visible(base), visible(lines_of(row.content))))


SUGGESTIONS: Final = "owner = :space AND (state = 'open' OR NOT :open) AND number > :after ORDER BY number LIMIT :limit"


def suggestions(conn: apsw.Connection, space: str, page: RowPage, *, open_only: bool) -> SuggestionList:
    """Return a page of suggestions, the oldest first; with ``open_only``, only undecided ones."""
    values = {"space": space, "open": open_only, "after": page.after or 0, "limit": page.limit + 1}
    found = DOCUMENT.rows(conn, SuggestionRow, SUGGESTIONS, values)
    shown, following = page.cut(found, lambda row: row.id)
    total = DOCUMENT.count(conn, space, open_only=open_only)
    return SuggestionList(space=place_of(space), suggestions=shown, total=total, next=following)


FORGET_OWNERS: Final = "DELETE FROM document_owners WHERE space = ?"
OWN: Final = "INSERT INTO document_owners (space, pattern, owner) VALUES (?, ?, ?)"


def set_owners(tx: Transaction, space: str, patterns: Sequence[str], owner: str) -> None:
    """Make ``owner`` the owner of the documents that match ``patterns``."""
    tx.conn.executemany(OWN, [(space, pattern, owner) for pattern in patterns])


def begin(tx: Transaction, space: str, owner: str | None) -> None:
    """Set the owner of all documents, at the start of a run in ``space``; None: no owner."""
    tx.conn.execute(FORGET_OWNERS, (space,))
    if owner is not None:
        set_owners(tx, space, (EVERYTHING,), owner)
