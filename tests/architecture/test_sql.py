"""SQL stands in the store alone, as constants."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.architecture.sources import Source, dotted, product

EXECUTES: Final = frozenset({"execute", "executemany", "executescript"})
SQL: Final = re.compile(
    r"^\s*(SELECT\s+.*\bFROM\b|INSERT\s+(OR\s+\w+\s+)?INTO\b|UPDATE\s+\S+\s+SET\b|DELETE\s+FROM\b|PRAGMA\s|"
    r"CREATE\s+(TABLE|INDEX|UNIQUE)|DROP\s+TABLE|ALTER\s+TABLE|WITH\s+\w+\s+AS\s*\()",
    re.IGNORECASE | re.DOTALL,
)
PRAGMA: Final = re.compile(r"^\s*PRAGMA\s", re.IGNORECASE)


def _in_store(source: Source) -> bool:
    return source.name.startswith("kernel/store/")


def _parts(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.JoinedStr(values=values):
            yield "".join(str(value.value) if isinstance(value, ast.Constant) else "x" for value in values)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod() | ast.Add()):
            yield text
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format" | "join")):
            yield text
        case _:
            return


def test_only_the_store_executes_sql() -> None:
    found = [
        source.at(call)
        for source in product()
        if not _in_store(source)
        for call in source.calls
        if (isinstance(call.func, ast.Attribute) and call.func.attr in EXECUTES)
        or dotted(call.func) in {"apsw.Connection", "sqlite3.connect"}
    ]
    assert found == []


def test_no_statement_is_put_together_from_strings() -> None:
    found = [
        source.at(node)
        for source in product()
        for node in ast.walk(source.tree)
        for text in _parts(node)
        if SQL.search(text) and not PRAGMA.search(text)
    ]
    assert found == []


def test_every_query_names_its_columns() -> None:
    found = [
        source.at(node)
        for source in product()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"SELECT\s+\*", node.value)
    ]
    assert found == []
