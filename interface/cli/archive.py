"""Client that answers ``show``, ``channel``, ``doc`` and other queries from an archive (``awk export``).

The file is read in place and not imported. It may come from anyone: its texts are escaped like those from a kernel,
each row must match the type of its part, and the length of a line is limited.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from interface.cli.output import one_line
from interface.cli.targets import concerns
from interface.client import Client
from interface.discovery import KernelEndpoint
from interface.failure import Failure
from interface.http_client import Address
from protocol.archive import (
    ARCHIVE,
    CHANNEL,
    DOCUMENTS,
    END,
    INSTRUCTIONS,
    RESOURCES,
    ROWS,
    RUN,
    SUGGESTIONS,
    TASKS,
    TRANSCRIPT,
    VOTES,
    ArchiveHead,
    Part,
)
from protocol.documents import ENTRY
from protocol.names import number_of, split_space

LINE_BYTES: Final = 64 * 1024 * 1024
"""Maximum length of a line. The rows of a kernel are shorter."""
_ANSWERED: Final = (
    "archives support: show, channel, proposal, doc list, read, history and suggestions, task list, show and graph"
)


class _Line(msgspec.Struct, frozen=True):
    """Line of an archive after its head: a row of a part, or the end with the row counts."""

    part: str
    run: str | None = None
    row: msgspec.Raw = msgspec.Raw(b"null")
    rows: dict[str, int] = {}


class Row(NamedTuple):
    """Index entry of a row: run, key, and the position and length of the row's line in bytes."""

    run: str | None
    key: str
    at: int
    length: int


Document = dict[str, Any]


class Archive:
    """Index of an archive file by part; rows are read on demand. Raises Failure if the file is invalid."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.rows: dict[str, list[Row]] = {part: [] for part in ROWS}
        self.counts: dict[str, int] = {}
        try:
            self._file = open(path, "rb")  # noqa: SIM115  (closed by ``close``)
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self.bytes = os.fstat(self._file.fileno()).st_size
            self.head = self._head()
            self._read_rows()
        except OSError as error:
            self.close()
            raise self._unreadable(error) from error
        except Failure:
            self.close()
            raise

    def close(self) -> None:
        """Close the archive file. ``read`` fails afterwards."""
        self._file.close()

    def _unreadable(self, error: OSError) -> Failure:
        return Failure("failed", f"{one_line(self._path)} cannot be read: {error.strerror or error}")

    def _head(self) -> ArchiveHead:
        line = self._file.readline(LINE_BYTES)
        if line.startswith(b"# Archive of "):
            hint = "export with --format jsonl to read it again"
            raise Failure("failed", f"{one_line(self._path)} is a Markdown export", hint)
        try:
            head = msgspec.json.decode(line, type=ArchiveHead)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            hint = "create one: awk export r12 -o r12.jsonl"
            raise Failure("failed", f"{one_line(self._path)} is not an archive", hint) from error
        if head.schema != ARCHIVE:
            hint = f"export it again: this version of agent-worker reads {ARCHIVE}"
            raise Failure("failed", f"{one_line(self._path)} has the unsupported version {one_line(head.schema)}", hint)
        return head

    def _read_rows(self) -> None:
        number, at = 1, self._file.tell()
        while line := self._file.readline(LINE_BYTES):
            number += 1
            try:
                found = msgspec.json.decode(line, type=_Line)
                if found.part == END:
                    if (
                        self._file.read(1)
                        or {part: count for part, count in found.rows.items() if count} != self.counts
                    ):
                        text = f"{one_line(self._path)} is damaged: the row counts at its end do not match"
                        raise Failure("failed", text, "export it again")
                    return
                self.counts[found.part] = self.counts.get(found.part, 0) + 1
                if found.part in ROWS:
                    rows = ROWS[found.part]
                    row = msgspec.json.decode(found.row, type=rows.type)
                    self.rows[found.part].append(Row(found.run, str(getattr(row, rows.key)), at, len(line)))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                text = f"{one_line(self._path)} is not an archive: line {number}: {one_line(str(error)[:200])}"
                raise Failure("failed", text) from error
            at += len(line)
        raise Failure("failed", f"{one_line(self._path)} is incomplete: its end is missing", "export it again")

    def read(self, row: Row) -> Any:
        """Read the row of an index entry from the archive file."""
        self._file.seek(row.at)
        return json.loads(self._file.read(row.length))["row"]


class ArchiveClient(Client):
    """Client that answers requests from an archive, like a kernel that has no other data."""

    def __init__(self, path: str) -> None:
        super().__init__(KernelEndpoint(Address("", 0), "", 0, path))
        self._archive = Archive(path)

    def get(self, path: str, query: Mapping[str, str] | None = None, *, wait_seconds: float | None = None) -> bytes:
        """Return the answer of the kernel's API at ``path``. Raises Failure if the archive lacks the data."""
        from urllib.parse import unquote  # noqa: PLC0415  (25 ms, as in the client)

        for pattern, answer in _ROUTES:
            if match := pattern.fullmatch(unquote(path)):
                return json.dumps(answer(self._archive, match[1], dict(query or {})), ensure_ascii=False).encode()
        raise Failure("usage", "this query is not available for archives", _ANSWERED)

    def close(self) -> None:
        """Close the archive file."""
        self._archive.close()

    def post(self, path: str, body: object, *, key: str, wait_seconds: float | None = None) -> bytes:
        """Refuse the request, because an archive cannot be changed."""
        raise Failure("usage", "archives are read-only", _ANSWERED)

    def delete(
        self, path: str, query: Mapping[str, str] | None = None, match: Mapping[str, str] | None = None
    ) -> bytes:
        """Refuse the request, because an archive cannot be changed."""
        raise Failure("usage", "archives are read-only", _ANSWERED)


def run(archive: Archive, asked: str, _query: Mapping[str, str]) -> Document:
    """Return the result of a run with all its messages."""
    row = _row_of_run(archive, asked)
    said = [archive.read(one) for one in archive.rows[CHANNEL] if one.run == row.key]
    return {**archive.read(row), "messages": said}


def _row_of_run(archive: Archive, asked: str | None) -> Row:
    found = [row for row in archive.rows[RUN] if asked in (None, row.key)]
    if not found and asked is not None and number_of(asked, "r") is None:
        _check_space(archive, asked)
        found = archive.rows[RUN]
    if not found:
        known = ", ".join(row.key for row in archive.rows[RUN]) or "none"
        hint = f"runs in the archive: {one_line(known)}"
        raise Failure("not_found", f"{one_line(str(asked))} is not in this archive", hint)
    return found[-1]


def _check_space(archive: Archive, asked: str) -> None:
    if ":".join(split_space(asked)) != archive.head.space:
        of = one_line(archive.head.space)
        raise Failure("not_found", f"{one_line(asked)} is not in this archive", f"it contains {of}")


def channel(archive: Archive, space: str, query: Mapping[str, str]) -> Document:
    """Return messages of a run: the newest messages, or the messages after a given one."""
    _check_space(archive, space)
    run = _row_of_run(archive, query.get("run")).key if archive.rows[RUN] else None
    rows = [row for row in archive.rows[CHANNEL] if row.run == run]
    if agent := query.get("agent"):
        rows = [row for row in rows if concerns(archive.read(row), agent)]
    total, limit = len(rows), int(query.get("limit", "50"))
    if "since" in query:
        rows = [row for row in rows if int(row.key) > int(query["since"])]
        shown = rows[:limit]
        following = shown[-1].key if len(rows) > limit else None
    else:
        rows = [row for row in rows if int(row.key) < int(query.get("before", 2**62))]
        shown = rows[max(len(rows) - limit, 0) :]
        following = shown[0].key if len(rows) > limit else None
    said = [archive.read(row) for row in shown]
    return {"schema": "awk/channel/1", "total": total, "next": following, "space": space, "messages": said}


def instruction(archive: Archive, asked: str, _query: Mapping[str, str]) -> Document:
    """Return an instruction of the archive."""
    row = next((row for row in archive.rows[INSTRUCTIONS] if row.key == asked), None)
    if row is None:
        raise Failure("not_found", f"instruction {one_line(asked)} is not in this archive")
    return cast("Document", archive.read(row))


def entries(archive: Archive, asked: str, query: Mapping[str, str]) -> Document:
    """Return the steps of an instruction."""
    agent = instruction(archive, asked, {})["agent"]
    rows = [row for row in archive.rows[TRANSCRIPT] if row.key == asked]
    done = [archive.read(row)["entry"] for row in rows]
    behind = [entry for entry in done if entry["n"] > int(query.get("after", "0"))]
    limit = int(query.get("limit", "100"))
    page = behind[:limit]
    following = str(page[-1]["n"]) if len(behind) > limit else None
    head = {"schema": "awk/entries/1", "total": len(rows), "next": following}
    return {**head, "id": asked, "agent": agent, "entries": page, "pending": {}}


def proposals(archive: Archive, space: str, query: Mapping[str, str]) -> Document:
    """Return the proposals of the newest run."""
    votes = _newest(archive, space, VOTES)
    first, limit = int(query.get("after", "0")), int(query.get("limit", "1000"))
    page = votes[first : first + limit]
    following = str(first + limit) if len(votes) > first + limit else None
    return {"schema": "awk/proposal-list/1", "total": len(votes), "next": following, "proposals": page}


def proposal(archive: Archive, place: str, _query: Mapping[str, str]) -> Document:
    """Return the latest version of a proposal."""
    space, _, name = place.partition("/proposals/")
    found = next((vote for vote in _newest(archive, space, VOTES) if vote["id"] == name), None)
    if found is None:
        raise Failure("not_found", f"proposal {one_line(name)} is not in this archive")
    return {"schema": "awk/proposal/1", **found}


def _newest(archive: Archive, space: str, part: Part) -> Sequence[Document]:
    _check_space(archive, space)
    run = _row_of_run(archive, None).key
    return [archive.read(row) for row in archive.rows[part] if row.run == run]


def documents(archive: Archive, space: str, query: Mapping[str, str]) -> Document:
    """Return the documents of the newest run."""
    found = {row["file"]: row for row in _newest(archive, space, DOCUMENTS)}
    there = [_document(row) for _, row in sorted(found.items()) if row["content"] is not None]
    behind = [row for row in there if row["file"] > query.get("after", "")]
    limit = int(query.get("limit", "1000"))
    following = behind[limit - 1]["file"] if len(behind) > limit else None
    entry = next((row["file"] for row in there if row["entry"]), ENTRY)
    head = {"schema": "awk/doc-list/1", "total": len(there), "next": following}
    return {**head, "space": space, "entry": entry, "electing": None, "documents": behind[:limit]}


def _document(row: Document) -> Document:
    fields = {name: row[name] for name in ("file", "version", "owner")}
    return {
        **fields,
        "size": len(row["content"].encode()),
        "author": row["author"],
        "at": row["at"],
        "entry": row["entry"],
    }


def document(archive: Archive, place: str, query: Mapping[str, str]) -> Document:
    """Return a document in its latest or a given version."""
    space, _, file = place.partition("/documents/")
    found = _versions(archive, space, file)
    asked = query.get("version", str(found[-1]["version"]))
    row = next((row for row in found if str(row["version"]) == asked), None)
    if row is None:
        text = f"version {one_line(asked)} of {one_line(file)} is not in this archive"
        raise Failure("not_found", text, f"available versions: 1 to {found[-1]['version']}")
    if row["content"] is None:
        why = "it deleted the document" if row["action"] == "delete" else "an older kernel wrote it"
        text = f"version {one_line(asked)} of {one_line(file)} has no text in this archive: {why}"
        raise Failure("not_found", text, "list versions: awk doc history")
    return {"schema": "awk/doc/1", **_document(row), "space": space, "content": row["content"]}


def document_history(archive: Archive, place: str, query: Mapping[str, str]) -> Document:
    """Return the versions of a document, the newest first."""
    space, _, file = place.partition("/document-history/")
    rows = _versions(archive, space, file)[::-1]
    before = int(query.get("before", "v0").removeprefix("v"))
    behind = [row for row in rows if not before or row["version"] < before]
    limit = int(query.get("limit", "1000"))
    own = ("file", "content", "owner", "entry", "newest")
    shown = [{name: value for name, value in row.items() if name not in own} for row in behind[:limit]]
    following = f"v{shown[-1]['version']}" if len(behind) > limit else None
    head = {"schema": "awk/doc-history/1", "total": len(rows), "next": following}
    return {**head, "space": space, "file": file, "versions": shown}


def _versions(archive: Archive, space: str, file: str) -> Sequence[Document]:
    found = [row for row in _newest(archive, space, DOCUMENTS) if row["file"] == file]
    if not found:
        raise Failure("not_found", f"document {one_line(file)} is not in this archive")
    return found


def suggestions(archive: Archive, space: str, query: Mapping[str, str]) -> Document:
    """Return the suggestions for documents of the newest run."""
    found = [row for row in _newest(archive, space, SUGGESTIONS) if query.get("state", row["state"]) == row["state"]]
    behind = [row for row in found if int(row["id"][1:]) > int(query.get("after", "s0").removeprefix("s"))]
    limit = int(query.get("limit", "1000"))
    own = ("schema", "space", "content", "diff", "decided_by", "decision_reason", "version")
    shown = [{name: value for name, value in row.items() if name not in own} for row in behind[:limit]]
    following = shown[-1]["id"] if len(behind) > limit else None
    head = {"schema": "awk/doc-suggestion-list/1", "total": len(found), "next": following}
    return {**head, "space": space, "suggestions": shown}


def tasks(archive: Archive, space: str, query: Mapping[str, str]) -> Document:
    """Return the tasks of the newest run."""
    state, name = query.get("state"), query.get("for")
    found = [
        row
        for row in _newest(archive, space, TASKS)
        if state in (None, row["state"]) and name in (None, row["for"], row["holder"])
    ]
    first, limit = number_of(query.get("after", "t0"), "t") or 0, int(query.get("limit", "1000"))
    behind = [row for row in found if (number_of(row["id"], "t") or 0) > first]
    following = behind[limit - 1]["id"] if len(behind) > limit else None
    return {"schema": "awk/task-list/1", "total": len(found), "next": following, "tasks": behind[:limit]}


def task(archive: Archive, place: str, _query: Mapping[str, str]) -> Document:
    """Return the latest version of a task by id or key."""
    space, _, name = place.partition("/tasks/")
    found = [row for row in _newest(archive, space, TASKS) if name in (row["id"], row["key"])]
    if not found:
        raise Failure("not_found", f"task {one_line(name)} is not in this archive")
    return {"schema": "awk/task/1", **found[-1]}


def resource(archive: Archive, name: str, query: Mapping[str, str]) -> Document:
    """Return a resource (a long text to which messages refer), or the requested part of its text."""
    row = next((row for row in archive.rows[RESOURCES] if row.key == name.removeprefix("resource:")), None)
    if row is None:
        raise Failure("not_found", f"resource {one_line(name)} is not in this archive")
    found = archive.read(row)
    whole, offset = found["content"], int(query.get("offset", "0"))
    end = min(offset + int(query["limit"]), len(whole)) if "limit" in query else len(whole)
    return {**found, "content": whole[offset:end], "offset": offset, "next": end if end < len(whole) else None}


_ROUTES: Final = (
    (re.compile("/runs/([^/]+)"), run),
    (re.compile("/spaces/([^/]+)/channel"), channel),
    (re.compile("/spaces/([^/]+)/proposals"), proposals),
    (re.compile("/spaces/([^/]+/proposals/[^/]+)"), proposal),
    (re.compile("/spaces/([^/]+)/documents"), documents),
    (re.compile("/spaces/([^/]+/documents/.+)"), document),
    (re.compile("/spaces/([^/]+/document-history/.+)"), document_history),
    (re.compile("/spaces/([^/]+)/suggestions"), suggestions),
    (re.compile("/spaces/([^/]+)/tasks"), tasks),
    (re.compile("/spaces/([^/]+/tasks/[^/]+)"), task),
    (re.compile("/resources/([^/]+)"), resource),
    (re.compile("/instructions/([^/]+)"), instruction),
    (re.compile("/instructions/([^/]+)/entries"), entries),
)
"""Supported paths of the kernel's API."""
