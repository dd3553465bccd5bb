r"""Escaping of commands in the log of a CI job: texts of agents must not contain commands for its runner.

GitHub's runner executes a line that starts with ``::`` after blanks, and ``##[`` anywhere in a line. Azure does so with
``##vso[`` and TeamCity with ``##teamcity[``. A backslash inside these markers disables them. (GitLab's markers need
control characters, which are escaped.)
"""

import io
import re
from collections.abc import Mapping
from typing import Final, TextIO

_RUNNERS: Final = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
_COMMAND: Final = r"(?m)^[^\S\n]*:(?=:)|##\w{0,20}(?=\[)"
"""Characters that start a command together with the next character."""
_BEGUN: Final = r"[^\S\n]*:?"
"""A line that may still become a command of the first kind."""
_MARK: Final = r"##?\w{0,20}\Z"


def is_read_by_runner(environ: Mapping[str, str]) -> bool:
    """Return whether the output goes to the log of a CI job."""
    return any(environ.get(name) for name in _RUNNERS)


def neutral(text: str) -> str:
    """Escape commands in ``text``, which starts a line."""
    return re.sub(_COMMAND, r"\g<0>\\", text)


class RunnerStream(io.TextIOWrapper):
    """Standard stream that disables runner commands in its text, even if a command is split into several writes."""

    def __init__(self, stream: TextIO) -> None:
        """Wrap ``stream``, which must not be used directly afterwards."""
        assert isinstance(stream, io.TextIOWrapper)
        encoding, errors, line_buffering = stream.encoding, stream.errors, stream.line_buffering
        super().__init__(stream.detach(), encoding, errors, line_buffering=line_buffering)
        self._line = ""

    def write(self, text: str, /) -> int:
        """Write ``text`` with runner commands disabled."""
        whole = self._line + text
        super().write(neutral(whole)[len(self._line) :])
        last = whole.rpartition("\n")[2]
        mark = re.search(_MARK, last)
        self._line = last.strip() if re.fullmatch(_BEGUN, last) else "." + (mark[0] if mark else "")
        return len(text)


def neutral_json(document: str) -> str:
    """Return the same JSON value with runner commands escaped, which occur only within strings."""
    return re.sub(r"(##\w{0,20})\[", r"\1\\u005b", document)
