"""Places and names of files, packages and tests."""

import ast
import tomllib
from pathlib import Path
from typing import Final

from tests.architecture.sources import PACKAGES, ROOT, Source, product, sources

VAGUE: Final = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc", "shared"})


def _only_docstring(source: Source) -> bool:
    body = source.tree.body
    return len(body) == 1 and isinstance(body[0], ast.Expr) and ast.get_docstring(source.tree) is not None


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [
        source.name
        for source in product()
        if VAGUE & {part.removesuffix(".py") for part in source.path.relative_to(ROOT).parts}
    ]
    assert vague == []


def test_package_files_say_what_the_package_is_and_nothing_else() -> None:
    busy = [source.name for source in product() if source.path.name == "__init__.py" and not _only_docstring(source)]
    assert busy == []


def test_every_folder_of_tests_is_run() -> None:
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
    folders = {name for name in folders if any((ROOT / "tests" / name).rglob("test_*.py"))}
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    run = {path.removeprefix("tests/") for path in options["testpaths"]}
    assert run | {"architecture"} == folders
    assert "pytest -q -n 2 tests/architecture ||" in (ROOT / "scripts/check").read_text("utf-8")


def test_every_module_says_what_it_knows() -> None:
    mute = [source.name for source in product() if not ast.get_docstring(source.tree)]
    assert mute == []


def test_every_package_folder_is_a_package() -> None:
    """A folder without __init__.py would be left out of the layer contracts."""
    folders = {source.path.parent for source in product()}
    assert [folder.relative_to(ROOT).as_posix() for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_tests_folder_is_a_package() -> None:
    folders = {source.path.parent for source in sources("tests")} | {ROOT / "tests"}
    assert [folder.relative_to(ROOT).as_posix() for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_package_ships_its_types() -> None:
    """PEP 561: without py.typed a user's type checker sees Any."""
    assert [name for name in PACKAGES if not (ROOT / name / "py.typed").exists()] == []


def test_every_test_says_what_it_proves() -> None:
    """By a name that is a sentence, or by a docstring."""
    mute = [
        f"{source.at(node)} {node.name}"
        for source in sources("tests")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") < 3
        and not ast.get_docstring(node)
    ]
    assert mute == []


def test_no_file_names_a_path_of_this_machine() -> None:
    here = [f"{folder}/" for folder in (ROOT, Path.home()) if folder != folder.parent]
    files = [*product(), *sources("tests", "scripts", "examples")]
    assert [source.name for source in files if any(path in source.text for path in here)] == []
