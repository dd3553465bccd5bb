"""Names from file systems and the environment, which may be any bytes, and JSON of what holds one."""

import json
import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.text import encode_json, shown_name, text_environment

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


class Inner(msgspec.Struct, frozen=True):
    name: str
    raw: msgspec.Raw = msgspec.Raw(b"[1]")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (b"alice.yaml", "alice.yaml"),
        ("Grüße 日本.yaml".encode(), "Grüße 日本.yaml"),
        (b"b\xff.yaml", "b\\xff.yaml"),
        (b"x\nok  forged", "x\\nok  forged"),
        (b"\x1b[2J\r", "\\x1b[2J\\r"),
        ("\u202egnp.yaml".encode(), "\\u202egnp.yaml"),
        ("a\u2028b".encode(), "a\\u2028b"),
    ],
)
def test_a_name_is_told_on_one_line_and_only_as_what_can_be_seen(name: bytes, told: str) -> None:
    """Bytes that are not UTF-8, line breaks, controls and marks of direction are shown, never obeyed."""
    assert shown_name(os.fsdecode(name)) == told


@given(ANY_TEXT)
def test_whatever_a_name_holds_it_can_be_told(name: str) -> None:
    told = shown_name(name)
    assert told.isprintable()
    assert told.encode().decode() == told


@pytest.mark.slow
@given(st.recursive(ANY_TEXT | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(ANY_TEXT, x)))
def test_json_of_anything_that_holds_text_is_made(value: object) -> None:
    """What is UTF-8 stays as it is; no surrogate ends an encoder."""
    document = encode_json(value)
    json.loads(document)
    if "\\ud" not in json.dumps(value):
        assert json.loads(document) == value


def test_a_struct_with_such_a_name_keeps_the_rest_of_it() -> None:
    one = Inner("b\udcff")
    assert json.loads(encode_json({"all": (one, Inner("c"))})) == {
        "all": [{"name": "b\\xff", "raw": [1]}, {"name": "c", "raw": [1]}]
    }


def test_a_variable_that_is_not_text_is_left_out_and_named() -> None:
    environ = {"LC_X": "\udcc3(", "N\udcff": "1", "HOME": "/home/ü", "TWO": "a\nb"}
    assert text_environment(environ) == ({"HOME": "/home/ü", "TWO": "a\nb"}, ("LC_X", "N\\xff"))
