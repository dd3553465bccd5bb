"""Covers of long tests: the shorter tests that each ``long`` mark names, and a break that each of these must notice.

``scripts/covers [COVER...]`` applies the recorded breaks (covers.yaml) one at a time to a copy of the sources and runs
the named tests there: a cover that passes on broken code covers nothing.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import yaml

from tests.architecture.sources import PACKAGES, ROOT, Source, dotted, sources

SAME_FILE: Final = "the other tests of this file"
BREAKS: Final = Path(__file__).with_name("covers.yaml")
SECONDS: Final = 120
"""The longest that one test of a cover may take."""
_CASE: Final = re.compile(r"\[.+\]")
_NAME: Final = re.compile(r"test_\w+")
_PATH: Final = re.compile(r"tests/[\w/]+(?:\.py)?")


class Claim(msgspec.Struct, frozen=True):
    """One ``long`` mark: its place, and the words that name its covers."""

    place: str
    file: str
    words: tuple[str, ...]


class Break(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A small fault of the product, which the tests of ``cover`` must notice: ``old`` becomes ``new`` in ``line``."""

    cover: str
    file: str
    line: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return ``text`` with the fault. Raises ValueError where the line is not there exactly once."""
        lines = text.splitlines()
        if lines.count(self.line) != 1 or self.old not in self.line:
            raise ValueError(
                f"{self.file}: the line {self.line.strip()!r} of the break is not there once: record another"
            )
        place = lines.index(self.line)
        lines[place] = self.line.replace(self.old, self.new, 1)
        return "\n".join([*lines, ""])


def _is_long(node: ast.expr) -> bool:
    return dotted(node.func if isinstance(node, ast.Call) else node) == "pytest.mark.long"


def claims() -> Iterator[Claim]:
    """Yield every ``long`` mark of the tests; one without words has none."""
    for source in sources("tests"):
        calls = [one for one in source.calls if _is_long(one.func)]
        inside = {id(one.func) for one in calls}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and id(node) not in inside and _is_long(node):
                yield Claim(source.at(node), source.name, ())
        for call in calls:
            words = [str(one.value) for one in call.args if isinstance(one, ast.Constant)]
            yield Claim(source.at(call), source.name, tuple(part.strip() for one in words for part in one.split(",")))


def default_tests(source: Source) -> set[str]:
    """Names of the tests of a file that the default suite runs: those not marked long as a whole."""
    assigned = (one for one in source.tree.body if isinstance(one, ast.Assign))
    marks = [one.value for one in assigned if dotted(one.targets[0]) == "pytestmark"]
    if any(_is_long(one) for mark in marks for one in ast.walk(mark) if isinstance(one, ast.expr)):
        return set()
    return {
        node.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and not any(map(_is_long, node.decorator_list))
    }


@cache
def _default_suite() -> dict[str, set[str]]:
    return {source.name: default_tests(source) for source in sources("tests")}


def fault(claim: Claim) -> str | None:
    """Return why a mark names no cover that the default suite runs; None where it does."""
    run = _default_suite()
    if not claim.words:
        return "it names no cover"
    for word in claim.words:
        if word == SAME_FILE or _CASE.fullmatch(word):
            known = run[claim.file]
        elif _NAME.fullmatch(word):
            known = {name for tests in run.values() for name in tests if name == word}
        elif _PATH.fullmatch(word):
            known = {
                name for file, tests in run.items() if file == word or file.startswith(f"{word}/") for name in tests
            }
        else:
            return f"{word!r} is neither a path, a test, other [cases], nor {SAME_FILE!r}"
        if not known:
            return f"the default suite runs no test of {word!r}"
    return None


def breaks() -> list[Break]:
    return msgspec.convert(yaml.safe_load(BREAKS.read_text("utf-8")), list[Break])


def is_noticed(one: Break) -> bool:
    """Return whether the tests of the cover fail on a copy of the sources with the fault in it."""
    with TemporaryDirectory(prefix="awk-covers-") as folder:
        copy = Path(folder)
        for name in (*PACKAGES, "tests", "docs", "schema", "examples", "scripts"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file in (*ROOT.glob("*.toml"), *ROOT.glob("*.md")):
            shutil.copy(file, copy)
        path = copy / one.file
        path.write_text(one.applied(path.read_text("utf-8")), "utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        command += [f"--timeout={SECONDS}", one.cover]  # a test that never ends has failed
        ran = subprocess.run(command, cwd=copy, capture_output=True, check=False)
    return ran.returncode == 1


def main(words: Sequence[str]) -> int:
    """Try the recorded breaks, or those of the covers in ``words``. Returns 1 where one was not noticed."""
    chosen = [one for one in breaks() if not words or one.cover in words]
    blind = 0
    for one in chosen:
        if is_noticed(one):
            sys.stdout.write(f"{one.cover} fails\n")
        else:
            blind += 1
            sys.stdout.write(f"{one.cover} passes although {one.file} has {one.new!r} for {one.old!r}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} breaks tried, {blind} not noticed\n")
    return 1 if blind or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
