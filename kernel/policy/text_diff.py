"""Line-based comparison and merge of texts. Pure.

Texts are split at line feeds, so the last line counts with or without one. The comparison anchors on lines that are
unique in both texts (patience diff) and compares exactly only between anchors and if that is cheap, so its time is
about linear in any input. Two changes of a text conflict if they change the same or adjacent lines.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple


class Hunk(NamedTuple):
    """Lines ``start`` to ``end`` of one text, and their replacement ``lines``."""

    start: int
    end: int
    lines: tuple[str, ...]


def lines_of(text: str) -> list[str]:
    """Return the lines of ``text``. After a final line feed there is an empty last line."""
    return text.split("\n")


def visible(lines: Sequence[str]) -> Sequence[str]:
    """Return ``lines`` as people count them: without an empty last line."""
    return lines[:-1] if lines and not lines[-1] else lines


def growth(undo: Sequence[Hunk], lines: Sequence[str]) -> tuple[int, int]:
    """Count the visible lines that were added to and removed from the text ``lines``, given its ``undo`` hunks."""
    added, removed = sum(hunk.end - hunk.start for hunk in undo), sum(len(hunk.lines) for hunk in undo)
    last = undo[-1] if undo and undo[-1].end == len(lines) else None
    if last is not None:
        added -= len(lines) - len(visible(lines)) if last.end > last.start else 0
        removed -= len(last.lines) - len(visible(last.lines))
    return added, removed


_CELLS: Final = 200_000
"""Maximum pairs of lines in one exact comparison."""
_ROOM: Final = 2_000_000
"""Maximum lines and pairs that one comparison inspects; the rest counts as changed."""


def changes(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return ordered hunks that turn ``old`` into ``new``; unchanged lines separate the hunks."""
    return [Hunk(a, b, tuple(new[c:d])) for a, b, c, d in _differences(old, new)]


def undoing(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return the hunks that turn ``new`` back into ``old``, at the same places as ``changes``."""
    return [Hunk(c, d, tuple(old[a:b])) for a, b, c, d in _differences(old, new)]


def applied(lines: Sequence[str], hunks: Iterable[Hunk]) -> list[str]:
    """Apply the ordered ``hunks`` to ``lines``."""
    made: list[str] = []
    place = 0
    for hunk in hunks:
        made += lines[place : hunk.start]
        made += hunk.lines
        place = hunk.end
    return [*made, *lines[place:]]


def _differences(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    a = c = 0
    for x, y in (*_pairs(old, new), (len(old), len(new))):
        if a < x or c < y:
            yield a, x, c, y
        a, c = x + 1, y + 1


def _pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
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
    here = _once(old, a, b)
    there = _once(new, c, d)
    pairs = [(x, there[line]) for line, x in here.items() if line in there]
    ends: list[int] = []
    """Last index in ``new`` of the best sequence of each length; ``tops`` has the pair that it belongs to."""
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
    places: dict[str, int] = {}
    for place in range(start, end):
        line = lines[place]
        places[line] = -1 if line in places else place
    return {line: place for line, place in places.items() if place >= 0}


def _longest(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
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
"""Context lines before and after a difference."""


def unified(names: tuple[str, str], old: Sequence[str], new: Sequence[str]) -> str:
    """Return the unified diff from ``old`` to ``new``; "" if they are equal."""
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
    """Conflicting lines of both sides and of the base, where they start at ``line`` (from 1)."""

    line: int
    base: tuple[str, ...]
    current: tuple[str, ...]
    yours: tuple[str, ...]


def merge(base: str, current: str, yours: str) -> str | tuple[Clash, ...]:
    """Return ``base`` with the changes of both sides, or their conflicts. Identical changes are applied once."""
    lines = lines_of(base)
    ours, theirs = changes(lines, lines_of(current)), changes(lines, lines_of(yours))
    taken: list[Hunk] = []
    clashes: list[Clash] = []
    while ours or theirs:
        first = min(ours[0] if ours else theirs[0], theirs[0] if theirs else ours[0])
        # Adjacent or overlapping changes of both sides form one place.
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
    moved = (Hunk(hunk.start - start, hunk.end - start, hunk.lines) for hunk in hunks)
    return tuple(applied(lines[start:end], moved))


def blame(lines: int, undo: Iterable[tuple[int, Sequence[Hunk]]]) -> list[int]:
    """Return the version that added each line of a text; ``lines`` is the number of lines.

    ``undo``: all versions of the text with their undo hunks, from the newest to the first.
    """
    found = [0] * lines
    slots: list[int] = list(range(lines))
    """Line of the final text for each line of the current version; -1: deleted since."""
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
