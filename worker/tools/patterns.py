"""Patterns of file tools, for google-re2: what they cost grows with the text, and with nothing else (XF23). Pure."""

from collections.abc import Iterator
from typing import Any, Final, Protocol, cast

import re2  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

MAX_PATTERN: Final = 1000
"""Characters of a pattern."""


class BadPattern(ValueError):
    """A pattern that RE2 does not take. The text is for the model."""


class Match(Protocol):
    """A place in which a pattern was found."""

    def start(self) -> int:
        """The offset of its first byte."""
        ...


class Lines:
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
