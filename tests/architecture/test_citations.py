"""Nothing is cited that is not there: pages, numbered headings, rows of promises and faults, files, modules."""

import pytest

from tests.architecture.citations import dangling, missing_files, missing_modules, places
from tests.architecture.sources import ROOT

DOCUMENTS = (".md", ".toml", ".importlinter")


def test_every_citation_resolves() -> None:
    """A reader who looks up "contracts 4" or a fault finds the heading or the row."""
    assert [f"{place}: {text}" for place in places() for text in dangling(place.line)] == []


def test_every_file_that_is_named_exists() -> None:
    history = ROOT / "CHANGELOG.md"
    assert [
        f"{place}: {name}" for place in places() if place.path != history for name in missing_files(place.line)
    ] == []


def test_every_module_that_a_document_names_exists() -> None:
    documents = (place for place in places() if place.path.name.endswith(DOCUMENTS))
    assert [f"{place}: {name}" for place in documents for name in missing_modules(place.line)] == []


@pytest.mark.parametrize(
    ("cited", "number"),
    [
        ("contracts ", "99"),
        ("decisions 3.", "999"),
        ("(decisions, ", "Failure)"),
        ("Fault P", "F99"),
        ("(", "P99)"),
        ('@pytest.mark.promise("P1", ', '"P99")'),
        ("promises.md ", "4.3"),
        ("style ", "12"),
        ("Issue point ", "8"),
        ("(", "T41)"),
    ],
)
def test_a_citation_of_nothing_is_found(cited: str, number: str) -> None:
    """A gate that never closes is no gate."""
    assert dangling(cited + number)


@pytest.mark.parametrize(
    "line", ["contracts 7", "decisions 3.1", "docs/contributing/promises.md", "Fault PF01", "(P1)", "promise P3"]
)
def test_a_citation_of_something_is_not(line: str) -> None:
    assert dangling(line) == []


def test_files_and_modules_that_are_gone_are_found() -> None:
    assert missing_files("see kernel/house.py and `scripts/nothing.py`, not kernel/app.py") == [
        "kernel/house.py",
        "scripts/nothing.py",
    ]
    assert missing_modules("`kernel.store.nothing`, kernel.store.writer and kernel.log") == ["kernel.store.nothing"]
