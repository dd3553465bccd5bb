"""Secrets in text that others wrote, in whatever form they repeat them."""

import base64
import json
import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.ipc import Delta, Entry, Json, Shown, ToolCall
from protocol.ndjson import LINE_LIMIT_BYTES, encode
from protocol.redaction import SLICE, Redaction, named_secrets
from tests.worker.fake_kernel import attempt, make_start, script
from worker.conversation import truncate_entry

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
    said = Redaction({KEY: "[key]"}).of(f"401: wrong key '{FORMS[form]}', ask for another")
    assert said.startswith("401: wrong key '")
    assert said.endswith("', ask for another")
    assert "[key]" in said
    secret = FORMS[form].removeprefix("Basic ")
    about_user = base64.b64encode(b"somebody:").decode()
    assert leaked(said.replace(about_user, ""), secret) < SLICE


@given(st.text(max_size=200), st.text("abcdefgh0123456789-_", min_size=24, max_size=60), st.text(max_size=200))
def test_no_long_piece_of_a_secret_is_left_wherever_it_stands(before: str, secret: str, after: str) -> None:
    said = Redaction({secret: "*"}).of(before + secret + after)
    assert secret not in said


@given(st.text("abc", max_size=300), st.integers(SLICE, 40))
def test_of_a_text_without_secrets_nothing_is_changed(text: str, length: int) -> None:
    assert Redaction({"Z" * length: "[key]"}).of(text) == text


def test_a_short_secret_is_looked_for_as_it_is_and_the_longest_first() -> None:
    """A password of four letters is in half of all words' base64."""
    redaction = Redaction({"abcd": "[short]", "abcd-and-more-of-it-than-that": "[long]", "": "[none]"})
    assert redaction.of("abcd, abcd-and-more-of-it-than-that, YWJjZA==") == "[short], [long], YWJjZA=="


@given(
    st.lists(st.sampled_from(["word ", *FORMS.values(), "x", FORMS["base64"][:9], FORMS["base64"][9:]]), max_size=12),
    st.lists(st.integers(1, 30), min_size=1),
)
def test_a_stream_in_whatever_pieces_shows_no_more_than_the_whole(parts: list[str], sizes: list[int]) -> None:
    text, redaction, shown, at = "".join(parts), Redaction({KEY: "[key]"}), "", 0
    for place in range(len(text)):
        size = sizes[place % len(sizes)]
        shown += redaction.of_stream(text[at : at + size])
        at += size
    shown += redaction.end_stream()
    assert all(leaked(shown, form) < 2 * SLICE - 1 for name, form in FORMS.items() if "piece" not in name)
    assert KEY not in shown and FORMS["base64"] not in shown
    assert redaction.of_stream("done") + redaction.end_stream() == "done"


@pytest.mark.promise("P18")
async def test_what_people_are_shown_of_an_attempt_has_no_secret(tmp_path: Path) -> None:
    secret = "sesame-open-4711"
    env = {"PATH": os.defpath, "DOOR": secret, "CI": "1"}
    words = f"I use {secret} now, 1 time"
    actions = ({"text": words}, {"shell": f"echo {secret}; printenv DOOR | base64"}, {"text": "done"})
    made = await attempt(make_start(cwd=str(tmp_path), env=env, secrets=("DOOR", "CI"), mock=script(*actions)))
    said, asked, ran, _ = made.entries
    assert (said.text, ran.text.splitlines()[0]) == (words, secret), "a model is told what was said"
    assert said.shown is not None and said.shown.text == "I use [DOOR] now, 1 time"
    assert asked.shown is not None and b"[DOOR]" in bytes(asked.shown.calls[0].args)
    assert ran.shown is not None and ran.shown.text.splitlines()[0] == "[DOOR]"
    shown = [entry.shown for entry in made.entries] + [frame for frame in made.frames if isinstance(frame, Delta)]
    told = msgspec.json.encode(shown).decode()
    assert secret not in told and leaked(told, base64.b64encode(secret.encode() + b"\n").decode()) < SLICE


async def test_a_secret_in_a_reply_that_hardly_fits_is_hidden_all_the_same() -> None:
    secret = "sesame-open-4711"
    calls = (ToolCall(id="a", name="write", args=Json(msgspec.json.encode({"text": secret + "x" * 600_000}))),)
    shown = Shown(text="y" * 300_000, calls=calls)
    entry = truncate_entry(Entry(k=0, kind="reply", text=secret + "y" * 300_000, calls=calls, shown=shown))
    assert len(encode(entry)) <= LINE_LIMIT_BYTES
    assert entry.calls == calls and entry.shown is not None and secret.encode() not in bytes(entry.shown.calls[0].args)


class Sample(msgspec.Struct, frozen=True):
    """A row with every kind of field."""

    state: Literal["running", "done"] | None
    number: int
    text: str
    words: tuple[str, ...]
    more: dict[str, Any]
    inner: "Sample | None" = None


def test_a_row_loses_its_secrets_and_stays_what_it_is() -> None:
    redaction = Redaction({"running": "[MODE]", "4711471147": "[PIN]"})
    inner = Sample("done", 1, "x", (), {})
    row = Sample("running", 4711471147, "is running", ("running",), {"running": [1, {"a": "4711471147"}]}, inner)
    shown = redaction.of_row(row)
    assert shown == Sample(
        "running", 4711471147, "is [MODE]", ("[MODE]",), {"[MODE]": [1, {"a": "[PIN]"}]}, inner
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(shown), type=Sample) == shown
    assert Redaction({}).of_row(row) is row


def test_what_is_let_through_and_what_servers_are_given_are_secrets_unless_they_are_short_or_paths() -> None:
    """A variable of 6 characters and more, a word for a server of 8 and more."""
    found = named_secrets({"DOOR": "sesame", "CI": "true"}, ["Bearer 12345678", "/usr/local/bin", "short"])
    assert found == {"sesame": "[DOOR]", "12345678": "[secret]"}
