"""Record of a run, from which its reports are generated, the findings in it, and the escaping of its texts.

Pure: the caller reads the log and passes the rows. Agents wrote the texts, and the next step of a CI job may print a
report into its log. Therefore all texts are limited in length and contain nothing that a runner
(interface.cli.runner_log), a page or a terminal would interpret.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, cast

import msgspec

from interface.cli.output import escape, one_line
from interface.cli.runner_log import neutral
from interface.failure import Place
from protocol.api.approvals import Need
from protocol.api.instructions import InstructionInfo
from protocol.api.runs import RunReport, WorktreeDiff
from protocol.message import SYSTEM, USER, Message
from protocol.tasks import TaskInfo
from protocol.voting import BallotInfo

LINE: Final = 300
BLOCK: Final = 6000
BLOCK_LINES: Final = 150


def line_of(text: str, most: int = LINE) -> str:
    """Return ``text`` on one line of at most ``most`` characters."""
    shown = neutral(one_line(text[: most * 2]))
    return shown if len(shown) <= most and len(text) <= most * 2 else f"{shown[: most - 1]}…"


def block_of(text: str, most: int = BLOCK) -> list[str]:
    """Return the lines of ``text``, at most ``most`` characters in total; a last line states the omission."""
    shown = neutral(escape(text[:most])).rstrip("\n")[:most].split("\n")
    cut = len(text.rstrip("\n")) > most or len(shown) > BLOCK_LINES
    return [*shown[:BLOCK_LINES], f"[... {len(text):,} characters in all ...]"] if cut else shown


def code(text: str, most: int = LINE) -> str:
    """Escape ``text`` for a line of Markdown, without links, images, HTML or mentions.

    GitHub and GitLab detect mentions and addresses even in escaped text, but not in code. A vertical bar would end a
    table cell even in code, so it is replaced.
    """
    line = line_of(text, most).replace("|", "¦")
    fence = "`" * (_longest_run(line) + 1)
    return f"{fence} {line} {fence}" if line else "-"


def fenced(text: str, most: int = BLOCK) -> list[str]:
    """Return ``text`` as a code block of Markdown, followed by an empty line."""
    lines = block_of(text, most)
    fence = "`" * max(3, *(_longest_run(line) + 1 for line in lines))
    return [f"{fence}text", *lines, fence, ""]


def _longest_run(line: str) -> int:
    return max(map(len, re.findall("`+", line)), default=0)


Level = Literal["error", "warning", "note"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")
"""Levels of findings, the most severe first."""
MOST_FINDINGS: Final = 1000
MOST_LINES: Final = 5000
"""Maximum number of lines of a text that are searched for findings."""
LINE_CHARACTERS: Final = 4000
PATH_CHARACTERS: Final = 300
_FINDING: Final = re.compile(
    r"[ \t]{0,8}(?:[-*][ \t]{1,4})?[`*]{0,4}(?P<path>[^\s:`*\"'<>|?\\]{1,300}):(?P<line>\d{1,7})"
    r"(?::(?P<column>\d{1,5}))?[`*]{0,4}(?::[`*]{0,4}[ \t]+|[ \t]+[-\u2013\u2014][ \t]+)(?P<text>\S.*)"
)
"""``src/app.py:12: error: text``, optionally with a column, in a list, or with the location in backticks."""
_LEVEL: Final = re.compile(r"[\[(*]{0,3}(error|warning|note)[\])*]{0,3}:?[\])*]{0,3}[ \t]+(?=\S)", re.IGNORECASE)


class RunRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Reason for a missing report: the run did not start, or its result is unknown."""

    code: str
    text: str
    hint: str = ""
    mistakes: tuple[Place, ...] = ()
    """Mistakes in files of the project."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Finding about a line of a file; ``source`` is its origin (``m12``, ``t3``, a proposal)."""

    path: str
    line: int
    column: int | None = None
    level: Level
    text: str
    author: str
    source: str


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Data of a run from which all its reports are generated."""

    name: str
    """``review:main``, or the requested workflow if the run did not start."""
    exit_code: int
    """Exit code of the command."""
    at: str
    """Start of the run in RFC 3339."""
    version: str
    report: RunReport | None = None
    refusal: RunRefusal | None = None
    said: tuple[Message, ...] = ()
    instructions: tuple[InstructionInfo, ...] = ()
    tasks: tuple[TaskInfo, ...] = ()
    ballots: tuple[BallotInfo, ...] = ()
    trees: tuple[WorktreeDiff, ...] = ()
    needs: tuple[Need, ...] = ()
    left_out: int = 0
    """Number of log rows that exceed the limits and are missing here."""
    unread: str = ""
    """Reason that the record contains nothing but ``report``."""
    roots: tuple[str, ...] = ()
    """Directories of project paths: the project and its working trees."""
    prefix: str = ""
    """Path of the project in the repository of the CI job: ``services/api/``."""

    @property
    def id(self) -> str:
        """Return the id of the run, such as ``r12``, or "" if it did not start."""
        return self.report.id if self.report else ""

    @property
    def status(self) -> str:
        """Return the status of the run; ``error`` if the run did not start or its status is unknown."""
        return self.report.status if self.report else "error"

    @property
    def failed(self) -> tuple[InstructionInfo, ...]:
        """Return the instructions that failed or did not finish."""
        return tuple(one for one in self.instructions if one.status not in ("done", "cancelled"))


def findings_of(record: RunRecord) -> tuple[Finding, ...]:
    """Collect findings about lines of files in messages, votes, task results and output.

    The most severe are first, then the order is by location. Duplicates are merged.
    """
    found: dict[tuple[str, int, str], Finding] = {}
    for one in all_findings(record):
        if len(found) >= MOST_FINDINGS:
            break
        found.setdefault((one.path, one.line, " ".join(one.text.split())), one)
    return tuple(sorted(found.values(), key=lambda one: (LEVELS.index(one.level), one.path, one.line)))


def all_findings(record: RunRecord) -> Iterator[Finding]:
    """Yield findings in order of occurrence."""
    if record.report is not None:
        output = record.report.output
        rows = output.get("findings") if isinstance(output, dict) else output
        for row in rows if isinstance(rows, list) else ():
            yield from structured(row, record.roots)
    texts = [(one.text, one.sender, f"m{one.seq}") for one in record.said if one.sender not in (SYSTEM, USER)]
    texts += [(vote.reason, vote.voter, one.id) for one in record.ballots for vote in one.votes]
    texts += [(f"{one.result}\n{one.reason}", one.ended_by or one.holder or "", one.id) for one in record.tasks]
    for text, author, source in texts:
        yield from spoken(text, author, source, record.roots)


def mistake_text(place: Place) -> str:
    """Return a mistake in a file as text, with its location."""
    return f"{place.where}: {place.message}" if place.where else place.message


def spoken(text: str, author: str, source: str, roots: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield the findings in a text: lines of the form ``path:line: text``."""
    for line in text.split("\n", MOST_LINES)[:MOST_LINES]:
        match = _FINDING.match(line[:LINE_CHARACTERS])
        if match is None or (path := path_of(match["path"], roots)) is None:
            continue
        told, level = match["text"], "warning"
        if said := _LEVEL.match(told):
            told, level = told[said.end() :], said[1].lower()
        column = int(match["column"]) if match["column"] else None
        yield _finding(path, int(match["line"]), column, level, told.strip(), author, source)


def structured(row: Any, roots: Iterable[str] = ()) -> Iterator[Finding]:
    """Yield the finding in an element of the JSON output, if it has the form {path, line, text, column?, level?}."""
    if not isinstance(row, dict):
        return
    given = cast("dict[str, Any]", row)
    path, line = given.get("path", given.get("file")), given.get("line")
    text, column = given.get("text", given.get("message")), given.get("column")
    level = given.get("level", given.get("severity", "warning"))
    if not isinstance(path, str) or not isinstance(text, str) or type(line) is not int or line >= 10**7:
        return
    if (place := path_of(path, roots)) is None or not text.strip():
        return
    at = column if type(column) is int and 0 < column < 10**5 else None
    yield _finding(place, line, at, level if level in LEVELS else "warning", text.strip(), "", "output")


def _finding(path: str, line: int, column: int | None, level: str, text: str, author: str, source: str) -> Finding:
    return Finding(
        path=path, line=max(line, 1), column=column or None, level=cast("Level", level), text=text[:LINE_CHARACTERS],
        author=author, source=source,
    )  # fmt: skip


def path_of(named: str, roots: Iterable[str] = ()) -> str | None:
    """Return ``named`` as a path relative to the project; None for times, addresses and outside paths."""
    for root in roots:
        if root and named.startswith(f"{root}/"):
            named = named[len(root) + 1 :]
            break
    while named.startswith("./"):
        named = named[2:]
    parts = named.split("/")
    is_path = bool(re.search(r"[^\W\d_]", named)) and ("." in named or "/" in named)
    if not is_path or "" in parts or ".." in parts or len(named) > PATH_CHARACTERS or "\\" in named or "\0" in named:
        return None
    return named


class Rows:
    """Rows of an exported run that reports use, at most ``MOST`` of each part."""

    MOST: Final = 2000
    """Maximum number of rows of each part."""
    _TYPES: Final[Mapping[str, Any]] = {
        "channel": Message,
        "instructions": InstructionInfo,
        "tasks": TaskInfo,
        "votes": BallotInfo,
    }
    _FIELDS: Final[Mapping[str, str]] = {
        "channel": "said",
        "instructions": "instructions",
        "tasks": "tasks",
        "votes": "ballots",
    }

    def __init__(self) -> None:
        self._rows: dict[str, list[Any]] = {part: [] for part in self._TYPES}
        self.left_out = 0

    def take(self, line: bytes) -> None:
        """Add a row of the archive; of a long channel, only the last rows are retained. Raises msgspec.DecodeError."""
        part = line[9 : line.find(b'"', 9)].decode("ascii", "replace") if line.startswith(b'{"part":"') else ""
        if part not in self._TYPES:
            return
        rows = self._rows[part]
        rows.append(msgspec.convert(json.loads(line)["row"], self._TYPES[part]))
        if len(rows) > self.MOST:
            del rows[0 if part == "channel" else -1]
            self.left_out += 1

    def fields(self) -> dict[str, Any]:
        """Return the rows as fields of a record."""
        named = {self._FIELDS[part]: tuple(rows) for part, rows in self._rows.items()}
        return {**named, "left_out": self.left_out}
