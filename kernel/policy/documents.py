"""Documents of a workspace: names, owners, the versions that changes make, the files that mirror them. Pure."""

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
"""In no name of a file that has to be one everywhere."""


def file_fault(file: str) -> str | None:
    """The reason why no document can be called ``file``; None where one can."""
    parts = file.split("/")
    if not file or "" in parts:
        return "is no path of a file" if file.strip("/") else "is empty"
    if len(parts) > FILE_PARTS or len(file.encode("utf-8", "replace")) > FILE_BYTES:
        return f"is too long: {FILE_PARTS} parts and {FILE_BYTES} bytes at most"
    for part in parts:
        if part.startswith(".") or part != part.strip() or part.endswith(".") or len(part) > _LONGEST_PART:
            return "has a part that is hidden, too long, or begins or ends with a space or a dot"
        plain = part.isprintable() and is_normalized("NFC", part)
        if not plain or _UNWANTED & set(part) or part.startswith("~"):
            return "has a character that no name of a document may have"
    return None


def check_file(file: str, others: Iterable[str] = ()) -> str:
    """Return ``file`` as the name of a document beside the ``others``. Raises Refused (bad_request, conflict)."""
    fault = file_fault(file)
    if fault is not None:
        hint = "documents are called like notes.md or findings/auth.md"
        raise Refused("bad_request", f"{file[:100]!r} {fault}", hint)
    folded = file.casefold()
    for other in others:
        known = other.casefold()
        if known == folded and other != file:
            raise Refused("conflict", f"there is a document {other} already", "names may not differ by case alone")
        if known.startswith(f"{folded}/") or folded.startswith(f"{known}/"):
            folder = min(file, other, key=len)
            raise Refused("conflict", f"{file} and {other} exclude each other: {folder} is a file", "take another name")
    return file


class DocumentOwner(NamedTuple):
    """A member that owns the documents that ``pattern`` names; ``None``: nobody does any more."""

    pattern: str
    name: str | None


EVERYTHING: Final = "**"
"""The pattern of all documents."""


def covers(pattern: str, file: str) -> bool:
    """Return whether ``pattern`` names ``file``, or a folder above it: ``*`` stays in a folder, ``**`` does not."""
    wanted = pattern.strip("/").split("/")
    reached = {0}
    for part in (*file.split("/"), None):
        # A part of the pattern that stands for any number of folders stands for none too.
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
    """Return who owns ``file``: of ``owners``, oldest first, the newest that names it says so."""
    return next((one.name for one in reversed(owners) if covers(one.pattern, file)), None)


def check_writer(file: str, writer: str, owner: str | None, *, person: bool, electing: str | None) -> None:
    """Raise Refused (forbidden, conflict) where ``writer`` may not change ``file``. A ``person`` always may.

    ``electing`` is the proposal by which the members elect an owner, as long as they do.
    """
    if person:
        return
    if electing is not None:
        hint = f"vote on {electing} (team_vote), and write once it has ended"
        raise Refused("conflict", "nobody owns the documents yet: the members are electing their owner", hint)
    if owner is not None and owner != writer:
        hint = "suggest the change: team_doc_suggest"
        raise Refused("forbidden", f"{file} is owned by {owner}, who alone writes it", hint)


def check_judge(file: str, judge: str, author: str, owner: str | None, *, person: bool, accepts: bool) -> None:
    """Raise Refused (forbidden) where ``judge`` may not decide what becomes of the suggestion of ``author``.

    The owner decides, and a person; without an owner any member but the author. An author may take it back.
    """
    if person or judge == owner or (judge == author and not accepts):
        return
    if owner is not None:
        raise Refused("forbidden", f"{file} is owned by {owner}, who decides about it", "tell them why it is good")
    if judge == author:
        hint = "a colleague has to, or a vote: team_proposal_create with type approval, binding, and binds"
        raise Refused("forbidden", f"{judge} cannot accept what {judge} suggested", hint)


class DocumentChange(NamedTuple):
    """A change that is asked for. ``since``: the version it was made from; None: whatever there is.

    ``strict``: a version that is not the newest is refused, also where both changes could be merged.
    """

    action: Literal["write", "append", "create", "delete"]
    content: str = ""
    since: int | None = None
    strict: bool = False


class DocumentState(NamedTuple):
    """A document as it is. ``text`` None: it is deleted, or (version 0) there never was one."""

    version: int
    text: str | None


class NextVersion(NamedTuple):
    """A version that follows. ``text`` None: the document is deleted."""

    action: Action
    text: str | None


class Clashing(Refused):
    """A change of an older version that cannot be taken. ``conflict`` has the texts."""

    def __init__(self, conflict: DocumentConflict) -> None:
        text = f"{conflict.file} is at version {conflict.version}, and your change was made from {conflict.since}"
        hint = f"make it again from current, with if_version {conflict.version}"
        super().__init__("version_conflict", text, hint)
        self.conflict = conflict


def next_version(
    file: str, asked: DocumentChange, now: DocumentState, text_of: Callable[[int], str]
) -> NextVersion | None:
    """Return what follows when ``asked`` is done to ``file``; None: it is that already.

    ``text_of`` knows the text of each older version. Raises Refused: not_found, already_exists, bad_request, too_large,
    and Clashing.
    """
    if asked.since is not None and asked.since > now.version:
        text = f"{file} has no version {asked.since} yet: the newest is {now.version}"
        raise Refused("bad_request", text, "read it, and say which version you have read")
    older = asked.since is not None and asked.since < now.version
    if asked.action == "create" and now.text is not None:
        raise Refused("already_exists", f"there is a document {file} already", "write it, or take another name")
    if asked.action == "delete" and now.text is None:
        raise Refused("not_found", f"there is no document {file}", "it is deleted already, or never was")
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
    """``text``, if it may be a document. Raises Refused (too_large)."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > CONTENT_BYTES or text.count("\n") >= LINES_LIMIT:
        text = f"{file} would have {size:,} bytes; a document has {CONTENT_BYTES:,}, and {LINES_LIMIT:,} lines, at most"
        raise Refused("too_large", text, "put a part into another document")
    return text


SHOWN_BYTES: Final = 64 * 1024
"""The three texts of a conflict are given whole up to here, together."""


def conflict(
    file: str, now: DocumentState, since: int, base: str, yours: str, clashes: Sequence[Clash]
) -> DocumentConflict:
    """Return what a writer is told whose text was made from version ``since``, which had the text ``base``.

    The texts are given whole, or where they are long the places that clash.
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
"""same: nothing to do. write, remove: of the file. take, delete: a person did, and it becomes a version."""


class Mirrored(NamedTuple):
    """A file of a document as it was left: with which version, and the digest of what was in it.

    ``told``: the digest of what a person wrote since that could not be taken, and was told so.
    """

    version: int
    digest: bytes
    told: bytes | None = None


def mirror_step(version: int, newest: bytes | None, left: Mirrored | None, found: bytes | None) -> MirrorStep:
    """Return what is to be done with the file of a document, whose newest version digests to ``newest``.

    ``found`` is the digest of what is in the file. None: there is no such text, or file. What a person wrote is never
    overwritten.
    """
    if found == newest:
        return "same"
    if found == (None if left is None else left.digest):
        return "remove" if newest is None else "write"
    if found is None:
        return "delete" if left is not None and left.version == version else "write"
    return "leave" if left is not None and found == left.told else "take"
