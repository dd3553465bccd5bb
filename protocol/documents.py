"""Documents of a workspace on the wire: what is asked, shown and listed of files, their versions and suggestions."""

from typing import Annotated, Final, Literal

import msgspec

from protocol.api.document import Body, Document, Page
from protocol.message import TEXT_LIMIT_BYTES

ENTRY: Final = "notes.md"
"""The document to begin with, where a workflow names no other."""
FILE_BYTES: Final = 200
FILE_PARTS: Final = 8
LINES_LIMIT: Final = 20_000
CONTENT_BYTES: Final = TEXT_LIMIT_BYTES
MOST_FILES: Final = 256
MOST_SUGGESTIONS: Final = 64
"""Open at once in one workspace."""
REASON_LIMIT: Final = 500

Action = Literal["create", "write", "append", "merge", "accept", "delete"]
"""merge: a write that was made from an older version. accept: of a suggestion."""
SuggestionState = Literal["open", "accepted", "rejected"]

Content = Annotated[str, msgspec.Meta(description="The whole text.")]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LIMIT, description="Why; it is kept with the version.")]


class Made(Body, frozen=True, kw_only=True):
    """The maker of something: a member by its name there, in an instruction of a run, or ``user``."""

    author: str
    instruction: str | None
    run: str | None
    at: str


class DocumentRow(Body, frozen=True, kw_only=True):
    """One document of a list, without its text. ``version`` 0: nobody has written it yet."""

    file: str
    version: int
    owner: str | None
    size: int
    """Bytes in UTF-8."""
    author: str | None
    """Who made this version."""
    at: str | None
    entry: bool = False
    """The document to begin with."""


class DocumentInfo(DocumentRow, frozen=True, kw_only=True, tag_field="schema", tag="awk/doc/1"):
    """``awk doc read``: one document as it is, or was."""

    space: str
    content: str


class DocumentList(Page, frozen=True, kw_only=True):
    """``awk doc list``: in the order of their names; ``next`` goes into ``after``."""

    space: str
    entry: str
    electing: str | None
    """The proposal by which the members elect the owner: until it ends none of them writes."""
    documents: tuple[DocumentRow, ...]
    schema: str = "awk/doc-list/1"


class VersionRow(Made, frozen=True, kw_only=True):
    """One version: who made it, and what it changed."""

    version: int
    action: Action
    reason: str | None
    added: int
    removed: int
    """Lines."""
    message_id: str


class DocumentHistory(Page, frozen=True, kw_only=True):
    """``awk doc history``: the newest version first; ``next`` goes into ``before``."""

    space: str
    file: str
    versions: tuple[VersionRow, ...]
    schema: str = "awk/doc-history/1"


class BlameLine(Made, frozen=True, kw_only=True):
    """One line, and the version that brought it."""

    line: int
    text: str
    version: int


class DocumentBlame(Document, frozen=True, kw_only=True):
    """``awk doc blame``: every line of the newest version."""

    space: str
    file: str
    version: int
    lines: tuple[BlameLine, ...]
    schema: str = "awk/doc-blame/1"


class DocumentDiff(Document, frozen=True, kw_only=True):
    """``awk doc diff``: what version ``until`` has other than ``since``, as unified diff."""

    space: str
    file: str
    since: int
    until: int
    diff: str
    schema: str = "awk/doc-diff/1"


class SuggestionRow(Made, frozen=True, kw_only=True):
    """One suggestion of a list, without its text: made from version ``since`` of a document."""

    id: str
    file: str
    since: int
    reason: str | None
    state: SuggestionState


class SuggestionInfo(SuggestionRow, frozen=True, kw_only=True, tag_field="schema", tag="awk/doc-suggestion/1"):
    """One suggestion. ``diff`` is what it changes of the version that it was made from."""

    space: str
    content: str
    decided_by: str | None
    decision_reason: str | None
    version: int | None
    """Of the document, with what was accepted."""
    diff: str = ""


class SuggestionList(Page, frozen=True, kw_only=True):
    """``awk doc suggestions``: the oldest first; ``next`` goes into ``after``."""

    space: str
    suggestions: tuple[SuggestionRow, ...]
    schema: str = "awk/doc-suggestion-list/1"


class _Outcome(Body, frozen=True, kw_only=True):
    file: str
    note: str = ""
    message_id: str = ""


class DocumentChanged(_Outcome, frozen=True, kw_only=True, tag_field="schema", tag="awk/doc-changed/1"):
    """The outcome of a change. ``unchanged``: the text was that already, and no version was made."""

    version: int
    owner: str | None
    merged: bool = False
    """Made from an older version: other changes since then are in it too."""
    unchanged: bool = False


class SuggestionMade(_Outcome, frozen=True, kw_only=True, tag_field="schema", tag="awk/doc-suggested/1"):
    """A suggestion was made, or somebody decided about it."""

    id: str
    state: SuggestionState
    accepted_version: int | None = None
    """Of the document, with what was accepted."""
