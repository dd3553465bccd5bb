"""The files under judgement, parsed once: what the rules of this folder are applied to."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("kernel", "worker", "interface", "protocol", "osfiles")


@dataclass(frozen=True)
class Source:
    """One Python file of the repository."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path below the root, with slashes: ``kernel/app.py``."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    def at(self, node: ast.AST) -> str:
        """The place of ``node``, as editors understand it: ``kernel/app.py:12``."""
        return f"{self.name}:{getattr(node, 'lineno', 1)}"

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    def calls_by_function(self) -> Iterator[tuple[str, ast.Call]]:
        """Every call with the place that makes it: ``kernel/app.py::Class.method``."""

        def within(node: ast.AST, name: str) -> Iterator[tuple[str, ast.Call]]:
            for child in ast.iter_child_nodes(node):
                inner = name
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    inner = f"{name}.{child.name}".lstrip(".")
                if isinstance(child, ast.Call):
                    yield f"{self.name}::{name}", child
                yield from within(child, inner)

        return within(self.tree, "")


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Every Python file below ``folders``, in order of path."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(Source(path, text, ast.parse(text)) for path in paths for text in [path.read_text("utf-8")])


def product() -> tuple[Source, ...]:
    return sources(*PACKAGES)


def dotted(node: ast.expr) -> str:
    """``os.path.join`` for the expression that says so; empty where it is not a plain name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}"
        case _:
            return ""
