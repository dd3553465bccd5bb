"""Documents of a workspace: their names, their owners, and how texts are compared and merged, line by line. Pure.

A text is its lines between line feeds, so that the last line counts whether or not something ends it. Texts are
compared by the lines that both have once (patience), and exactly only between those and where that is cheap: a
comparison takes about as long as its texts are, whoever wrote them. Two changes of one text touch where they change the
same place of it, or places with no line between.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Final, Literal, NamedTuple
from unicodedata import is_normalized

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


class Owner(NamedTuple):
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


def owner_of(file: str, owners: Sequence[Owner]) -> str | None:
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


class Hunk(NamedTuple):
    """Lines ``start`` to ``end`` of one text, which are ``lines`` in another."""

    start: int
    end: int
    lines: tuple[str, ...]


def lines_of(text: str) -> list[str]:
    """The lines of ``text``: one more than it has line feeds."""
    return text.split("\n")


def visible(lines: Sequence[str]) -> Sequence[str]:
    """``lines`` as people count them: what follows the last line feed is none, if it is nothing."""
    return lines[:-1] if lines and not lines[-1] else lines


def growth(undo: Sequence[Hunk], lines: Sequence[str]) -> tuple[int, int]:
    """Count the lines that people see added, and removed, in the text with ``lines``, by what ``undo`` undoes."""
    added, removed = sum(hunk.end - hunk.start for hunk in undo), sum(len(hunk.lines) for hunk in undo)
    last = undo[-1] if undo and undo[-1].end == len(lines) else None
    if last is not None:
        added -= len(lines) - len(visible(lines)) if last.end > last.start else 0
        removed -= len(last.lines) - len(visible(last.lines))
    return added, removed


_CELLS: Final = 200_000
"""So many pairs of lines are compared exactly at once."""
_ROOM: Final = 2_000_000
"""Lines and pairs that one comparison may look at; what is left then counts as changed."""


def changes(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return the hunks that make ``new`` of ``old``, in order; between any two there is a line that stays."""
    return [Hunk(a, b, tuple(new[c:d])) for a, b, c, d in _differences(old, new)]


def undoing(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return the hunks that make ``old`` of ``new`` again: the same places as ``changes``."""
    return [Hunk(c, d, tuple(old[a:b])) for a, b, c, d in _differences(old, new)]


def applied(lines: Sequence[str], hunks: Iterable[Hunk]) -> list[str]:
    """Return ``lines`` with ``hunks``, which are in order, applied."""
    made: list[str] = []
    place = 0
    for hunk in hunks:
        made += lines[place : hunk.start]
        made += hunk.lines
        place = hunk.end
    return [*made, *lines[place:]]


def _differences(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, end) in ``old`` and in ``new`` of what differs."""
    a = c = 0
    for x, y in (*_pairs(old, new), (len(old), len(new))):
        if a < x or c < y:
            yield a, x, c, y
        a, c = x + 1, y + 1


def _pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines of both that stay as they are, in order: each as its places in ``old`` and in ``new``."""
    found: list[tuple[int, int]] = []
    room = _ROOM
    waiting = [(0, len(old), 0, len(new))]
    while waiting:
        a, b, c, d = waiting.pop()
        while a < b and c < d and old[a] == new[c]:
            found.append((a, c))
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
            found.append((b, d))
        room -= b - a + d - c
        if a == b or c == d or room < 0:
            continue
        anchors = _anchors(old, new, a, b, c, d)
        if anchors:
            found += anchors
            edges = [(a - 1, c - 1), *anchors, (b, d)]
            waiting += [(p + 1, q, r + 1, s) for (p, r), (q, s) in pairwise(edges)]
        elif (b - a) * (d - c) <= min(room, _CELLS):
            room -= (b - a) * (d - c)
            found += _longest(old, new, a, b, c, d)
    return sorted(found)


def _anchors(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
    """Return lines that both parts have once, as many as there are in the same order in both."""
    here = _once(old, a, b)
    there = _once(new, c, d)
    pairs = [(x, there[line]) for line, x in here.items() if line in there]
    ends: list[int] = []
    """The last place in ``new`` of the best sequence of each length, and which pair that is."""
    tops: list[int] = []
    before: list[int] = []
    for number, (_, y) in enumerate(pairs):
        length = bisect_left(ends, y)
        before.append(tops[length - 1] if length else -1)
        ends[length : length + 1] = [y]
        tops[length : length + 1] = [number]
    best: list[tuple[int, int]] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        best.append(pairs[at])
        at = before[at]
    return best[::-1]


def _once(lines: Sequence[str], start: int, end: int) -> dict[str, int]:
    """Return the lines that are there once, with their places, in order."""
    places: dict[str, int] = {}
    for place in range(start, end):
        line = lines[place]
        places[line] = -1 if line in places else place
    return {line: place for line, place in places.items() if place >= 0}


def _longest(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
    """Return the longest common subsequence of two parts."""
    table = [[0] * (d - c + 1)]
    for x in range(b - 1, a - 1, -1):
        below, row = table[-1], [0] * (d - c + 1)
        for y in range(d - c - 1, -1, -1):
            row[y] = below[y + 1] + 1 if old[x] == new[c + y] else max(below[y], row[y + 1])
        table.append(row)
    found: list[tuple[int, int]] = []
    x, y = 0, 0
    while a + x < b and c + y < d:
        if old[a + x] == new[c + y]:
            found.append((a + x, c + y))
            x, y = x + 1, y + 1
        elif table[b - a - x - 1][y] >= table[b - a - x][y + 1]:
            x += 1
        else:
            y += 1
    return found


_AROUND: Final = 3
"""Lines that are shown before and behind what differs."""


def unified(names: tuple[str, str], old: Sequence[str], new: Sequence[str]) -> str:
    """Return what ``new`` has other than ``old``, as a unified diff; "" where they are the same."""
    shown: list[str] = []
    group: list[Hunk] = []
    shift = 0
    for hunk in (*changes(old, new), None):
        if group and (hunk is None or hunk.start - group[-1].end > 2 * _AROUND):
            start, end = max(group[0].start - _AROUND, 0), min(group[-1].end + _AROUND, len(old))
            body: list[str] = []
            place = start
            for one in group:
                body += [f" {line}" for line in old[place : one.start]]
                body += [f"-{line}" for line in old[one.start : one.end]] + [f"+{line}" for line in one.lines]
                place = one.end
            body += [f" {line}" for line in old[place:end]]
            grown = sum(len(one.lines) - (one.end - one.start) for one in group)
            first = start + shift
            shown += [f"@@ -{_range(start, end - start)} +{_range(first, end - start + grown)} @@", *body]
            shift += grown
            group = []
        if hunk is not None:
            group.append(hunk)
    return "\n".join((f"--- {names[0]}", f"+++ {names[1]}", *shown, "")) if shown else ""


def _range(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


class Clash(NamedTuple):
    """A place of a text that both sides changed: the lines it has, and what each side made of it."""

    line: int
    base: tuple[str, ...]
    current: tuple[str, ...]
    yours: tuple[str, ...]


def merge(base: str, current: str, yours: str) -> str | tuple[Clash, ...]:
    """Return the text with what both sides made of ``base``, or where their changes touch.

    What both changed alike is taken once.
    """
    lines = lines_of(base)
    ours, theirs = changes(lines, lines_of(current)), changes(lines, lines_of(yours))
    taken: list[Hunk] = []
    clashes: list[Clash] = []
    while ours or theirs:
        first = min(ours[0] if ours else theirs[0], theirs[0] if theirs else ours[0])
        # All that touches, on either side, is one place.
        start, end, left, right = first.start, first.end, 0, 0
        while True:
            if left < len(ours) and ours[left].start <= end:
                end, left = max(end, ours[left].end), left + 1
            elif right < len(theirs) and theirs[right].start <= end:
                end, right = max(end, theirs[right].end), right + 1
            else:
                break
        own, other = (_part(lines, start, end, hunks) for hunks in (ours[:left], theirs[:right]))
        if not left or not right or own == other:
            taken.append(Hunk(start, end, own if left else other))
        else:
            clashes.append(Clash(start + 1, tuple(lines[start:end]), own, other))
        del ours[:left], theirs[:right]
    return tuple(clashes) if clashes else "\n".join(applied(lines, taken))


def _part(lines: Sequence[str], start: int, end: int, hunks: Iterable[Hunk]) -> tuple[str, ...]:
    """Return what ``hunks`` make of the lines from ``start`` to ``end``."""
    moved = (Hunk(hunk.start - start, hunk.end - start, hunk.lines) for hunk in hunks)
    return tuple(applied(lines[start:end], moved))


class Change(NamedTuple):
    """A change that is asked for. ``since``: the version it was made from; None: whatever there is.

    ``strict``: a version that is not the newest is refused, also where both changes could be merged.
    """

    action: Literal["write", "append", "create", "delete"]
    content: str = ""
    since: int | None = None
    strict: bool = False


class Standing(NamedTuple):
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


def next_version(file: str, asked: Change, now: Standing, text_of: Callable[[int], str]) -> NextVersion | None:
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


def conflict(file: str, now: Standing, since: int, base: str, yours: str, clashes: Sequence[Clash]) -> DocumentConflict:
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


def blame(lines: int, undo: Iterable[tuple[int, Sequence[Hunk]]]) -> list[int]:
    """Return which version brought each of so many ``lines`` of a text.

    ``undo`` are its versions with what undoes them, the newest first, down to the one that began it.
    """
    found = [0] * lines
    slots: list[int] = list(range(lines))
    """Of each line of the version at hand, which line of the text it became; -1: none."""
    left = lines
    for version, hunks in undo:
        older: list[int] = []
        place = 0
        for hunk in hunks:
            older += slots[place : hunk.start]
            for slot in slots[hunk.start : hunk.end]:
                if slot >= 0:
                    found[slot] = version
                    left -= 1
            older += [-1] * len(hunk.lines)
            place = hunk.end
        slots = older + slots[place:]
        if not left:
            break
    return found
