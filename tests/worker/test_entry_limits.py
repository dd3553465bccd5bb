"""What is made to fit into a frame."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.ipc import Entry, Json
from protocol.ndjson import LINE_LIMIT_BYTES, encode
from worker.conversation import TooLarge, clean, shorten, truncate_entry

HUGE = 3 * LINE_LIMIT_BYTES


@pytest.mark.promise("P10")
@given(st.text(), st.integers(min_value=200, max_value=2000), st.integers(min_value=1, max_value=400))
@example("\0", 200, 400)
@example("\U0001f600", 200, 400)
def test_a_shortened_text_fits_and_says_how_much_is_missing(piece: str, limit: int, times: int) -> None:
    text = piece * times
    short = shorten(text, limit)
    assert len(msgspec.json.encode(short)) <= limit
    assert short == text or "characters left out" in short


def test_a_shortened_text_keeps_both_ends() -> None:
    short = shorten("begin" + "x" * 10_000 + "end", 500)
    assert short.startswith("begin")
    assert short.endswith("end")


@pytest.mark.parametrize("text", ["x" * HUGE, "\0" * HUGE, "\U0001f600" * HUGE])
def test_any_tool_result_fits_into_an_entry(text: str) -> None:
    """contracts 6: at most 1 MiB a line, whatever JSON makes of the text."""
    assert len(encode(truncate_entry(Entry(k=1, kind="tool", text=text)))) <= LINE_LIMIT_BYTES


def test_a_reply_gives_up_text_and_keeps_its_native_form() -> None:
    native = Json(msgspec.json.encode({"anthropic": "y" * 600_000}))
    fitted = truncate_entry(Entry(k=0, kind="reply", text="x" * 600_000, native=native))
    assert fitted.native == native
    assert "characters left out" in fitted.text
    assert len(encode(fitted)) <= LINE_LIMIT_BYTES


def test_a_reply_that_cannot_fit_is_refused() -> None:
    with pytest.raises(TooLarge):
        truncate_entry(Entry(k=0, kind="reply", native=Json(msgspec.json.encode("y" * HUGE))))


@pytest.mark.promise("IF03")
def test_lone_surrogates_are_replaced() -> None:
    assert clean("a\ud800b") == "a�b"
    assert clean("é\U0001f600") == "é\U0001f600"
