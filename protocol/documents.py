"""Documents of a workspace in requests and answers: files, versions and suggestions."""

from typing import Annotated, Final, Literal

import msgspec

from protocol.api.document import Body, Document, Page
from protocol.message import TEXT_LIMIT_BYTES

ENTRY: Final = "notes.md"
"""Default name of the entry document."""
FILE_BYTES: Final = 200
FILE_PARTS: Final = 8
LINES_LIMIT: Final = 20_000
CONTENT_BYTES: Final = TEXT_LIMIT_BYTES
MOST_FILES: Final = 256
MOST_SUGGESTIONS: Final = 64
"""Maximum number of open suggestions of one workspace."""
REASON_LIMIT: Final = 500

Action = Literal["create", "write", "append", "merge", "accept", "delete"]
"""merge: a write based on an older version was merged. accept: a suggestion was accepted."""
SuggestionState = Literal["open", "accepted", "rejected"]

Content = Annotated[str, msgspec.Meta(description="Complete text of the document.")]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LIMIT, description="Reason, stored with the version.")]


class Made(Body, frozen=True, kw_only=True):
    """Author and time of a change. ``author`` is a member's name in the workspace, or ``user``
    without instruction and run."""

    author: str
    instruction: str | None
    run: str | None
    at: str


class DocumentRow(Body, frozen=True, kw_only=True):
    """Document in a list, without its text. ``version`` 0: not written yet."""

    file: str
    version: int
    owner: str | None
    size: int
    """Size in bytes of UTF-8."""
    author: str | None
    """Author of this version."""
    at: str | None
    entry: bool = False
    """Whether this is the entry document."""


class DocumentInfo(DocumentRow, frozen=True, kw_only=True, tag_field="schema", tag="awk/doc/1"):
    """``awk doc read``: current or earlier text of one document."""

    space: str
    content: str


class DocumentList(Page, frozen=True, kw_only=True):
    """``awk doc list``: sorted by name. Pass ``next`` as ``after``."""

    space: str
    entry: str
    electing: str | None
    """Proposal by which the members elect the owner. No member writes until it ends."""
    documents: tuple[DocumentRow, ...]
    schema: str = "awk/doc-list/1"


class VersionRow(Made, frozen=True, kw_only=True):
    """Version with its author and its changes."""

    version: int
    action: Action
    reason: str | None
    added: int
    removed: int
    """Number of removed lines; likewise ``added``."""
    message_id: str


class DocumentHistory(Page, frozen=True, kw_only=True):
    """``awk doc history``: the newest version first. Pass ``next`` as ``before``."""

    space: str
    file: str
    versions: tuple[VersionRow, ...]
    schema: str = "awk/doc-history/1"


class BlameLine(Made, frozen=True, kw_only=True):
    """Line with the version that added it."""

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
    """``awk doc diff``: unified diff from version ``since`` to version ``until``."""

    space: str
    file: str
    since: int
    until: int
    diff: str
    schema: str = "awk/doc-diff/1"


class SuggestionRow(Made, frozen=True, kw_only=True):
    """Suggestion in a list, without its text. The suggested text is based on version ``since`` of the document."""

    id: str
    file: str
    since: int
    reason: str | None
    state: SuggestionState


class SuggestionInfo(SuggestionRow, frozen=True, kw_only=True, tag_field="schema", tag="awk/doc-suggestion/1"):
    """Suggestion. ``diff`` is the suggested change to version ``since``."""

    space: str
    content: str
    decided_by: str | None
    decision_reason: str | None
    version: int | None
    """Version of the document with the accepted suggestion."""
    diff: str = ""


class SuggestionList(Page, frozen=True, kw_only=True):
    """``awk doc suggestions``: the oldest first. Pass ``next`` as ``after``."""

    space: str
    suggestions: tuple[SuggestionRow, ...]
    schema: str = "awk/doc-suggestion-list/1"


class _Outcome(Body, frozen=True, kw_only=True):
    file: str
    note: str = ""
    message_id: str = ""


class DocumentChanged(_Outcome, frozen=True, kw_only=True, tag_field="schema", tag="awk/doc-changed/1"):
    """Result of a change. ``unchanged``: the text was identical, and no version was created."""

    version: int
    owner: str | None
    merged: bool = False
    """Whether the write was based on an older version and merged with later changes."""
    unchanged: bool = False


class SuggestionMade(_Outcome, frozen=True, kw_only=True, tag_field="schema", tag="awk/doc-suggested/1"):
    """Suggestion after it was created or decided."""

    id: str
    state: SuggestionState
    accepted_version: int | None = None
    """Version of the document with the accepted suggestion."""
