"""Documents of a space: read, write, compare and suggest changes, for people and agents."""

from typing import Annotated, Literal

import apsw
import msgspec

from kernel.operations.answers import Response
from kernel.operations.operation import Actor, BackwardInSpace, ForwardInSpace, InSpace, ToolFront, operation, page_of
from kernel.policy.documents import DocumentChange
from kernel.store import documents
from kernel.store.rows import RowPage
from kernel.store.transaction import Transaction
from kernel.store.transitions import documents as transitions
from protocol.documents import (
    REASON_LIMIT,
    Content,
    DocumentBlame,
    DocumentChanged,
    DocumentDiff,
    DocumentHistory,
    DocumentInfo,
    DocumentList,
    DocumentRow,
    Reason,
    SuggestionInfo,
    SuggestionList,
    SuggestionMade,
    SuggestionRow,
)
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.names import place_of

File = Annotated[str, msgspec.Meta(max_length=400, description="Path of the document: notes.md, findings/auth.md.")]
OptionalFile = (
    Annotated[str, msgspec.Meta(max_length=400, description="Path of the document. Unset: the entry document.")] | None
)
Version = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
OlderVersion = Annotated[int, msgspec.Meta(ge=1, le=LARGEST, description="Older version. Unset: the newest.")] | None
Suggestion = Annotated[str, msgspec.Meta(min_length=1, max_length=20, description="Id of the suggestion: s1, ...")]
HISTORY_LIMIT = 100
"""Maximum number of versions in an answer to an agent."""


class DocumentRequest(InSpace, frozen=True, kw_only=True):
    """Request that names a document."""

    path: Annotated[str, msgspec.Meta(min_length=1, description="Path of the document.")]


class DocumentVersionRequest(DocumentRequest, frozen=True, kw_only=True):
    """Document, optionally an older version."""

    version: OlderVersion = None


class DocumentReadRequest(InSpace, frozen=True, kw_only=True):
    """Document, an older version of it, or a suggestion."""

    file: OptionalFile = None
    version: OlderVersion = None
    suggestion: (
        Annotated[Suggestion, msgspec.Meta(description="Id of a suggestion to read instead of a document.")] | None
    ) = None


class DocumentPut(InSpace, frozen=True, kw_only=True):
    """Text of a document, or an addition to its end."""

    content: str
    file: OptionalFile = msgspec.field(default=None, name="path")
    reason: Reason = ""


class DocumentWriteRequest(DocumentPut, frozen=True, kw_only=True):
    """Complete text of a document."""

    content: Content
    if_version: (
        Annotated[
            Version,
            msgspec.Meta(
                description="Version that your text is based on. Later changes of others are merged with yours."
            ),
        ]
        | None
    ) = msgspec.field(default=None, name="from")


class DocumentAppendRequest(DocumentPut, frozen=True, kw_only=True):
    """Addition to a document."""

    content: Annotated[str, msgspec.Meta(description="Text to append, starting on a new line.")]


class DocumentCreateRequest(InSpace, frozen=True, kw_only=True):
    """Request to create a document."""

    file: File
    content: Content
    reason: Reason = ""


class DocumentDeleteRequest(DocumentRequest, frozen=True, kw_only=True):
    """Document to delete, for people."""

    reason: Annotated[str, msgspec.Meta(description="Reason, stored in the history.")] = ""


class OwnDocumentDeleteRequest(InSpace, frozen=True, kw_only=True):
    """Document to delete, in the version that the agent has read."""

    file: File
    if_version: Annotated[Version, msgspec.Meta(description="Version that you have read.")]
    reason: Reason = ""


class DocumentHistoryRequest(BackwardInSpace, frozen=True, kw_only=True):
    """The versions of a document."""

    file: File = msgspec.field(name="path")


class DocumentDiffRequest(DocumentRequest, frozen=True, kw_only=True):
    """Two versions of a document."""

    since: Annotated[Version, msgspec.Meta(description="First version of the comparison.")] | None = msgspec.field(
        default=None, name="from"
    )
    until: Annotated[Version, msgspec.Meta(description="Last version of the comparison.")] | None = msgspec.field(
        default=None, name="to"
    )


class SuggestionsRequest(ForwardInSpace, frozen=True, kw_only=True):
    """Filter for a list of suggestions."""

    state: Annotated[Literal["open"], msgspec.Meta(description="Only open suggestions.")] | None = None


class DocumentSuggestRequest(InSpace, frozen=True, kw_only=True):
    """Suggested text for a document."""

    suggestion: Annotated[str, msgspec.Meta(description="Complete text of the document with your change.")]
    file: OptionalFile = None
    reason: Reason = ""
    if_version: (
        Annotated[Version, msgspec.Meta(description="Version that your text is based on. Unset: the newest.")] | None
    ) = None
    deletes_most: Annotated[bool, msgspec.Meta(description="True: the change deletes most lines on purpose.")] = False


class SuggestionRequest(InSpace, frozen=True, kw_only=True):
    """Request that names a suggestion."""

    suggestion: Suggestion = msgspec.field(name="id")


class SuggestionVerdict(SuggestionRequest, frozen=True, kw_only=True):
    """Decision on a suggestion."""

    reason: Annotated[Reason, msgspec.Meta(description="Reason of the decision, for the author.")] = ""


class DocReadResult(DocumentInfo, frozen=True, kw_only=True):
    """Document. ``suggested``: id of the suggestion whose text this is."""

    suggested: SuggestionInfo | None = None


class DocListResult(msgspec.Struct, frozen=True, kw_only=True):
    """Documents and open suggestions. ``electing``: the vote on the owner of the documents."""

    space: str
    entry: str
    electing: str | None
    documents: tuple[DocumentRow, ...]
    suggestions: tuple[SuggestionRow, ...]


def list_documents(conn: apsw.Connection, asked: ForwardInSpace, actor: Actor) -> DocumentList | DocListResult:
    """List the documents by name, with their versions and owners."""
    found = documents.listing(conn, asked.space)
    if actor.identity is not None:
        return DocListResult(
            space=place_of(asked.space),
            entry=found.entry,
            electing=found.electing,
            documents=found.documents,
            suggestions=documents.suggestions(conn, asked.space, RowPage(), open_only=True).suggestions,
        )
    rows = [row for row in found.documents if row.file > (asked.after or "")]
    following = rows[asked.limit - 1].file if len(rows) > asked.limit else None
    return msgspec.structs.replace(found, documents=tuple(rows[: asked.limit]), next=following)


def read_document(conn: apsw.Connection, asked: DocumentVersionRequest) -> Response:
    """Return a document: its newest version, or an older one. Use its ETag in If-Match."""
    found = documents.read(conn, asked.space, asked.path, asked.version)
    return Response(200, msgspec.json.encode(found), headers=((b"etag", b'"%d"' % found.version),))


def read(conn: apsw.Connection, asked: DocumentReadRequest) -> DocReadResult:
    """Read a document of your workspace: the entry document, another document, an older version, or a suggestion.
    Returns the text with its version, which you pass to team_doc_write."""
    if asked.suggestion is None:
        found = documents.read(conn, asked.space, asked.file, asked.version)
        return DocReadResult(**msgspec.structs.asdict(found))
    if asked.version is not None or asked.file is not None:
        raise Refused("bad_request", "a suggestion is named by its id alone", "omit file and version")
    one = documents.suggestion_info(conn, asked.space, asked.suggestion)
    here = documents.settings(conn, asked.space)
    return DocReadResult(
        file=one.file,
        version=one.since,
        owner=here.owner(one.file),
        size=len(one.content.encode()),
        author=one.author,
        at=one.at,
        entry=one.file == here.entry,
        space=one.space,
        content=one.content,
        suggested=one,
    )


def write(tx: Transaction, asked: DocumentWriteRequest, actor: Actor) -> DocumentChanged:
    """Replace the complete text of a document. Pass if_version, so that changes that others made
    since then are merged with yours. Fails with version_conflict if both changed the same lines,
    and with forbidden if another agent owns the document.

    A person's request is refused (412) if If-Match is not the newest version, or if
    ``If-None-Match: *`` is sent and the document exists.
    """
    strict = actor.if_match is not None
    if strict and asked.if_version is not None:
        raise Refused(
            "bad_request",
            "parameter 'from' and If-Match cannot be combined",
            "send 'from' to merge with newer versions, or If-Match to refuse them",
        )
    if actor.if_none_match:
        return _change(tx, asked, actor, DocumentChange("create", asked.content))
    since = actor.if_match if strict else asked.if_version
    return _change(tx, asked, actor, DocumentChange("write", asked.content, since, strict))


def append(tx: Transaction, asked: DocumentAppendRequest, actor: Actor) -> DocumentChanged:
    """Append lines to the end of a document. Use it for logs and findings: appends never conflict with changes of
    others. Fails with forbidden if another agent owns the document."""
    return _change(tx, asked, actor, DocumentChange("append", asked.content))


def create(tx: Transaction, asked: DocumentCreateRequest, actor: Actor) -> DocumentChanged:
    """Create a document. Use the entry document as an index of the others. Fails if the document exists."""
    return _change(tx, asked, actor, DocumentChange("create", asked.content))


def delete_document(tx: Transaction, asked: DocumentDeleteRequest, actor: Actor) -> DocumentChanged:
    """Delete a document. With If-Match, only if the newest version matches."""
    change = DocumentChange("delete", since=actor.if_match)
    return transitions.change(tx, asked.space, asked.path, change, asked.reason[:REASON_LIMIT])


def delete(tx: Transaction, asked: OwnDocumentDeleteRequest, actor: Actor) -> DocumentChanged:
    """Delete a document. Its history is kept. Pass the version that you have read: the call fails if the document has
    changed since."""
    return _change(tx, asked, actor, DocumentChange("delete", since=asked.if_version))


def _change(
    tx: Transaction,
    asked: DocumentPut | DocumentCreateRequest | OwnDocumentDeleteRequest,
    actor: Actor,
    change: DocumentChange,
) -> DocumentChanged:
    return transitions.change(tx, asked.space, asked.file, change, asked.reason, author=actor.author)


def history(conn: apsw.Connection, asked: DocumentHistoryRequest, actor: Actor) -> DocumentHistory:
    """List the versions of a document with author, instruction and reason, the newest first."""
    if actor.identity is not None:
        asked = msgspec.structs.replace(asked, limit=HISTORY_LIMIT)
    return documents.history(conn, asked.space, asked.file, page_of(asked, "v"))


def blame(conn: apsw.Connection, asked: DocumentRequest) -> DocumentBlame:
    """List every line of a document with the author and version that added it."""
    return documents.blame_of(conn, asked.space, asked.path)


def diff(conn: apsw.Connection, asked: DocumentDiffRequest) -> DocumentDiff:
    """Compare two versions of a document. Default: the newest and the previous version."""
    return documents.diff(conn, asked.space, asked.path, asked.since, asked.until)


def list_suggestions(conn: apsw.Connection, asked: SuggestionsRequest) -> SuggestionList:
    """List suggestions, the oldest first."""
    return documents.suggestions(conn, asked.space, page_of(asked, "s"), open_only=asked.state is not None)


def show_suggestion(conn: apsw.Connection, asked: SuggestionRequest) -> SuggestionInfo:
    """Return one suggestion."""
    return documents.suggestion_info(conn, asked.space, asked.suggestion)


def suggest(tx: Transaction, asked: DocumentSuggestRequest, actor: Actor) -> SuggestionMade:
    """Suggest a new text for a document that you do not own. Its owner or a vote decides. Returns the id of the
    suggestion. Fails if the text lacks most lines of the document, unless deletes_most is true."""
    return transitions.suggest(
        tx,
        asked.space,
        asked.file,
        asked.suggestion,
        asked.reason,
        since=asked.if_version,
        deletes_most=asked.deletes_most,
        author=actor.author,
    )


def accept(tx: Transaction, asked: SuggestionVerdict, actor: Actor) -> SuggestionMade:
    """Accept a suggestion for a document that you own. It becomes the newest version, merged with later changes. Fails
    if they conflict."""
    return transitions.decide(tx, asked.space, asked.suggestion, asked.reason, accepts=True, author=actor.author)


def reject(tx: Transaction, asked: SuggestionVerdict, actor: Actor) -> SuggestionMade:
    """Reject a suggestion for a document that you own, or withdraw your own suggestion. Give the reason for the
    author."""
    return transitions.decide(tx, asked.space, asked.suggestion, asked.reason, accepts=False, author=actor.author)


DOCUMENTS = "/spaces/<space>/documents"
SUGGESTIONS = "/spaces/<space>/suggestions"
_OF_ONE = "<path:path>"
OPERATIONS = (
    operation(
        list_documents,
        f"GET {DOCUMENTS}",
        team=ToolFront(
            "team_doc_list",
            "List the documents of your workspace with their versions and owners, and open suggestions.",
            in_space=True,
            without=("limit", "after"),
        ),
        manage=ToolFront(
            "document_list", "List the documents that the agents of a workflow share.", without=("limit", "after")
        ),
    ),
    operation(
        read_document,
        f"GET {DOCUMENTS}/{_OF_ONE}",
        answers=DocumentInfo,
        manage=ToolFront("document_read", "Read a document: its newest version, or an older one."),
    ),
    operation(read, team=ToolFront("team_doc_read", in_space=True)),
    operation(write, f"PUT {DOCUMENTS}/{_OF_ONE}?from", team=ToolFront("team_doc_write", idempotent=False)),
    operation(append, f"POST {DOCUMENTS}/{_OF_ONE}", team=ToolFront("team_doc_append", idempotent=False)),
    operation(create, team=ToolFront("team_doc_create", idempotent=False)),
    operation(delete_document, f"DELETE {DOCUMENTS}/{_OF_ONE}"),
    operation(delete, team=ToolFront("team_doc_delete", idempotent=False)),
    operation(
        history,
        f"GET /spaces/<space>/document-history/{_OF_ONE}",
        team=ToolFront("team_doc_history", without=("limit",)),
    ),
    operation(blame, f"GET /spaces/<space>/document-blame/{_OF_ONE}"),
    operation(diff, f"GET /spaces/<space>/document-diff/{_OF_ONE}"),
    operation(list_suggestions, f"GET {SUGGESTIONS}"),
    operation(show_suggestion, f"GET {SUGGESTIONS}/<id>"),
    operation(suggest, team=ToolFront("team_doc_suggest", idempotent=False)),
    operation(
        accept,
        f"POST {SUGGESTIONS}/<id>/accept",
        scope="approve",
        team=ToolFront("team_doc_accept", without=("reason",)),
    ),
    operation(reject, f"POST {SUGGESTIONS}/<id>/reject", team=ToolFront("team_doc_reject")),
)
