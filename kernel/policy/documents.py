"""Documents of a workspace: names, owners, versions, and the files that mirror them. Pure."""

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple
from unicodedata import is_normalized

from kernel.policy.text_diff import Clash, merge
from protocol.api.document import DocumentConflict
from protocol.documents import CONTENT_BYTES, FILE_BYTES, FILE_PARTS, LINES_LIMIT, Action
from protocol.errors import Refused

_LONGEST_PART: Final = 100
_UNWANTED: Final = frozenset('\\:*?"<>|')
"""Characters that some file systems do not allow in names."""


def file_fault(file: str) -> str | None:
    """Return why ``file`` is not a valid document name; None if it is valid."""
    parts = file.split("/")
    if not file or "" in parts:
        return "is not a file path" if file.strip("/") else "is empty"
    if len(parts) > FILE_PARTS or len(file.encode("utf-8", "replace")) > FILE_BYTES:
        return f"is too long: {FILE_PARTS} parts and {FILE_BYTES} bytes at most"
    for part in parts:
        if part.startswith(".") or part != part.strip() or part.endswith(".") or len(part) > _LONGEST_PART:
            return "has a part that is hidden, too long, or starts or ends with a space or a dot"
        plain = part.isprintable() and is_normalized("NFC", part)
        if not plain or _UNWANTED & set(part) or part.startswith("~"):
            return "contains a character that is not allowed in document names"
    return None


def check_file(file: str, others: Iterable[str] = ()) -> str:
    """Return ``file`` if it is a valid name beside the documents ``others``. Raises Refused."""
    fault = file_fault(file)
    if fault is not None:
        hint = "use a name like notes.md or findings/auth.md"
        raise Refused("bad_request", f"document name {file[:100]!r} {fault}", hint)
    folded = file.casefold()
    for other in others:
        known = other.casefold()
        if known == folded and other != file:
            raise Refused("conflict", f"document {other!r} already exists", "names must differ by more than case")
        if known.startswith(f"{folded}/") or folded.startswith(f"{known}/"):
            folder = min(file, other, key=len)
            raise Refused(
                "conflict", f"documents {file!r} and {other!r} conflict: {folder} is a file", "use another name"
            )
    return file


class DocumentOwner(NamedTuple):
    """Owner of the documents that match ``pattern``; ``name`` is None if the ownership ended."""

    pattern: str
    name: str | None


EVERYTHING: Final = "**"
"""The pattern of all documents."""


def covers(pattern: str, file: str) -> bool:
    """Return whether ``pattern`` matches ``file`` or a folder above it; only ``**`` matches across folders."""
    wanted = pattern.strip("/").split("/")
    reached = {0}
    for part in (*file.split("/"), None):
        # ``**`` also matches zero folders.
        for place in range(len(wanted)):
            if place in reached and wanted[place] == "**":
                reached.add(place + 1)
        if len(wanted) in reached:
            return True
        reached = {
            place if wanted[place] == "**" else place + 1
            for place in reached
            if part is not None and (wanted[place] == "**" or fnmatchcase(part, wanted[place]))
        }
    return False


def owner_of(file: str, owners: Sequence[DocumentOwner]) -> str | None:
    """Return the owner of ``file``: the newest of ``owners`` (oldest first) that matches it."""
    return next((one.name for one in reversed(owners) if covers(one.pattern, file)), None)


def check_writer(file: str, writer: str, owner: str | None, *, person: bool, electing: str | None) -> None:
    """Raise Refused if ``writer`` may not change ``file``; a person (``person``) always may.

    ``electing`` is the open proposal by which the members elect an owner.
    """
    if person:
        return
    if electing is not None:
        hint = f"vote on {electing} (team_vote), and write after it has ended"
        raise Refused("conflict", "documents have no owner yet: the members are electing one", hint)
    if owner is not None and owner != writer:
        hint = "suggest the change with team_doc_suggest"
        raise Refused("forbidden", f"document {file!r} can only be written by its owner {owner}", hint)


def check_judge(file: str, judge: str, author: str, owner: str | None, *, person: bool, accepts: bool) -> None:
    """Raise Refused (forbidden) if ``judge`` may not decide about the suggestion of ``author``.

    The document's owner or a person decides; without an owner, any member. The author may only
    withdraw the suggestion (``accepts`` is False).
    """
    if person or judge == owner or (judge == author and not accepts):
        return
    if owner is not None:
        raise Refused(
            "forbidden",
            f"suggestions for document {file!r} are decided by its owner {owner}",
            f"explain the benefit to {owner}",
        )
    if judge == author:
        hint = "ask a colleague, or hold a vote: team_proposal_create with type approval, binding, and binds"
        raise Refused("forbidden", f"agent {judge!r} cannot accept its own suggestion", hint)


class DocumentChange(NamedTuple):
    """Requested change; ``since`` is the version that it is based on, None for the current one.

    ``strict``: refuse a change of an older version even if it could be merged.
    """

    action: Literal["write", "append", "create", "delete"]
    content: str = ""
    since: int | None = None
    strict: bool = False


class DocumentState(NamedTuple):
    """Current state of a document; ``text`` None: deleted, or (version 0) never created."""

    version: int
    text: str | None


class NextVersion(NamedTuple):
    """Next version of a document; ``text`` None: deleted."""

    action: Action
    text: str | None


class Clashing(Refused):
    """Refusal of a change that is based on an older version and cannot be merged."""

    def __init__(self, conflict: DocumentConflict) -> None:
        text = f"document {conflict.file!r} changed since version {conflict.since}; newest version: {conflict.version}"
        hint = f"apply your change to current and write it with if_version {conflict.version}"
        super().__init__("version_conflict", text, hint)
        self.conflict = conflict


def next_version(
    file: str, asked: DocumentChange, now: DocumentState, text_of: Callable[[int], str]
) -> NextVersion | None:
    """Return the next version of ``file`` after the change ``asked``; None if nothing changes.

    ``text_of`` returns the text of an older version. Raises Refused: not_found, already_exists, bad_request,
    too_large, and Clashing.
    """
    if asked.since is not None and asked.since > now.version:
        text = f"document {file!r} has no version {asked.since}: the newest is {now.version}"
        raise Refused("bad_request", text, "read the document and name the version that you read")
    older = asked.since is not None and asked.since < now.version
    if asked.action == "create" and now.text is not None:
        raise Refused("already_exists", f"document {file!r} already exists", "write to it, or use another name")
    if asked.action == "delete" and now.text is None:
        raise Refused("not_found", f"document {file!r} not found", "list the documents with team_doc_list")
    if older and (asked.strict or asked.action == "delete" or now.text is None):
        raise Clashing(conflict(file, now, asked.since or 0, text_of(asked.since or 0), asked.content, ()))
    if asked.action == "delete":
        return NextVersion("delete", None)
    if now.text is None:
        return NextVersion("create", _fitting(file, asked.content))
    made: str = asked.content
    if asked.action == "append":
        gap = "" if not now.text or now.text.endswith("\n") else "\n"
        made = f"{now.text}{gap}{asked.content}" if asked.content else now.text
    elif older:
        base = text_of(asked.since or 0)
        merged = merge(base, now.text, asked.content)
        if not isinstance(merged, str):
            raise Clashing(conflict(file, now, asked.since or 0, base, asked.content, merged))
        made = merged
    if made == now.text:
        return None
    return NextVersion("merge" if older else "append" if asked.action == "append" else "write", _fitting(file, made))


def _fitting(file: str, text: str) -> str:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > CONTENT_BYTES or text.count("\n") >= LINES_LIMIT:
        text = f"document {file!r} too large: {size:,} bytes (limits: {CONTENT_BYTES:,} bytes, {LINES_LIMIT:,} lines)"
        raise Refused("too_large", text, "move a part into another document")
    return text


SHOWN_BYTES: Final = 64 * 1024
"""Maximum total size of the three texts of a conflict; larger texts are shortened."""


def conflict(
    file: str, now: DocumentState, since: int, base: str, yours: str, clashes: Sequence[Clash]
) -> DocumentConflict:
    """Return the base text (version ``since``), the newest text, and the writer's text (``yours``).

    Long texts are reduced to the conflicting places.
    """
    texts = (base, now.text or "", yours)
    whole = sum(len(text.encode("utf-8", "replace")) for text in texts) <= SHOWN_BYTES
    if not whole and clashes:
        sides = ([one.base for one in clashes], [one.current for one in clashes], [one.yours for one in clashes])
        base, current, yours = ("\n...\n".join("\n".join(lines) for lines in side) for side in sides)
        texts = (base, current, yours)
    if not whole:
        base, current, yours = (text[: SHOWN_BYTES // 3] for text in texts)
        texts = (base, current, yours)
    return DocumentConflict(
        file=file,
        version=now.version,
        since=since,
        base=texts[0],
        current=texts[1],
        yours=texts[2],
        whole=whole,
        lines=tuple(one.line for one in clashes),
    )


MirrorStep = Literal["same", "write", "remove", "take", "delete", "leave"]
"""same: no action. write, remove: change the file. take, delete: a person changed the file; create a version from it.
"""


class Mirrored(NamedTuple):
    """File of a document as last written: its version and the digest of its content.

    ``told``: digest of a person's text that became no version, after the person was notified.
    """

    version: int
    digest: bytes
    told: bytes | None = None


def mirror_step(version: int, newest: bytes | None, left: Mirrored | None, found: bytes | None) -> MirrorStep:
    """Return the next step for the mirror file of a document, whose newest version is ``version``.

    ``newest``: digest of this version, None if deleted. ``found``: digest of the file, None if
    missing. ``left``: the file as last written. A person's text is never overwritten.
    """
    if found == newest:
        return "same"
    if found == (None if left is None else left.digest):
        return "remove" if newest is None else "write"
    if found is None:
        return "delete" if left is not None and left.version == version else "write"
    return "leave" if left is not None and found == left.told else "take"
