"""Notes of an agent: Markdown files in its folder ``notes/``, named by when and what. Pure.

``2026-11-21-143805-learned-about-auth.md``; the time may be missing in files that people make. A title is the first
line, ``# Learned about auth``; without one the first line of the text stands for it.
"""

import re
from typing import Final, NamedTuple

SUFFIX: Final = ".md"
TEXT_LIMIT: Final = 256 * 1024
SLUG_LIMIT: Final = 40
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:-(\d{6}))?(?:-(.*))?\.md", re.ASCII)


class Note(NamedTuple):
    """One note. ``date`` is empty where the file's name says none."""

    file: str
    date: str
    title: str
    text: str


class NoteRejected(ValueError):
    """A text that cannot be a note. The text says why."""


def file_name(stamp: str, text: str) -> str:
    """The name of the file for a note of ``text``. ``stamp``: ``2026-11-21-143805``."""
    slug = _slug(title_of(text))
    return f"{stamp}-{slug}{SUFFIX}" if slug else f"{stamp}{SUFFIX}"


def content(text: str, title: str | None = None) -> str:
    """What the file of a note says. Raises NoteRejected."""
    body = text.strip("\n")
    if not body.strip():
        raise NoteRejected("the note is empty")
    if len(body) > TEXT_LIMIT:
        raise NoteRejected(f"the note is longer than {TEXT_LIMIT} characters")
    heading = f"# {' '.join(title.split())}\n\n" if title and title.strip() else ""
    return f"{heading}{body}\n"


def note(file: str, text: str) -> Note:
    """The note in ``file``. Raises NoteRejected where nothing is in it."""
    if not text.strip():
        raise NoteRejected("is empty")
    named = _NAME.fullmatch(file)
    return Note(file, named[1] if named else "", title_of(text), text)


def order(file: str) -> tuple[str, str, str]:
    """Sort key: oldest first; names without a date come first of all."""
    named = _NAME.fullmatch(file)
    stem = file.removesuffix(SUFFIX)
    return (named[1], named[2] or "", stem) if named else ("", "", stem)


def title_of(text: str) -> str:
    """The title of a note: its heading, or its first line."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first.lstrip("#").strip() if re.match(r"#{1,6} ", first) else first


def _slug(title: str) -> str:
    """A few words of ``title`` for a file's name."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words if len(words) <= SLUG_LIMIT else words[:SLUG_LIMIT].rpartition("-")[0] or words[:SLUG_LIMIT]
