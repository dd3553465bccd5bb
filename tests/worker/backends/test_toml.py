"""TOML, as the standard library reads it back."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.backends.private_files import document

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.promise("P18")
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_written_is_read_back(values: dict[str, Any]) -> None:
    """A prompt may hold anything, and codex must read it as it is (nothing of it becomes another setting)."""
    assert tomllib.loads(document(values)) == values
