"""Archives of a run or a space, written in parts, with secrets replaced by placeholders.

``jsonl`` is a machine-readable file, ``md`` a page for people. On the page, text of others is in fenced blocks and code
spans, whose fences are longer than any run of backticks in the text. So the text cannot create headings, links, images
or mentions, and characters that could hide or reorder text are escaped.

Rows are read, redacted and written in batches in a thread, so that memory use does not depend on the length of the run.
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final, NamedTuple

import apsw
import msgspec
import trio

from kernel.agents.resources import secrets_of
from kernel.operations.answers import Stream
from kernel.operations.context import KernelControl, ProjectFiles, StoreAccess, run_asked
from kernel.operations.operation import InSpace, operation
from kernel.operations.runs import OneRun, report_of
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, archive, spaces, workflows
from kernel.store.archive import START, ArchiveBatch, Read, Scope
from kernel.store.transaction import rfc3339
from kernel.store.workflows import WorkflowRecord
from kernel.workflows.instruction_prompt import definition_for
from protocol.agent import AgentDefinition
from protocol.api.instructions import InstructionInfo
from protocol.api.messages import ResourceText
from protocol.api.runs import RunReport
from protocol.archive import (
    CHANNEL,
    DOCUMENTS,
    END_OF_PAGE,
    INSTRUCTIONS,
    RESOURCES,
    RUN,
    STATUSES,
    SUGGESTIONS,
    TASKS,
    TRANSCRIPT,
    VOTES,
    WIRE,
    ArchivedEntry,
    ArchivedExchange,
    ArchivedStatus,
    ArchivedVersion,
    ArchiveEnd,
    ArchiveHead,
    ArchiveLine,
    Format,
    Part,
)
from protocol.documents import SuggestionInfo
from protocol.errors import Refused
from protocol.message import Message
from protocol.names import is_below, is_personal, place_of, run_id, split_space
from protocol.redaction import Redaction
from protocol.tasks import TaskInfo
from protocol.text import encode_json, shown_name
from protocol.voting import BallotInfo

Lines = Iterator[str]


class PartRow(NamedTuple):
    """Part of an archive: its reader, its title on a page, and its renderer."""

    read: Read
    title: str
    page: Callable[[Any], Lines]


AsFormat = Annotated[Format, msgspec.Meta(description="Format of the archive.")]


class ExportRunRequest(OneRun, frozen=True, kw_only=True):
    """Run to export."""

    format: AsFormat = "jsonl"


class ExportSpaceRequest(InSpace, frozen=True, kw_only=True):
    """Space to export."""

    format: AsFormat = "jsonl"


async def of_run(asked: ExportRunRequest, store: StoreAccess, files: ProjectFiles, kernel: KernelControl) -> Stream:
    """Export one run as an archive: r12, or the newest run of a workflow and tag."""
    record, writer = await store.reader.read(run_asked, asked.run), WRITERS[asked.format]
    at, version = rfc3339(store.now_ms()), kernel.identity.version
    head = ArchiveHead(of=run_id(record.id), space=record.place, at=at, version=version)
    return Stream(pieces_of(store, files, head, record, writer), writer.content_type)


async def of_space(asked: ExportSpaceRequest, store: StoreAccess, files: ProjectFiles, kernel: KernelControl) -> Stream:
    """Export all stored runs of a workflow and tag, or a personal space, as an archive."""
    place, writer = place_of(asked.space), WRITERS[asked.format]
    head = ArchiveHead(of=place, space=place, at=rfc3339(store.now_ms()), version=kernel.identity.version)
    return Stream(pieces_of(store, files, head, None, writer), writer.content_type)


async def pieces_of(
    store: StoreAccess, files: ProjectFiles, head: ArchiveHead, only: WorkflowRecord | None, writer: "Writer"
) -> AsyncGenerator[bytes, None]:
    """Yield a complete archive of the run ``only``, or of the whole space if it is None."""
    counts: Counter[str] = Counter()
    yield writer.head(head)
    async with aclosing(scopes_of(store, head, only)) as scopes:
        async for scope, record in scopes:
            redaction = await redaction_for(store, files, scope)
            parts = PARTS if record is None else {RUN: run_row(record), **PARTS}
            for part, row in parts.items():
                after: tuple[int, int] | None = START
                while after is not None:
                    piece, count, after = await store.reader.read(piece_of, scope, part, row, after, writer, redaction)
                    counts[part] += count
                    if piece:
                        yield piece
    yield writer.end(ArchiveEnd(rows=dict(counts)))


async def scopes_of(
    store: StoreAccess, head: ArchiveHead, only: WorkflowRecord | None
) -> AsyncGenerator[tuple[Scope, WorkflowRecord | None], None]:
    """Yield the run ``only``, or all runs of the space in order. A personal space, or a space below
    a run, is one scope."""
    if only is not None:
        yield Scope(only.space, only.id, store.now_ms()), only
    elif is_personal(head.space):
        yield Scope(head.space, None, store.now_ms()), None
    elif is_below(head.space):
        for row in reversed(await store.reader.read(spaces.named, head.space)):
            yield Scope(row.space, row.run, store.now_ms()), None
    else:
        record = await store.reader.read(archive.next_run, head.space, 0)
        while record is not None:
            last = await store.reader.read(workflows.latest, record.space)
            yield (
                Scope(record.space, record.id, store.now_ms(), whole=last is not None and last.id == record.id),
                record,
            )
            record = await store.reader.read(archive.next_run, head.space, record.id)


def run_row(record: WorkflowRecord) -> PartRow:
    """Return the part for the run itself: one row."""

    def read(conn: apsw.Connection, scope: Scope, _after: tuple[int, int]) -> ArchiveBatch:
        return ArchiveBatch((report_of(conn, record, scope.now_ms, said=False),), None)

    return PartRow(read, "", page_of_run)


def piece_of(
    conn: apsw.Connection,
    scope: Scope,
    part: Part,
    row: PartRow,
    after: tuple[int, int],
    writer: "Writer",
    redaction: Redaction,
) -> tuple[bytes, int, tuple[int, int] | None]:
    """Return a batch of rows as text, their number, and the position after them (None: the end)."""
    batch: ArchiveBatch = row.read(conn, scope, after)
    rows = tuple(map(redaction.of_row, batch.rows))
    title = row.title if after == START else ""
    run = None if scope.run is None else run_id(scope.run)
    return writer.rows(part, run, rows, title, row.page) if rows else b"", len(rows), batch.after


async def redaction_for(store: StoreAccess, files: ProjectFiles, scope: Scope) -> Redaction:
    """Return the redaction of the secrets that agents of ``scope`` receive now, if their files are readable."""
    if scope.run is None:
        keys = [split_space(scope.space)[1]]
    else:
        keys = [str(member.key) for member in store.reader.now(agents.members, scope.space)]
    definitions: list[AgentDefinition] = []
    for key in keys:
        with suppress(Refused, BadDefinition):
            definitions.append(definition_for(key, scope.space, files.catalog, store.reader))
    project, root = files.catalog.kept_project(), files.catalog.root

    def read() -> dict[str, str]:
        given = (secrets_of(definition, project, files.environ, root).items() for definition in definitions)
        return {secret: word for items in given for secret, word in items}

    return Redaction(await trio.to_thread.run_sync(read))


class Writer(NamedTuple):
    """Archive format: writers for the head, the rows of a part with its title, and the end."""

    content_type: str
    head: Callable[[ArchiveHead], bytes]
    rows: Callable[[Part, str | None, tuple[msgspec.Struct, ...], str, Callable[[Any], Lines]], bytes]
    end: Callable[[ArchiveEnd], bytes]


def _line(value: object) -> bytes:
    return encode_json(value) + b"\n"


def rows_as_lines(
    part: Part, run: str | None, rows: tuple[msgspec.Struct, ...], _title: str, _page: Callable[[Any], Lines]
) -> bytes:
    """Return rows of a part as JSON lines."""
    return b"".join(_line(ArchiveLine(part=part, run=run, row=row)) for row in rows)


def rows_as_page(
    _part: Part, _run: str | None, rows: tuple[msgspec.Struct, ...], title: str, page: Callable[[Any], Lines]
) -> bytes:
    """Return rows of a part as page text."""
    heading = [f"## {title}", ""] if title else []
    return "".join(f"{line}\n" for line in (*heading, *(line for row in rows for line in page(row)))).encode()


def page_head(head: ArchiveHead) -> bytes:
    """Return the start of a page: title and origin of the archive."""
    return f"# Archive of {head.of}\n\nWritten at {head.at} by agent-worker {head.version}.\n\n".encode()


def page_end(end: ArchiveEnd) -> bytes:
    """Return the last line of a page."""
    counts = ", ".join(f"{count} of {part}" for part, count in end.rows.items())
    return f"{END_OF_PAGE}{counts}.\n".encode()


WRITERS: Final[Mapping[Format, Writer]] = {
    "jsonl": Writer("application/x-ndjson; charset=utf-8", _line, rows_as_lines, _line),
    "md": Writer("text/markdown; charset=utf-8", page_head, rows_as_page, page_end),
}


def fenced(text: str) -> Lines:
    """Yield untrusted ``text`` as a block without markup, followed by an empty line."""
    fence = "`" * max(3, _longest_run(text) + 1)
    yield f"{fence}text"
    for line in text.rstrip("\n").split("\n"):
        yield "\t".join(map(shown_name, line.split("\t")))
    yield from (fence, "")


def code(text: str) -> str:
    """Return untrusted ``text`` as an inline code span without markup."""
    line = shown_name(" ".join(text.split()))
    fence = "`" * (_longest_run(line) + 1)
    return f"{fence} {line} {fence}" if line else "` `"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def page_of_run(row: RunReport) -> Lines:
    """Yield the result of a run."""
    counts = ", ".join(f"{count} {name}" for name, count in row.instructions.items() if count) or "none"
    verdict = f"; verdict {row.verdict}" if row.verdict else ""
    yield from (f"# {row.id} {row.run}", "")
    yield f"{row.status}, exit code {row.exit_code}, {row.duration_seconds:.1f} s; instructions: {counts}{verdict}"
    yield ""


def page_of_message(row: Message) -> Lines:
    """Yield a message with its sender."""
    to = f" to {', '.join(row.to)}" if row.to else ""
    cleared = " (cleared)" if row.cleared else ""
    yield from (f"### m{row.seq} {row.sender}{to}, {row.kind}, {row.at}{cleared}", "")
    if row.text:
        yield from fenced(row.text)


def page_of_resource(row: ResourceText) -> Lines:
    """Yield a text that messages refer to."""
    yield from (f"### resource:{row.id} {code(row.type)} by {row.author}, {row.at}", "")
    yield from fenced(row.content)


def page_of_version(row: ArchivedVersion) -> Lines:
    """Yield a version of a document with its author, and for the newest version its text."""
    yield from (f"### {code(row.file)} version {row.version}, {row.action} by {row.author}, {row.at}", "")
    made_in = f" in {row.instruction}" if row.instruction else ""
    owner = f"; owned by {row.owner}" if row.owner else ""
    yield f"+{row.added} -{row.removed} lines{made_in}{owner}{f'; {code(row.reason)}' if row.reason else ''}"
    yield ""
    if row.newest and row.content is not None:
        yield from fenced(row.content)


def page_of_suggestion(row: SuggestionInfo) -> Lines:
    """Yield a suggestion: author, change and decision."""
    by = f", by {row.decided_by}" if row.decided_by else ""
    yield from (f"### {row.id} for {code(row.file)} version {row.since}, by {row.author}, {row.at}", "")
    reasons = [code(one) for one in (row.reason, row.decision_reason) if one]
    yield "; ".join([f"{row.state}{by}", *reasons])
    yield ""
    if row.diff:
        yield from fenced(row.diff)


def page_of_task(row: TaskInfo) -> Lines:
    """Yield a task: assignee, state and result."""
    yield from (f"### {row.id} {code(row.title)}, {row.state}", "")
    told = (
        ("planned by", f"{row.creator}, {row.created_at}"),
        ("for", row.for_),
        ("held by", row.holder),
        ("in", row.instruction),
        ("needs", ", ".join(row.needs)),
        ("part of", row.parent),
        ("files", code(", ".join(row.files)) if row.files else ""),
        ("check", code(row.check) if row.check else ""),
        ("ended by", f"{row.ended_by}, {row.ended_at}" if row.ended_by else ""),
    )
    yield "; ".join(f"{name} {what}" for name, what in told if what)
    yield ""
    for text in (row.text, row.result, row.reason):
        if text:
            yield from fenced(text)


def page_of_status(row: ArchivedStatus) -> Lines:
    """Yield the status that an agent set."""
    parts = (row.state, row.task, encode_json(row.metadata).decode() if row.metadata else None)
    yield f"- {row.agent} in {row.instruction}, {row.at}: {', '.join(code(one) for one in parts if one) or 'nothing'}"
    yield ""


def page_of_vote(row: BallotInfo) -> Lines:
    """Yield a proposal, its options with their votes, and the result."""
    result = f"{row.winner} wins" if row.winner else "no winner"
    yield from (f"### {row.id} {code(row.title)}", "")
    yield f"{'binding ' if row.binding else ''}{row.type} by {row.creator}, {row.created_at}: {row.state}, {result}"
    yield ""
    for option in row.options:
        more = f" {code(encode_json(option.metadata).decode())}" if option.metadata else ""
        yield f"- {code(option.id)} {code(option.label)}: {row.counts.get(option.id, 0)}{more}"
    yield ""
    for vote in row.votes:
        yield f"- {vote.voter} voted {code(vote.choice)}{f': {code(vote.reason)}' if vote.reason else ''}"
    yield ""
    if row.description:
        yield from fenced(row.description)


def page_of_instruction(row: InstructionInfo) -> Lines:
    """Yield an instruction, with the cause of a failure."""
    why = f" ({row.error_class}: {code(row.cause)})" if row.cause else ""
    yield from (f"### {row.id} {row.agent}, {row.status}{why}", "")
    used = row.usage
    yield f"{used.input_tokens} tokens in, {used.output_tokens} out, for {', '.join(row.message_ids)}"
    yield ""
    if row.text and row.status != "done":  # The text of a completed instruction is in the channel.
        yield from fenced(row.text)
    if row.handover is not None:
        note = row.handover
        parts = [f"done: {note.done}", f"next: {note.next}", *(f"open: {one}" for one in note.open)]
        yield from (f"Handover at {note.at}:", "")
        yield from fenced("\n".join([*parts, *(f"file: {one}" for one in note.files)]))


def page_of_entry(row: ArchivedEntry) -> Lines:
    """Yield one entry of an agent's work."""
    entry = row.entry
    what = entry.kind if entry.tool is None else f"{entry.kind} {code(entry.tool)}"
    failed = ", failed" if entry.is_error else ""
    yield from (f"### {row.instruction} #{entry.n} {row.agent}, {what}, {entry.at}{failed}", "")
    arguments = msgspec.json.format(encode_json(entry.input)).decode() if entry.input else None
    for text in (entry.text, arguments, entry.output):
        if text:
            yield from fenced(text)


def page_of_exchange(row: ArchivedExchange) -> Lines:
    """Yield a recorded exchange with a model provider."""
    one = row.exchange
    yield from (f"### {row.instruction} exchange {one.n}, {code(one.model)}, status {one.status}, {one.at}", "")
    for body in (one.request, one.response):
        yield from fenced(body if isinstance(body, str) else msgspec.json.format(encode_json(body)).decode())


PARTS: Final[Mapping[Part, PartRow]] = {
    CHANNEL: PartRow(archive.channel, "Channel", page_of_message),
    RESOURCES: PartRow(archive.kept_texts, "Resources", page_of_resource),
    DOCUMENTS: PartRow(archive.versions, "Documents", page_of_version),
    SUGGESTIONS: PartRow(archive.suggested, "Suggestions", page_of_suggestion),
    TASKS: PartRow(archive.planned, "Tasks", page_of_task),
    VOTES: PartRow(archive.votes, "Votes", page_of_vote),
    STATUSES: PartRow(archive.statuses, "Statuses", page_of_status),
    INSTRUCTIONS: PartRow(archive.instructions, "Instructions", page_of_instruction),
    TRANSCRIPT: PartRow(archive.transcript, "Transcript", page_of_entry),
    WIRE: PartRow(archive.wire, "Recorded exchanges", page_of_exchange),
}
"""Parts of an archive, in order."""


OPERATIONS = (operation(of_run, "GET /runs/<run>/export"), operation(of_space, "GET /spaces/<space>/export"))
