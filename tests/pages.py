"""Code blocks of the documentation, for the tests that check and run them (docs/contributing/index.md)."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final, NamedTuple

_BLOCK: Final = re.compile(r"((?:^ *<!--(?:(?!-->).)*-->\n+)*)^( *)```(\w+)\n(.*?)^\2```$", re.MULTILINE | re.DOTALL)
_MARK: Final = re.compile(r"<!-- ([a-z ]+):\s(.*?)\s-->", re.DOTALL)
_HEREDOC: Final = re.compile(r"<<'?(\w+)'?(.*?)\n.*?\n\1$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"# (\S+)\n")
_SEPARATORS: Final = frozenset(";&|()<>")


class Block(NamedTuple):
    """A code block, and the comments in front of it."""

    kind: str
    text: str
    marks: dict[str, str]

    @property
    def path(self) -> str | None:
        found = _FILE.match(self.text)
        return self.marks.get("file") or (found and found[1])

    @property
    def is_run(self) -> bool:
        return self.kind == "sh" and "not run" not in self.marks

    @property
    def files(self) -> list[tuple[str, str]]:
        """Plain agents for the members that it refers to, then the file itself; none if it is not run."""
        if self.path is None or "not run" in self.marks:
            return []
        plain = "backend: mock\nmock: [{ text: hi }]\n"
        return [
            *((f".agents/{one}.yaml", plain) for one in re.findall(r"ref: ([a-z]+)", self.text)),
            (self.path, self.text),
        ]

    @property
    def script(self) -> str:
        """The commands: of a console, the lines behind a prompt."""
        if self.kind == "sh":
            return self.text
        return "".join(f"{line[2:]}\n" for line in self.text.splitlines() if line.startswith("$ "))


def blocks(text: str) -> list[Block]:
    return [
        Block(kind, dedent(body), dict(_MARK.findall(comments))) for comments, _, kind, body in _BLOCK.findall(text)
    ]


def part(page: Path, heading: str) -> list[Block]:
    """Return the blocks under ``heading``, up to the next heading."""
    _, _, rest = page.read_text("utf-8").partition(f"{heading}\n")
    return blocks(re.split(r"^##+ ", rest, maxsplit=1, flags=re.MULTILINE)[0])


def commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each ``awk`` command of a shell script."""
    for line in _HEREDOC.sub(r"\2", script.replace("\\\n", " ")).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in (*lexer, ";"):
            if _SEPARATORS.issuperset(word):
                if words and words[0] in {"awk", "agent-worker"}:
                    yield words[1:]
                words = []
            else:
                words.append(word)
