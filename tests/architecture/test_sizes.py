"""Files and functions stay small enough to be read at one go."""

import ast
from typing import Final

from tests.architecture.sources import product

FILE_LIMIT: Final = 400
FUNCTION_LIMIT: Final = 100
ALLOWED: Final[dict[str, str]] = {}


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    """Over 400 lines a file needs a reason in the allow-list."""
    long = {source.name: source.lines for source in product() if source.lines > FILE_LIMIT}
    assert set(long) - set(ALLOWED) == set(), f"split these, or write the reason into ALLOWED: {long}"


def test_the_allow_list_names_only_files_that_need_it() -> None:
    """An exception that is not needed any more goes."""
    long = {source.name for source in product() if source.lines > FILE_LIMIT}
    assert set(ALLOWED) - long == set()


def test_no_function_is_longer_than_a_screen() -> None:
    """a function tells its story in one place: a linear one may have 100 lines."""
    long = [
        f"{source.at(node)} {node.name}: {lines} lines"
        for source in product()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LIMIT
    ]
    assert long == []
