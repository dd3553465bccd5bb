"""Documents: what every answer of the kernel has."""

from importlib import import_module
from pkgutil import iter_modules

import msgspec
import pytest

from protocol import api
from protocol.api.document import Document, Page

for found in iter_modules(api.__path__):
    import_module(f"protocol.api.{found.name}")
DOCUMENTS = [kind for kind in (*Document.__subclasses__(), *Page.__subclasses__()) if kind is not Page]


def test_there_are_documents() -> None:
    """All modules of the package were looked through."""
    assert len(DOCUMENTS) > 25


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda kind: kind.__name__)
def test_a_document_starts_with_its_schema(document: type[msgspec.Struct]) -> None:
    """contracts 9: every document starts with "schema": "awk/<command>/1"."""
    first = msgspec.structs.fields(document)[0]
    assert first.name == "schema"
    assert str(first.default).startswith("awk/")
    assert str(first.default).endswith("/1")
