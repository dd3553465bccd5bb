"""The cause of a provider's failure: tables, read in one order, and the time that it asks to be left alone. Pure.

Only structured signals count: a stable code in the error body, the HTTP status, the category of the error, the type of
the exception. The prose of an error is shown to people and never matched, but for two documented sentences that
Anthropic gives no code for, and then only with their status and type (``SENTENCES``).
"""

import math
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from protocol.errors import Cause

CODES: Final[Mapping[str, Cause]] = {
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "enforced_spend_limit_reached": "quota",
    "contract_spend_limit_reached": "quota",
    "linked_organization_spend_limit_reached": "quota",
    "linked_organization_billing_unavailable": "quota",
    "billing_error": "quota",
    "organization_on_hold": "auth",
    "invalid_api_key": "auth",
    "context_length_exceeded": "context_overflow",
    "model_context_window_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "content_filter": "refusal",
    "content_policy_violation": "refusal",
}
"""Codes that say more than the status they come with."""

STATUSES: Final[Mapping[int, Cause]] = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "network",
    409: "overloaded",
    413: "context_overflow",
    425: "overloaded",
    429: "rate_limited",
}
"""Other 4xx are ``invalid``, 5xx ``overloaded``. A request that is too large is like a context that is too small."""

CATEGORIES: Final[Mapping[str, Cause]] = {
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "too_many_requests": "rate_limited",
    "overloaded_error": "overloaded",
    "api_error": "overloaded",
    "server_error": "overloaded",
    "timeout_error": "overloaded",
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_request_error": "invalid",
    "not_found_error": "invalid",
    "conflict_error": "invalid",
    "request_too_large": "context_overflow",
}
"""Broad words, for errors that arrive inside a stream whose status was 200."""


SENTENCES: Final[Mapping[str, Cause]] = {"prompt is too long": "context_overflow", "credit balance is too low": "quota"}
"""How messages of a 400 ``invalid_request_error`` begin that mean something else than an invalid request."""
_PLAIN_STATUS: Final = 400
_PLAIN_TYPE: Final = "invalid_request_error"


class Failed(Exception):
    """The attempt cannot go on: ``cause`` says why, ``text`` says it to a person (secrets taken out)."""

    def __init__(
        self,
        cause: Cause,
        text: str,
        *,
        http_status: int | None = None,
        retry_after_seconds: float | None = None,
        code: str | None = None,
        fired: str | None = None,
    ) -> None:
        super().__init__(text)
        self.cause: Cause = cause
        self.text = text
        self.http_status = http_status
        self.retry_after_seconds = retry_after_seconds
        self.code = code
        self.fired = fired


def cause_of(status: int | None, codes: Iterable[str]) -> Cause:
    """The cause of an error with this HTTP ``status`` and these codes, most specific first.

    A status below 300 says nothing (the error came inside a stream). Nothing known at all means the
    provider broke off: ``overloaded``, which is tried again.
    """
    words = tuple(codes)
    for word in words:
        if word in CODES:
            return CODES[word]
    if status is not None and status >= 300:
        return _of_status(status)
    numbers = [int(word) for word in words if len(word) == 3 and word.isascii() and word.isdecimal()]
    if numbers and numbers[0] >= 300:
        return _of_status(numbers[0])
    for word in words:
        if word in CATEGORIES:
            return CATEGORIES[word]
    return "overloaded"


def _of_status(status: int) -> Cause:
    if status in STATUSES:
        return STATUSES[status]
    return "overloaded" if status >= 500 else "invalid"


def cause_in(status: int | None, codes: Iterable[str], message: str) -> Cause:
    """The cause of an error of which the ``message`` is known too."""
    words = tuple(codes)
    if status in (None, _PLAIN_STATUS) and _PLAIN_TYPE in words:
        for beginning, cause in SENTENCES.items():
            if message.removeprefix("Your ").startswith(beginning):
                return cause
    return cause_of(status, words)


def codes_in(body: object) -> tuple[str, ...]:
    """Codes in an error body, most specific first, whether or not it is wrapped in ``error``."""
    if not isinstance(body, Mapping):
        return ()
    inner = body.get("error", body)
    if not isinstance(inner, Mapping):
        return ()
    details = inner.get("details")
    deep = details.get("error_code") if isinstance(details, Mapping) else None
    found = (deep, inner.get("error_code"), inner.get("code"), inner.get("type"))
    return tuple(str(word) for word in found if isinstance(word, str | int) and not isinstance(word, bool))


def message_in(body: object) -> str | None:
    """Return the message of an error body."""
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    message = inner.get("message") if isinstance(inner, Mapping) else inner
    return message if isinstance(message, str) and message else None


RETRY_AFTER_LIMIT_SECONDS: Final = 7 * 24 * 3600.0
"""A provider that asks for more is taken to mean this; a wall clock is not trusted further ahead."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the headers say: ``retry-after-ms``, or ``retry-after`` as seconds or an HTTP date.

    A date is read against the answer's own ``date``: the two come from one clock. In the past means 0,
    nonsense means None, beyond the limit means the limit.
    """
    text = headers.get("retry-after")
    date = headers.get("date")
    until: float | None
    try:
        until = (parsedate_to_datetime(text or "") - parsedate_to_datetime(date or "")).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        until = None
    candidates = (_number(headers.get("retry-after-ms"), 1000.0), _number(headers.get("retry-after"), 1.0), until)
    seconds = next((candidate for candidate in candidates if candidate is not None), None)
    return None if seconds is None else min(max(seconds, 0.0), RETRY_AFTER_LIMIT_SECONDS)


def _number(text: str | None, per_second: float) -> float | None:
    try:
        value = float(text or "") / per_second
    except ValueError:
        return None
    return value if math.isfinite(value) else None
