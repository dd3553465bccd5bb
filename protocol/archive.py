"""An archive: what was said and done in a run, or in a space, as one file that can be read without a kernel.

As ``jsonl`` its first line is an ArchiveHead, its last an ArchiveEnd, and each between them a row of a part. Without
the last line it is not whole. As ``md`` it is a page for people, and is not read again.
"""

from typing import Any, Final, Literal, NewType

import msgspec

from protocol.api.agents import AgentStatus
from protocol.api.document import Body
from protocol.api.instructions import EntryInfo
from protocol.documents import VersionRow

ARCHIVE: Final = "awk/archive/1"
Format = Literal["jsonl", "md"]
Part = NewType("Part", str)
"""What a line holds a row of: ``run`` and those below."""
HEAD: Final = Part("archive")
RUN: Final = Part("run")
"""A protocol.api.runs.RunReport without its messages: these are the channel's rows."""
CHANNEL: Final = Part("channel")
"""protocol.message.Message."""
RESOURCES: Final = Part("resources")
"""protocol.api.messages.ResourceText, all of it."""
DOCUMENTS: Final = Part("documents")
"""An ArchivedVersion: of each document the oldest first."""
SUGGESTIONS: Final = Part("suggestions")
"""A SuggestionInfo, decided or not."""
TASKS: Final = Part("tasks")
"""protocol.tasks.TaskInfo."""
VOTES: Final = Part("votes")
"""protocol.voting.BallotInfo."""
STATUSES: Final = Part("statuses")
"""An ArchivedStatus."""
INSTRUCTIONS: Final = Part("instructions")
"""protocol.api.instructions.InstructionInfo."""
TRANSCRIPT: Final = Part("transcript")
"""An ArchivedEntry."""
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
