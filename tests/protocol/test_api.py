"""Documents: what every answer of the kernel has."""

import msgspec
import pytest

from protocol import api

DOCUMENTS = [
    kind
    for name, kind in vars(api).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not name.startswith("_")
    if "schema" in kind.__struct_fields__
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda kind: kind.__name__)
def test_a_document_starts_with_its_schema(document: type[msgspec.Struct]) -> None:
    """contracts 9: every document starts with "schema": "awk/<command>/1"."""
    first = msgspec.structs.fields(document)[0]
    assert first.name == "schema"
    assert str(first.default).startswith("awk/")
    assert str(first.default).endswith("/1")
