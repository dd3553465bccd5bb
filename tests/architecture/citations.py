"""References from code and documents to pages, numbered headings and rows, files and modules; each must resolve."""

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from protocol.message import DURABLE
from tests.architecture.decisions_page import decisions
from tests.architecture.sources import PACKAGES, ROOT

CITING: Final = (*PACKAGES, "tests", "scripts", "examples", "docs")
BESIDE: Final = ("README.md", "SECURITY.md", "CHANGELOG.md", "pyproject.toml", ".importlinter")
SUFFIXES: Final = frozenset({".py", ".md", ".sql", ".toml", ".yaml", ".sh", ""})
OWN: Final = frozenset({"tests/architecture/citations.py", "tests/architecture/test_citations.py"})
"""Examples of what is wrong stand here."""

FILE: Final = re.compile(
    r"(?<![\w/.$}-])((?:kernel|worker|interface|protocol|osfiles|tests|scripts|docs|schema)/[\w/.-]*\w\.(?:py|md|sql|sh|yaml))\b"
)
MODULE: Final = re.compile(
    r"(?<![\w/.-])((?:kernel|worker|interface|protocol|osfiles)(?:\.[a-z_]\w*){1,4})(?![\w/]|\.py|\.md)"
)
NO_MODULES: Final = frozenset({"kernel.log", "protocol.allow", "protocol.ext.allow", *DURABLE})
"""Names with a dot that are a file's, an event's or a setting's of git."""


NUMBERED: Final = re.compile(r"\d|\.md|decisions|promise\(")
"""What every form of citation has."""


class Place(NamedTuple):
    """A line of a file of the repository."""

    path: Path
    number: int
    line: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.number}"


@cache
def _page(name: str) -> str:
    return "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob(name))


@cache
def _has_heading(page: str, number: str) -> bool:
    return bool(re.search(rf"^#+ {re.escape(number)}[. ]", _page(page), re.MULTILINE))


@cache
def _has_row(number: str) -> bool:
    return bool(re.search(rf"^###+ {re.escape(number)}\b", _page("promises.md"), re.MULTILINE))


def _is_decision(number: str) -> bool:
    return any(number in {str(one.topic), f"{one.topic}.{one.number}"} for one in decisions())


def _is_page(name: str) -> bool:
    return bool(_page(name))


def _never(_number: str) -> bool:
    return False


CITATIONS: Final[tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...]] = (
    (re.compile(r"\bcontracts(?:\.md)?,? (?:sections? )?(\d+(?:\.\d+)?)"), partial(_has_heading, "contracts.md")),
    (re.compile(r"\bdecisions? (\d+(?:\.\d+)?)\b"), _is_decision),
    (re.compile(r"\b(decisions\.md)\b"), _never),
    (re.compile(r"\bdecisions, ([A-Z][a-z]+)\b"), _never),
    (re.compile(r"(?<![\w/.-])((?:contracts|promises|style|architecture|glossary|trials)\.md)\b"), _is_page),
    (re.compile(r"\b([PISTCHLX]F\d\d)\b"), _has_row),
    (re.compile(r"(?:\b[Pp]romises? |\()(P\d+)\b"), _has_row),
    (re.compile(r"promise\((?:\"[^\"]*\", )*\"(\w+)\""), _has_row),
    (
        re.compile(r"\b(?:promises(?:\.md)?|style(?:\.md)?|[Ii]ssue point|packaging guard|traps?) (T?\d+(?:\.\d+)?)\b"),
        _never,
    ),
    (re.compile(r"\((T\d\d)\)"), _never),
)
"""Forms of citation, each with its check. A section is cited by number, never by a word of its heading."""


def places() -> Iterator[Place]:
    """Every line of text that may cite something."""
    files = (path for folder in CITING for path in sorted((ROOT / folder).rglob("*")))
    for path in (*files, *(ROOT / name for name in BESIDE)):
        if path.suffix in SUFFIXES and path.is_file() and "__pycache__" not in path.parts:
            if path.relative_to(ROOT).as_posix() in OWN:
                continue
            try:
                text = path.read_text("utf-8")
            except UnicodeDecodeError:
                continue
            for number, line in enumerate(text.splitlines(), 1):
                yield Place(path, number, line)


def dangling(line: str) -> list[str]:
    """List the citations of a line that lead nowhere."""
    if not NUMBERED.search(line):
        return []
    found = [m.group(0) for pattern, resolves in CITATIONS for m in pattern.finditer(line) if not resolves(m.group(1))]
    return sorted(set(found))


def missing_files(line: str) -> list[str]:
    """List the files of the repository that a line names and that are not there."""
    return [name for name in FILE.findall(line) if not (ROOT / name).exists()]


def missing_modules(line: str) -> list[str]:
    """List the modules and members that a line names and that are not there."""
    return [name for name in MODULE.findall(line) if name not in NO_MODULES and not _is_there(name)]


@cache
def _is_there(name: str) -> bool:
    folder = ROOT
    *_, last = parts = name.split(".")
    for index, part in enumerate(parts):
        if (folder / part).is_dir():
            folder /= part
            continue
        module = folder / f"{part}.py"
        if not module.is_file():
            return False
        return index == len(parts) - 1 or bool(re.search(rf"\b{last}\b", module.read_text("utf-8")))
    return True
