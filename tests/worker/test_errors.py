"""From what a provider said to a cause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import CLASS_OF_CAUSE, Cause
from worker.models.model import (
    CATEGORIES,
    CODES,
    RETRY_AFTER_LIMIT_SECONDS,
    STATUSES,
    cause_in,
    cause_of,
    codes_in,
    limit_reset,
    message_in,
    retry_after,
)

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("status", "codes", "expected"),
    [
        (429, (), "rate_limited"),
        (529, ("overloaded_error",), "overloaded"),
        (503, (), "overloaded"),
        (502, (), "overloaded"),
        (504, (), "overloaded"),
        (500, (), "overloaded"),
        (402, (), "quota"),
        (429, ("insufficient_quota",), "quota"),
        (502, ("provider_unreachable",), "network"),
        (429, ("enforced_spend_limit_reached", "rate_limit_error"), "quota"),
        (401, (), "auth"),
        (403, (), "auth"),
        (400, ("invalid_request_error",), "invalid"),
        (404, (), "invalid"),
        (413, (), "context_overflow"),
        (422, (), "invalid"),
        (301, (), "invalid"),
        (400, ("context_length_exceeded",), "context_overflow"),
        (400, ("exceed_context_size_error",), "context_overflow"),
        (413, ("request_too_large",), "context_overflow"),
        (400, ("content_filter",), "refusal"),
        (408, (), "network"),
        (None, ("overloaded_error",), "overloaded"),
        (200, ("rate_limit_error",), "rate_limited"),
        (200, ("authentication_error",), "auth"),
        (None, ("429",), "rate_limited"),
        (None, ("502",), "overloaded"),
        (None, ("a word nobody knows",), "overloaded"),
        (None, (), "overloaded"),
    ],
)
def test_a_cause_follows_from_status_and_code(status: int | None, codes: tuple[str, ...], expected: Cause) -> None:
    assert cause_of(status, codes) == expected


TOO_LONG = "prompt is too long: 250000 tokens > 200000 maximum"
NO_CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (400, "invalid_request_error", TOO_LONG, "context_overflow"),
        (400, "invalid_request_error", NO_CREDIT, "quota"),
        (400, "invalid_request_error", "messages: at least one message is required", "invalid"),
        (400, "invalid_request_error", f"tool failed: {TOO_LONG}", "invalid"),
        (403, "permission_error", NO_CREDIT, "auth"),
        (400, "not_found_error", TOO_LONG, "invalid"),
        (500, "api_error", TOO_LONG, "overloaded"),
        (429, "invalid_request_error", TOO_LONG, "rate_limited"),
    ],
)
def test_two_sentences_without_a_code_are_known(status: int, kind: str, message: str, expected: Cause) -> None:
    assert cause_in(status, (kind,), message) == expected


def test_every_cause_in_the_tables_has_a_class() -> None:
    causes = {*CODES.values(), *STATUSES.values(), *CATEGORIES.values()}
    assert causes <= CLASS_OF_CAUSE.keys()


@pytest.mark.parametrize(
    ("body", "codes", "message"),
    [
        ({"error": {"type": "a", "message": "m", "details": {"error_code": "deep"}}}, ("deep", "a"), "m"),
        ({"code": "flat", "type": "t", "message": "m"}, ("flat", "t"), "m"),
        ({"error": {"code": 502, "message": "m"}}, ("502",), "m"),
        ({"error": "just words"}, (), "just words"),
        ([{"error": {"code": 400}}], (), None),
        ("<html>", (), None),
        (None, (), None),
        ({"error": None}, (), None),
        ({"error": {"type": ["no"], "code": None, "message": 3}}, (), None),
    ],
)
def test_codes_and_words_are_found_in_any_error_body(body: object, codes: tuple[str, ...], message: str | None) -> None:
    """Structured signals only, and no body is too odd to read."""
    assert codes_in(body) == codes
    assert message_in(body) == message


@pytest.mark.promise("P12")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "1e12"}, RETRY_AFTER_LIMIT_SECONDS),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:29:30 GMT", "date": DATE}, 90.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": DATE}, 0.0),
        ({"retry-after": "Wed, 21 Oct 9999 07:28:00 GMT", "date": DATE}, RETRY_AFTER_LIMIT_SECONDS),
        ({"retry-after": "Wed, 21 Oct 2026 07:29:30 GMT"}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers: dict[str, str], expected: float | None) -> None:
    """RFC 9110 10.2.3, and what providers send instead; it is a floor, so it is never made shorter."""
    assert retry_after(headers) == expected


NOON = {"date": "Sun, 29 Nov 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"anthropic-ratelimit-tokens-reset": "2026-11-29T12:01:30Z", **NOON}, 90.0),
        ({"anthropic-ratelimit-tokens-reset": "2026-11-29T11:00:00Z", **NOON}, 0.0),
        ({"x-ratelimit-reset-requests": "8.64s", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"X-RateLimit-Reset-Tokens": "1d2h3m4s5ms"}, 93784.005),
        ({"x-ratelimit-reset-requests": "1h", "x-ratelimit-remaining-requests": "5",
          "x-ratelimit-reset-tokens": "120ms", "x-ratelimit-remaining-tokens": "0"}, 0.12),
        ({"anthropic-ratelimit-requests-reset": "2099-01-01T00:00:00Z", **NOON}, RETRY_AFTER_LIMIT_SECONDS),
        ({"x-ratelimit-reset-tokens": "soon"}, None),
        ({"x-ratelimit-reset-tokens": "-5"}, 0.0),
        ({"x-ratelimit-reset-tokens": ""}, None),
        ({"anthropic-ratelimit-tokens-reset": "2026-11-29T12:01:30"}, None),
        ({"x-ratelimit-limit-tokens": "5"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_a_rate_limit_names_its_reset(headers: dict[str, str], expected: float | None) -> None:
    assert limit_reset(headers) == (None if expected is None else pytest.approx(expected))


@pytest.mark.promise("P12")
@given(st.text(), st.text())
def test_retry_after_takes_any_text(value: str, date: str) -> None:
    """Nonsense never breaks an attempt."""
    seconds = retry_after({"retry-after": value, "date": date})
    assert seconds is None or 0.0 <= seconds <= RETRY_AFTER_LIMIT_SECONDS
