"""Phrases that a reader has to decode, counted in code, documents and the texts that users see."""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.architecture.sources import ROOT, Source, product

PHRASES: Final = re.compile(
    r"""\b(?:
      somebody|nobody|everybody|whoever|whomever|whom|whatever\ it
    | where\ (?:it|there|nobody|somebody|one|they|that)
    | (?:of|by|to|with|for)\ what\ (?:it|is|was|they|he|somebody)
    | anew|once\ more|in\ vain|as\ far\ as|by\ itself|again\ and\ again|for\ good|by\ then|by\ now
    | (?:is|are|was|were|be)\ told | (?:go|goes|going|went)\ on
    | so\ (?:many|long|often|much)\ (?!as) | (?:nothing|all|none)\ of\ (?:it|them|these|this)
    | as\ it\ (?:was|is|does) | what\ it\ (?:does|is|was|has) | (?:that|those)\ of
    | at\ work|is\ at\ it|takes?\ room|way\ out|given\ way|dials?\ home|be\ had
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)
OPENS_WITH_A_PRONOUN: Final = re.compile(r"\W*(?:The same|It|They|Those|One|All|Such|There)\b")
STRINGS: Final = frozenset({tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)})
DOCUMENTS: Final = ("README.md", "SECURITY.md", "docs", "interface/SKILL.md")
VISIBLE: Final = ("schema", "tests/wire/recorded")
"""Recorded texts that users and models read: help, descriptions, keys of files, messages."""


def phrases(text: str) -> list[str]:
    """Return the phrases of a text in their order."""
    return [" ".join(found.group(0).split()) for found in PHRASES.finditer(text)]


@cache
def in_code() -> tuple[str, ...]:
    """Return the phrases in docstrings, comments and strings of the product, each with its location."""
    return tuple(found for source in product() for found in _of_source(source))


def _of_source(source: Source) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type not in STRINGS:
            continue
        for found in phrases(token.string):
            yield f"{source.name}:{token.start[0]} {found}"
        docstring = token.string.lstrip("rRbBfF").startswith('"""')
        if docstring and (opening := OPENS_WITH_A_PRONOUN.match(token.string.lstrip('rRbBfF"'))):
            yield f"{source.name}:{token.start[0]} {opening.group(0)}"


def in_files(*names: str) -> list[str]:
    """Return the phrases in documents and recorded texts; a name is a file or a folder below the root."""
    return [f"{path.relative_to(ROOT)}:{n} {found}" for path, n, line in _lines(*names) for found in phrases(line)]


def lines_of(*names: str) -> int:
    """Count the lines of documents."""
    return sum(1 for _ in _lines(*names))


def _lines(*names: str) -> Iterator[tuple[Path, int, str]]:
    for name in names:
        top = ROOT / name
        for path in sorted(top.rglob("*.*")) if top.is_dir() else [top]:
            if path.suffix in {".md", ".json", ".txt", ".yaml", ".jsonl"} and path.is_file():
                for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                    yield path, number, line
