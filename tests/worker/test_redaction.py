"""Secrets in text that others wrote, in whatever form they repeat them."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.redaction import SLICE, Redaction

KEY = "sk-live/4f+9a8b7c6d5e==4f3a2b1c0d_Zz?&Q"
FORMS = {
    "verbatim": KEY,
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64url": base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("="),
    "basic": "Basic " + base64.b64encode(f"somebody:{KEY}".encode()).decode(),
    "basic, another user": "Basic " + base64.b64encode(f"us:{KEY}".encode()).decode(),
    "hex": KEY.encode().hex(),
    "HEX": KEY.encode().hex().upper(),
    "URL": quote(KEY, safe=""),
    "JSON": json.dumps(KEY),
    "a piece": KEY[3 : 3 + 24],
    "a piece of base64": base64.b64encode(KEY.encode()).decode()[5:30],
    "its end": KEY[-SLICE:],
}


def leaked(text: str, form: str) -> int:
    """The longest piece of ``form`` that is in ``text``."""
    lengths = range(len(form), 0, -1)
    return next((n for n in lengths if any(form[at : at + n] in text for at in range(len(form) - n + 1))), 0)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_not_told_in_any_form_that_programs_repeat_it_in(form: str) -> None:
    """A key is not told in any form that programs repeat it in."""
    said = Redaction({KEY: "[key]"}).of(f"401: wrong key '{FORMS[form]}', ask for another")
    assert said.startswith("401: wrong key '")
    assert said.endswith("', ask for another")
    assert "[key]" in said
    secret = FORMS[form].removeprefix("Basic ")
    about_user = base64.b64encode(b"somebody:").decode()
    assert leaked(said.replace(about_user, ""), secret) < SLICE


@given(st.text(max_size=200), st.text("abcdefgh0123456789-_", min_size=24, max_size=60), st.text(max_size=200))
def test_no_long_piece_of_a_secret_is_left_wherever_it_stands(before: str, secret: str, after: str) -> None:
    """Also where what is around it could be a part of it."""
    said = Redaction({secret: "*"}).of(before + secret + after)
    assert secret not in said


@given(st.text("abc", max_size=300), st.integers(SLICE, 40))
def test_of_a_text_without_secrets_nothing_is_changed(text: str, length: int) -> None:
    """The forms of a key are nobody else's words."""
    assert Redaction({"Z" * length: "[key]"}).of(text) == text


def test_a_short_secret_is_looked_for_as_it_is_and_the_longest_first() -> None:
    """A password of four letters is in half of all words' base64."""
    redaction = Redaction({"abcd": "[short]", "abcd-and-more-of-it-than-that": "[long]", "": "[none]"})
    assert redaction.of("abcd, abcd-and-more-of-it-than-that, YWJjZA==") == "[short], [long], YWJjZA=="
