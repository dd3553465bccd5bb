"""An archive: what was said and done in a run, or in a space, as one file that can be read without a kernel.

As ``jsonl`` its first line is an ArchiveHead, its last an ArchiveEnd, and each between them a row of a part. Without
the last line it is not whole. As ``md`` it is a page for people, and is not read again.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, NewType

import msgspec

from protocol.api.agents import AgentStatus
from protocol.api.document import Body
from protocol.api.instructions import EntryInfo, InstructionInfo
from protocol.api.messages import ResourceText
from protocol.api.runs import RunReport
from protocol.documents import SuggestionInfo, VersionRow
from protocol.message import Message
from protocol.tasks import TaskInfo
from protocol.voting import BallotInfo

ARCHIVE: Final = "awk/archive/1"
Format = Literal["jsonl", "md"]
Part = NewType("Part", str)
"""The kind of row that a line holds: a key of ROWS, or the first and the last line's."""
HEAD: Final = Part("archive")
RUN: Final = Part("run")
CHANNEL: Final = Part("channel")
RESOURCES: Final = Part("resources")
DOCUMENTS: Final = Part("documents")
SUGGESTIONS: Final = Part("suggestions")
TASKS: Final = Part("tasks")
VOTES: Final = Part("votes")
STATUSES: Final = Part("statuses")
INSTRUCTIONS: Final = Part("instructions")
TRANSCRIPT: Final = Part("transcript")
END: Final = Part("end")
END_OF_PAGE: Final = "End of the archive: "
"""How the last line of one as ``md`` begins."""


class ArchiveHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. ``of`` is a run (``r12``) or a space (``review:main``, with all its runs; ``dm:alice``)."""

    schema: str = ARCHIVE
    part: str = HEAD
    of: str
    space: str
    at: str
    version: str


class ArchiveLine(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a part. ``run`` is null in an agent's personal space."""

    part: str
    run: str | None
    row: Any


class ArchiveEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The last line: how many rows of each part there are before it."""

    part: str = END
    rows: dict[str, int]


class ArchivedEntry(Body, frozen=True, kw_only=True):
    """One thing that an agent did, and for which instruction."""

    instruction: str
    agent: str
    entry: EntryInfo


class ArchivedVersion(VersionRow, frozen=True, kw_only=True):
    """One version of a document, with its text unless it deleted the document. The newest says who owns it."""

    file: str
    content: str | None = None
    owner: str | None = None
    entry: bool = False
    """It is the document to begin with."""
    newest: bool = False
    """No version is behind it, and the document is there."""


class ArchivedStatus(AgentStatus, frozen=True, kw_only=True):
    """The status that ``agent`` gave itself last."""

    agent: str


class RowType(NamedTuple):
    """The rows of a part: what each is, and the field by which one is found."""

    type: type[msgspec.Struct]
    key: str


ROWS: Final[Mapping[str, RowType]] = MappingProxyType(
    {
        RUN: RowType(RunReport, "id"),  # without its messages: these are the channel's rows
        CHANNEL: RowType(Message, "seq"),
        RESOURCES: RowType(ResourceText, "id"),
        DOCUMENTS: RowType(ArchivedVersion, "file"),  # of each document the oldest first
        SUGGESTIONS: RowType(SuggestionInfo, "id"),
        TASKS: RowType(TaskInfo, "id"),
        VOTES: RowType(BallotInfo, "id"),
        STATUSES: RowType(ArchivedStatus, "agent"),
        INSTRUCTIONS: RowType(InstructionInfo, "id"),
        TRANSCRIPT: RowType(ArchivedEntry, "instruction"),
    }
)
"""The parts of an archive. One of a later version is counted and passed over by who reads it."""
