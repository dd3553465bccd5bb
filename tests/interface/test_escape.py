"""Agents' text cannot reach a terminal as anything but text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from interface.cli.output import escape, escape_json, one_line, width, wrapped
from tests.interface.hostile import HOSTILE, obeyed

pytestmark = pytest.mark.promise("P16")

anything = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("".join(HOSTILE))))


@pytest.mark.promise("P16")
@given(anything)
def test_no_control_or_format_character_survives(text: str) -> None:
    """C0 but newline and tab, C1, DEL, bidi, zero-width, line separators, surrogates."""
    assert obeyed(escape(text)) == []


def test_every_control_or_format_character_of_unicode_is_escaped() -> None:
    assert obeyed(escape("".join(map(chr, range(0x110000))))) == []


@given(anything)
def test_one_line_is_one_line(text: str) -> None:
    assert obeyed(one_line(text), allowed="") == []


@given(anything)
def test_what_is_escaped_is_escaped_once(text: str) -> None:
    assert escape(escape(text)) == escape(text)


@given(st.text(alphabet=st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert escape(text) == text


def test_what_was_hidden_is_shown() -> None:
    assert escape("a\x1b[1m\x9b\u202e\U000e0041\n\tb") == "a\\x1b[1m\\x9b\\u202e\\U000e0041\n\tb"


def test_other_scripts_and_emoji_are_text() -> None:
    text = "审查 مراجعة ✔\ufe0f é"
    assert escape(text) == text


@pytest.mark.parametrize(
    "character",
    ["\u1715", "\u1baa", "\u302e", "\u3248", "\u2630", "\u268f", "\u4dc0", "\U00016ff0", "\U0001d165", "\U0001d300"],
    ids=ascii,
)
def test_a_row_is_not_longer_than_the_window_in_terminals_that_make_it_wide(character: str) -> None:
    """Spacing marks, and what is wide since Unicode 16: as rich and tmux draw them, none passes for another row."""
    rows = wrapped(character * 50 + "Approve a3?", 30)
    assert max(cell_len(row) for row in rows) <= 30
    assert width(character) >= 1


@pytest.mark.slow
@given(
    st.recursive(st.none() | st.booleans() | anything, lambda inner: st.lists(inner) | st.dictionaries(anything, inner))
)
def test_a_json_document_keeps_its_value(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False)
    shown = escape_json(document)
    assert json.loads(shown) == json.loads(document)
    assert obeyed(shown, allowed="") == []
