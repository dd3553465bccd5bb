"""Documents: what every answer of the kernel has."""

from importlib import import_module
from pkgutil import iter_modules

import msgspec
import pytest

from protocol import api, voting
from protocol.api.document import Body, Document, Page

for found in iter_modules(api.__path__):
    import_module(f"protocol.api.{found.name}")
TAGGED = [
    kind
    for module in (*(import_module(f"protocol.api.{found.name}") for found in iter_modules(api.__path__)), voting)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Body) and kind.__struct_config__.tag_field == "schema"
]
"""Documents that are rows, with the schema as their tag."""
DOCUMENTS = [kind for kind in (*Document.__subclasses__(), *Page.__subclasses__()) if kind is not Page]


def test_there_are_documents() -> None:
    assert len(DOCUMENTS) > 25
    assert len(TAGGED) >= 6


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda kind: kind.__name__)
def test_a_document_starts_with_its_schema(document: type[msgspec.Struct]) -> None:
    """contracts 9: every document starts with "schema": "awk/<command>/1"."""
    first = msgspec.structs.fields(document)[0]
    assert first.name == "schema"
    assert str(first.default).startswith("awk/")
    assert str(first.default).endswith("/1")


@pytest.mark.parametrize("document", TAGGED, ids=lambda kind: kind.__name__)
def test_a_row_as_a_document_starts_with_its_schema(document: type[msgspec.Struct]) -> None:
    """contracts 9, as above; and a tag is encoded before all fields."""
    tag = document.__struct_config__.tag
    assert isinstance(tag, str)
    assert tag.startswith("awk/")
    assert tag.endswith("/1")
    empty = document(**dict.fromkeys(document.__struct_fields__))
    assert msgspec.json.encode(empty).startswith(b'{"schema":"' + tag.encode() + b'",')
