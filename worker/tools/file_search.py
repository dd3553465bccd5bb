"""Searching the files below a folder: the walk through them, and the patterns that file tools take.

The walk goes in a fixed order, bounded, and follows no link; every step blocks. Patterns are for google-re2: what they
cost grows with the text, and with nothing else (XF23).
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
"""Folders within folders below the first: each on the way is held open."""
SKIPPED: Final = frozenset(
    {".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".tox"}
)
"""Folders that are gone through only when they are asked for by name."""


class FoundFile(msgspec.Struct, frozen=True):
    """A regular file. ``folder`` is a descriptor, open until the next one is asked for."""

    parts: Parts
    folder: int

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]


class Walk:
    """The regular files below ``top``. ``cut`` says afterwards what was left out; "" where nothing was."""

    def __init__(self, place: ConfinedDir, top: Parts) -> None:
        self._place = place
        self._top = top
        self.cut = ""

    def __iter__(self) -> Iterator[FoundFile]:
        """Raises OSError where ``top`` is no folder. Cancellation of the task that waits for this thread ends it."""
        seen = 0
        with closing_descriptor(self._place.folder(self._top)) as start:
            for path, folders, names, folder in os.fwalk(".", dir_fd=start, follow_symlinks=False):
                trio.from_thread.check_cancelled()
                below = (*self._top, *(part for part in path.split("/") if part != "."))
                entered = (one for one in folders if one not in SKIPPED and not self._place.hides((*below, one)))
                folders[:] = sorted(entered)
                if folders and len(below) - len(self._top) >= LIMIT_DEPTH:
                    self.cut = f"folders more than {LIMIT_DEPTH} deep were not looked into"
                    folders.clear()
                for name in sorted(names):
                    seen += 1
                    if seen > LIMIT_FILES:
                        self.cut = f"only the first {LIMIT_FILES} files were looked at"
                        return
                    try:
                        is_regular = stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
                    except OSError:
                        is_regular = False  # gone since it was listed
                    if is_regular:
                        yield FoundFile((*below, name), folder)


MAX_PATTERN: Final = 1000
"""Characters of a pattern."""


class BadPattern(ValueError):
    """A pattern that RE2 does not take. The text is for the model."""


class Match(Protocol):
    """A place in which a pattern was found."""

    def start(self) -> int:
        """The offset of its first byte."""
        ...


class LinePattern:
    """A regular expression that is looked for within lines; ``^`` and ``$`` are theirs."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Raises BadPattern."""
        options = _options()
        options.never_nl = True
        options.case_sensitive = not ignore_case
        self._found = _compiled(f"(?m){pattern}", options).finditer

    def offsets(self, data: bytes) -> Iterator[int]:
        """Yield the offsets in ``data`` at which it is found."""
        return (cast(Match, match).start() for match in self._found(data))


class Glob:
    """``*.py`` (any folder), ``src/*.py`` (that folder), ``src/**/*.py`` (that folder and all below)."""

    def __init__(self, text: str) -> None:
        """Raises BadPattern."""
        pattern = text.removeprefix("./")
        if "/" not in pattern:
            pattern = f"**/{pattern}"
        self._matches = _compiled("".join(_glob_parts(pattern)), _options()).fullmatch

    def __contains__(self, path: str) -> bool:
        """Return whether it matches ``path``, which is relative and has no leading ``./``."""
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
        raise BadPattern(f"not a regular expression that RE2 takes: {text.partition(':')[0]}") from error


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
