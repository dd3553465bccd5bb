"""Tools for the documents of a workspace: read, written, listed; suggestions made and decided."""

from typing import Annotated

import msgspec

from kernel.api.mcp.spaces import InSpace, space_named
from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import StoreAccess
from kernel.policy.documents import Change
from kernel.store import documents
from kernel.store.rows import Page
from kernel.store.transitions import documents as transitions
from protocol.documents import (
    Content,
    DocumentChanged,
    DocumentHistory,
    DocumentInfo,
    DocumentRow,
    Reason,
    SuggestionInfo,
    SuggestionMade,
    SuggestionRow,
)
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.names import number_of, place_of

File = Annotated[str, msgspec.Meta(max_length=400, description="Its path: notes.md, findings/auth.md.")]
OptionalFile = Annotated[str, msgspec.Meta(max_length=400, description="Its path; unset: the entry document.")] | None
Version = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Suggestion = Annotated[str, msgspec.Meta(min_length=1, max_length=20, description="Its id: s1, ...")]
HISTORY_LIMIT = 100


class DocReadArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_read."""

    file: OptionalFile = None
    version: Annotated[int, msgspec.Meta(ge=1, le=LARGEST, description="An older one; unset: the newest.")] | None = (
        None
    )
    suggestion: (
        Annotated[Suggestion, msgspec.Meta(description="Read this suggestion in place of a document.")] | None
    ) = None
    space: InSpace | None = None


class DocReadResult(DocumentInfo, frozen=True, kw_only=True):
    """A document. ``suggested``: the text is that of this suggestion."""

    suggested: SuggestionInfo | None = None


class DocWriteArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_write."""

    content: Content
    file: OptionalFile = None
    if_version: (
        Annotated[
            int,
            msgspec.Meta(
                ge=0, le=LARGEST, description="The version you made it from: changes since then are merged with yours."
            ),
        ]
        | None
    ) = None
    reason: Reason = ""


class DocAppendArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_append."""

    content: Annotated[str, msgspec.Meta(description="What is added at the end, on a line of its own.")]
    file: OptionalFile = None
    reason: Reason = ""


class DocCreateArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_create."""

    file: File
    content: Content
    reason: Reason = ""


class DocListArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_list."""

    space: InSpace | None = None


class DocListResult(msgspec.Struct, frozen=True, kw_only=True):
    """All documents, and the suggestions that are open. ``electing``: the vote that decides who owns them."""

    space: str
    entry: str
    electing: str | None
    documents: tuple[DocumentRow, ...]
    suggestions: tuple[SuggestionRow, ...]


class DocDeleteArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_delete."""

    file: File
    if_version: Annotated[Version, msgspec.Meta(description="The version that you have read.")]
    reason: Reason = ""


class DocHistoryArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_history."""

    file: File
    before: Annotated[str, msgspec.Meta(description="next of the answer before: older versions.")] | None = None


class DocSuggestArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_suggest."""

    suggestion: Annotated[str, msgspec.Meta(description="The whole text of the document as it should be.")]
    file: OptionalFile = None
    reason: Reason = ""
    if_version: Annotated[Version, msgspec.Meta(description="The version you made it from; unset: the newest.")] | (
        None
    ) = None


class DocAcceptArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_accept."""

    suggestion: Suggestion


class DocRejectArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of team_doc_reject."""

    suggestion: Suggestion
    reason: Annotated[Reason, msgspec.Meta(description="Why not; its author reads it.")] = ""


async def team_doc_read(caller: Caller, asked: DocReadArguments, store: StoreAccess) -> DocReadResult:
    """One document, an older version of it, or a suggestion."""
    space = space_named(caller, asked.space, store)
    if asked.suggestion is None:
        found = await store.reader.read(documents.read, space, asked.file, asked.version)
        return DocReadResult(**msgspec.structs.asdict(found))
    if asked.version is not None or asked.file is not None:
        raise Refused("bad_request", "a suggestion is read by its id alone", "leave file and version out")
    one = await store.reader.read(documents.suggestion_info, space, asked.suggestion)
    here = store.reader.now(documents.settings, space)
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


async def team_doc_write(caller: Caller, asked: DocWriteArguments, store: StoreAccess) -> DocumentChanged:
    """Write a document, which is made if it is not there."""
    return await _change(caller, store, asked.file, Change("write", asked.content, asked.if_version), asked.reason)


async def team_doc_append(caller: Caller, asked: DocAppendArguments, store: StoreAccess) -> DocumentChanged:
    """Add to the end of a document, whatever others did to it meanwhile."""
    return await _change(caller, store, asked.file, Change("append", asked.content), asked.reason)


async def team_doc_create(caller: Caller, asked: DocCreateArguments, store: StoreAccess) -> DocumentChanged:
    """Make a document that is not there."""
    return await _change(caller, store, asked.file, Change("create", asked.content), asked.reason)


async def team_doc_delete(caller: Caller, asked: DocDeleteArguments, store: StoreAccess) -> DocumentChanged:
    """Delete a document that is as the caller has read it. Its versions stay readable."""
    return await _change(caller, store, asked.file, Change("delete", since=asked.if_version), asked.reason)


async def _change(caller: Caller, store: StoreAccess, file: str | None, asked: Change, reason: str) -> DocumentChanged:
    return await store.writer.commit(
        transitions.change,
        caller.identity.space,
        file,
        asked,
        reason,
        author=caller.author,
        call_key=caller.call_key,
    )


async def team_doc_list(caller: Caller, asked: DocListArguments, store: StoreAccess) -> DocListResult:
    """All documents there are, and what is suggested."""
    space = space_named(caller, asked.space, store)
    found = await store.reader.read(documents.listing, space)
    open_ = await store.reader.read(documents.suggestions, space, Page(), open_only=True)
    return DocListResult(
        space=place_of(space),
        entry=found.entry,
        electing=found.electing,
        documents=found.documents,
        suggestions=open_.suggestions,
    )


async def team_doc_history(caller: Caller, asked: DocHistoryArguments, store: StoreAccess) -> DocumentHistory:
    """The newest versions of a document, or those before."""
    before = None if asked.before is None else number_of(asked.before, "v")
    if asked.before is not None and before is None:
        raise Refused("bad_request", "before must be what the page before has as next, such as v12")
    page = Page(HISTORY_LIMIT, before)
    return await store.reader.read(documents.history, caller.identity.space, asked.file, page)


async def team_doc_suggest(caller: Caller, asked: DocSuggestArguments, store: StoreAccess) -> SuggestionMade:
    """Suggest another text; whoever owns the document is woken."""
    return await store.writer.commit(
        transitions.suggest,
        caller.identity.space,
        asked.file,
        asked.suggestion,
        asked.reason,
        since=asked.if_version,
        author=caller.author,
        call_key=caller.call_key,
    )


async def team_doc_accept(caller: Caller, asked: DocAcceptArguments, store: StoreAccess) -> SuggestionMade:
    """Make a suggestion the newest version."""
    return await store.writer.commit(
        transitions.accept, caller.identity.space, asked.suggestion, author=caller.author, call_key=caller.call_key
    )


async def team_doc_reject(caller: Caller, asked: DocRejectArguments, store: StoreAccess) -> SuggestionMade:
    """Decide that a suggestion is not taken."""
    return await store.writer.commit(
        transitions.reject,
        caller.identity.space,
        asked.suggestion,
        asked.reason,
        author=caller.author,
        call_key=caller.call_key,
    )
