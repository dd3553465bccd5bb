"""Search in the files below a folder: the walk, and the patterns of file tools.

The walk has a fixed order and limits, and follows no links; every step blocks. Patterns use
google-re2, whose time is linear in the text's length (XF23).
"""

import os
import stat
from collections.abc import Iterator
from typing import Any, Final, Protocol, cast

import msgspec
import re2  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
import trio

from osfiles.safe_open import closing_descriptor
from worker.tools.confined_files import ConfinedDir, Parts

LIMIT_FILES: Final = 50_000
LIMIT_DEPTH: Final = 64
"""Maximum depth below the first folder: each folder from there to the current one is open."""
SKIPPED: Final = frozenset(
    {".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".tox"}
)
"""Folders that are searched only if the call names them."""


class FoundFile(msgspec.Struct, frozen=True):
    """A regular file. ``folder`` is a descriptor of its folder, open until the next file is requested."""

    parts: Parts
    folder: int

    @property
    def name(self) -> str:
        """Return the file's name without its folder."""
        return self.parts[-1]


class Walk:
    """The regular files below ``top``. After the walk, ``cut`` describes what was left out, or is ""."""

    def __init__(self, place: ConfinedDir, top: Parts) -> None:
        self._place = place
        self._top = top
        self.cut = ""

    def __iter__(self) -> Iterator[FoundFile]:
        """Yield the files. Raises OSError if ``top`` is not a folder. Cancelling the waiting task ends the walk."""
        seen = 0
        with closing_descriptor(self._place.folder(self._top)) as start:
            for path, folders, names, folder in os.fwalk(".", dir_fd=start, follow_symlinks=False):
                trio.from_thread.check_cancelled()
                below = (*self._top, *(part for part in path.split("/") if part != "."))
                entered = (one for one in folders if one not in SKIPPED and not self._place.hides((*below, one)))
                folders[:] = sorted(entered)
                if folders and len(below) - len(self._top) >= LIMIT_DEPTH:
                    self.cut = f"folders more than {LIMIT_DEPTH} deep were not searched"
                    folders.clear()
                for name in sorted(names):
                    seen += 1
                    if seen > LIMIT_FILES:
                        self.cut = f"only the first {LIMIT_FILES} files were searched"
                        return
                    try:
                        is_regular = stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
                    except OSError:
                        is_regular = False  # deleted since the listing
                    if is_regular:
                        yield FoundFile((*below, name), folder)


MAX_PATTERN: Final = 1000
"""Maximum length of a pattern."""


class BadPattern(ValueError):
    """A pattern that RE2 does not support. The text is for the model."""


class Match(Protocol):
    """A match of a pattern."""

    def start(self) -> int:
        """Return the offset of the match's first byte."""
        ...


class LinePattern:
    """A regular expression for single lines; ``^`` and ``$`` match the start and end of a line."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        options = _options()
        options.never_nl = True
        options.case_sensitive = not ignore_case
        self._found = _compiled(f"(?m){pattern}", options).finditer

    def offsets(self, data: bytes) -> Iterator[int]:
        """Yield the byte offset of each match in ``data``."""
        return (cast(Match, match).start() for match in self._found(data))


class Glob:
    """A glob: ``*.py`` (any folder), ``src/*.py`` (that folder), ``src/**/*.py`` (that folder and all below)."""

    def __init__(self, text: str) -> None:
        pattern = text.removeprefix("./")
        if "/" not in pattern:
            pattern = f"**/{pattern}"
        self._matches = _compiled("".join(_glob_parts(pattern)), _options()).fullmatch

    def __contains__(self, path: str) -> bool:
        """Return whether the pattern matches ``path``, which is relative without a leading ``./``."""
        return self._matches(path.encode("utf-8", "replace")) is not None


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def _compiled(pattern: str, options: Any) -> Any:
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"the pattern is longer than {MAX_PATTERN} characters")
    try:
        return re2.compile(pattern.encode(), options=options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise BadPattern(f"not a valid RE2 regular expression: {text.partition(':')[0]}") from error


def _glob_parts(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            yield "(?:.*/)?"
            at += 3
            continue
        if pattern.startswith("**", at):
            yield ".*"
            at += 2
            continue
        yield {"*": "[^/]*", "?": "[^/]"}.get(pattern[at]) or re2.escape(pattern[at])
        at += 1
