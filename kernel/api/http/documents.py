"""Documents of a space: read, written and compared by people, and what they say to suggestions."""

from typing import Any

import msgspec

from kernel.api.http.route import Request, page_of
from kernel.operations.answer import Response
from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.operations.places import known_space
from kernel.policy.documents import Change
from kernel.store import documents
from kernel.store.rows import LONGEST
from kernel.store.transaction import Transaction
from kernel.store.transitions import documents as transitions
from protocol.documents import (
    REASON_LIMIT,
    DocumentBlame,
    DocumentChanged,
    DocumentDiff,
    DocumentHistory,
    DocumentList,
    DocumentPut,
    SuggestionInfo,
    SuggestionList,
    SuggestionMade,
    SuggestionVerdict,
)
from protocol.errors import Refused


async def list_documents(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentList:
    """GET /spaces/:space/documents: in the order of their names, with their versions and owners."""
    space = known_space(store, files, call.args["space"])
    limit, after = call.number("limit", LONGEST), call.query.get("after", "")
    found = await store.reader.read(documents.listing, space)
    rows = [row for row in found.documents if row.file > after]
    following = rows[limit - 1].file if len(rows) > limit else None
    return msgspec.structs.replace(found, documents=tuple(rows[:limit]), next=following)


async def read_document(call: Request[None], store: StoreAccess, files: ProjectFiles) -> Response:
    """GET /spaces/:space/documents/*path?version=: the newest version, or an older one. Its ETag goes into If-Match."""
    space = known_space(store, files, call.args["space"])
    version = call.number("version", 1) if "version" in call.query else None
    found = await store.reader.read(documents.read, space, call.args["path"], version)
    return Response(200, msgspec.json.encode(found), headers=((b"etag", b'"%d"' % found.version),))


async def write_document(call: Request[DocumentPut], store: StoreAccess, files: ProjectFiles) -> DocumentChanged:
    """PUT /spaces/:space/documents/*path: with If-Match only where that is the newest version (412 where not).

    With ``from`` (a version) what changed since then is merged; with ``If-None-Match: *`` it is made, and not changed.
    """
    since = call.number("from", 0) if "from" in call.query else None
    if since is not None and call.if_match is not None:
        raise Refused("bad_request", "from and If-Match exclude each other", "If-Match refuses what from merges")
    if call.if_none_match:
        asked = Change("create", call.body.content)
    else:
        strict = call.if_match is not None
        asked = Change("write", call.body.content, call.if_match if strict else since, strict)
    return await _change_document(call, store, files, asked, call.body.reason)


async def append_document(call: Request[DocumentPut], store: StoreAccess, files: ProjectFiles) -> DocumentChanged:
    """POST /spaces/:space/documents/*path: add to its end, whatever is there."""
    space, file, said = known_space(store, files, call.args["space"]), call.args["path"], call.body

    def append(tx: Transaction) -> DocumentChanged:
        return transitions.change(tx, space, file, Change("append", said.content), said.reason)

    return await store.writer.commit(append)


async def delete_document(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentChanged:
    """DELETE /spaces/:space/documents/*path: with If-Match only where that is the newest version."""
    reason = call.query.get("reason", "")[:REASON_LIMIT]
    return await _change_document(call, store, files, Change("delete", since=call.if_match), reason)


async def _change_document(
    call: Request[Any], store: StoreAccess, files: ProjectFiles, asked: Change, reason: str
) -> DocumentChanged:
    space = known_space(store, files, call.args["space"])
    return await store.writer.commit(transitions.change, space, call.args["path"], asked, reason)


async def document_history(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentHistory:
    """GET /spaces/:space/document-history/*path: its versions, the newest first."""
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(documents.history, space, call.args["path"], page_of(call, "before", "v"))


async def document_blame(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentBlame:
    """GET /spaces/:space/document-blame/*path: every line, with who brought it in which version."""
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(documents.blame_of, space, call.args["path"])


async def document_diff(call: Request[None], store: StoreAccess, files: ProjectFiles) -> DocumentDiff:
    """GET /spaces/:space/document-diff/*path?from=&to=: the newest version and the one before, unless given."""
    space = known_space(store, files, call.args["space"])
    since, until = (call.number(name, 0) if name in call.query else None for name in ("from", "to"))
    return await store.reader.read(documents.diff, space, call.args["path"], since, until)


async def list_suggestions(call: Request[None], store: StoreAccess, files: ProjectFiles) -> SuggestionList:
    """GET /spaces/:space/suggestions: the oldest first; ``state=open`` leaves out what is decided."""
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(
        documents.suggestions, space, page_of(call, "after", "s"), open_only="state" in call.query
    )


async def show_suggestion(call: Request[None], store: StoreAccess, files: ProjectFiles) -> SuggestionInfo:
    """GET /spaces/:space/suggestions/:id: return one suggestion."""
    space = known_space(store, files, call.args["space"])
    return await store.reader.read(documents.suggestion_info, space, call.args["id"])


async def accept_suggestion(
    call: Request[SuggestionVerdict], store: StoreAccess, files: ProjectFiles
) -> SuggestionMade:
    """POST /spaces/:space/suggestions/:id/accept: it becomes the newest version, merged with what changed since."""
    space, name, reason = known_space(store, files, call.args["space"]), call.args["id"], call.body.reason
    return await store.writer.commit(transitions.accept, space, name, reason=reason)


async def reject_suggestion(
    call: Request[SuggestionVerdict], store: StoreAccess, files: ProjectFiles
) -> SuggestionMade:
    """POST /spaces/:space/suggestions/:id/reject: reject a suggestion; the document stays as it is."""
    space, name, reason = known_space(store, files, call.args["space"]), call.args["id"], call.body.reason
    return await store.writer.commit(transitions.reject, space, name, reason)
