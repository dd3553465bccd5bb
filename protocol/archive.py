"""Archive of a run or a space: one file that can be read without a kernel.

In ``jsonl``, the first line is an ArchiveHead, the last an ArchiveEnd, and each line between is a row of a part.
Without the last line, the archive is incomplete. ``md`` is a page for people and cannot be imported.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, NewType

import msgspec

from protocol.api.agents import AgentStatus
from protocol.api.document import Body
from protocol.api.instructions import EntryInfo, InstructionInfo, WireExchange
from protocol.api.messages import ResourceText
from protocol.api.runs import RunReport
from protocol.documents import SuggestionInfo, VersionRow
from protocol.message import Message
from protocol.tasks import TaskInfo
from protocol.voting import BallotInfo

ARCHIVE: Final = "awk/archive/1"
Format = Literal["jsonl", "md"]
Part = NewType("Part", str)
"""Kind of a line in an archive: a part (a key of ROWS), the head, or the end."""
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
WIRE: Final = Part("wire")
END: Final = Part("end")
END_OF_PAGE: Final = "End of the archive: "
"""First words of the last line of an ``md`` archive."""


class ArchiveHead(msgspec.Struct, frozen=True, kw_only=True):
    """First line. ``of`` is a run (``r12``) or a space (``review:main`` with all its runs; ``dm:alice``)."""

    schema: str = ARCHIVE
    part: str = HEAD
    of: str
    space: str
    at: str
    version: str


class ArchiveLine(msgspec.Struct, frozen=True, kw_only=True):
    """Row of a part. ``run`` is null in an agent's personal space."""

    part: str
    run: str | None
    row: Any


class ArchiveEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Last line: number of rows of each part."""

    part: str = END
    rows: dict[str, int]


class ArchivedEntry(Body, frozen=True, kw_only=True):
    """Entry of an agent's work, with its instruction."""

    instruction: str
    agent: str
    entry: EntryInfo


class ArchivedExchange(Body, frozen=True, kw_only=True):
    """Recorded exchange with a model provider, with its instruction."""

    instruction: str
    exchange: WireExchange


class ArchivedVersion(VersionRow, frozen=True, kw_only=True):
    """Version of a document; without text if it deleted the document. Only the newest version names the owner."""

    file: str
    content: str | None = None
    owner: str | None = None
    entry: bool = False
    """Whether this is the entry document."""
    newest: bool = False
    """Whether this is the newest version of an existing document."""


class ArchivedStatus(AgentStatus, frozen=True, kw_only=True):
    """Last status that ``agent`` set."""

    agent: str


class RowType(NamedTuple):
    """Type of a part's rows, and the field that identifies a row."""

    type: type[msgspec.Struct]
    key: str


ROWS: Final[Mapping[str, RowType]] = {
    RUN: RowType(RunReport, "id"),  # Without messages, which are rows of the channel.
    CHANNEL: RowType(Message, "seq"),
    RESOURCES: RowType(ResourceText, "id"),
    DOCUMENTS: RowType(ArchivedVersion, "file"),  # The oldest version of each document first.
    SUGGESTIONS: RowType(SuggestionInfo, "id"),
    TASKS: RowType(TaskInfo, "id"),
    VOTES: RowType(BallotInfo, "id"),
    STATUSES: RowType(ArchivedStatus, "agent"),
    INSTRUCTIONS: RowType(InstructionInfo, "id"),
    TRANSCRIPT: RowType(ArchivedEntry, "instruction"),
    WIRE: RowType(ArchivedExchange, "instruction"),
}
"""Parts of an archive. Readers count and skip unknown parts of later versions."""
