"""The interface between the loop and models: a request returns one reply, or raises a failure with its cause.

Stop reasons are our own: each adapter has a table for its provider's values. Unknown values are passed on, so
that the loop can name them in its error.

The cause of a provider's failure comes from tables, in this order: a stable code in the error body, the HTTP status,
the category of the error, the type of the exception. The text of an error is displayed, but never matched, except for
two documented sentences of Anthropic without a code, and only with their status and type (``SENTENCES``).

Also contains the start frame for the warm-up of models before a fork.
"""

import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, Protocol

import msgspec

from protocol.errors import Cause
from protocol.instruction import Count
from protocol.ipc import Entry, Json, Limits, McpAddress, Start
from worker.conversation import Conversation, ConversationStep, clean
from worker.tool import ToolSpec

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
    "provider_unreachable": "network",  # of the kernel's gateway
}
"""Causes of codes in an error body, which are more specific than the HTTP status."""

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
"""Causes of HTTP statuses. Other 4xx are ``invalid``, 5xx ``overloaded``. 413: the context is too large."""

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
"""Causes of error categories, for errors inside a stream with status 200."""


SENTENCES: Final[Mapping[str, Cause]] = {"prompt is too long": "context_overflow", "credit balance is too low": "quota"}
"""Starts of error messages of a 400 ``invalid_request_error`` that have another cause than ``invalid``."""
_PLAIN_STATUS: Final = 400
_PLAIN_TYPE: Final = "invalid_request_error"


class Failed(Exception):
    """The attempt cannot continue. ``cause`` is for the kernel, ``text`` a message for people, without secrets."""

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
    """Return the cause of an error with this HTTP ``status`` and these codes, most specific first.

    A status below 300 is ignored (the error came inside a stream). Without any known signal, the
    cause is ``overloaded``, which is retried.
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
    """Return the cause of an error, also from its ``message``."""
    words = tuple(codes)
    if status in (None, _PLAIN_STATUS) and _PLAIN_TYPE in words:
        for beginning, cause in SENTENCES.items():
            if message.removeprefix("Your ").startswith(beginning):
                return cause
    return cause_of(status, words)


def codes_in(body: object) -> tuple[str, ...]:
    """Return the codes in an error body, most specific first, whether or not it is wrapped in ``error``."""
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
"""Maximum delay; longer ones are reduced to it, because a wall clock may be wrong."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the delay in seconds that ``retry-after-ms`` or ``retry-after`` (seconds or a date) requests.

    A date is compared with the ``date`` header, which has the same clock. Returns 0 for a past date, None for
    an invalid value, and at most the limit.
    """
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  (loads 20 modules, of which one acts at each fork)

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


_LIMIT_RESETS: Final = re.compile(r"(anthropic-ratelimit-.+-)reset|(x-ratelimit-)reset(-.+)", re.ASCII)
_LIMIT_DURATION: Final = re.compile(
    r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8}(?:\.\d+)?)s)?(?:(\d{1,9}(?:\.\d+)?)ms)?", re.ASCII
)
_DURATION_SECONDS: Final = (86_400.0, 3600.0, 60.0, 1.0, 0.001)


def limit_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until the exhausted rate limits of a response have reset; None if no header names a reset.

    Anthropic names times (``anthropic-ratelimit-tokens-reset``), OpenAI durations (``x-ratelimit-reset-tokens``). Only
    limits with nothing remaining count, or all, if no header says so.
    """
    found: list[tuple[bool, float]] = []
    for name, text in headers.items():
        match = _LIMIT_RESETS.fullmatch(name.lower())
        seconds = None if match is None else _until(text, headers.get("date"))
        if match is not None and seconds is not None:
            remaining = f"{match[1]}remaining" if match[1] else f"{match[2]}remaining{match[3]}"
            found.append((headers.get(remaining) == "0", seconds))
    exhausted = [seconds for used_up, seconds in found if used_up] or [seconds for _, seconds in found]
    return min(max(0.0, *exhausted), RETRY_AFTER_LIMIT_SECONDS) if exhausted else None


def _until(text: str, date: str | None) -> float | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    match = _LIMIT_DURATION.fullmatch(text)
    if text and match is not None:
        return sum(float(part or 0) * unit for part, unit in zip(match.groups(), _DURATION_SECONDS, strict=True))
    try:
        now = parsedate_to_datetime(date or "")
        return (datetime.fromisoformat(text) - now).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return _number(text, 1.0)


def _number(text: str | None, per_second: float) -> float | None:
    try:
        value = float(text or "") / per_second
    except ValueError:
        return None
    return value if math.isfinite(value) else None


Stop = Literal["end_turn", "tool_use", "max_tokens", "context_overflow", "refusal", "pause_turn", "fired"]
"""Why a reply ended. ``fired`` (mock only): the reply records that a scripted failure follows."""

CUT: Final[frozenset[str]] = frozenset({"max_tokens", "context_overflow", "refusal"})
"""Stops after which the last tool call of a reply may be incomplete, so its calls are not run."""


ListTools = Callable[[], Awaitable[tuple[ToolSpec, ...]]]


class StreamSink(Protocol):
    """Display of a partial reply. Nothing displayed here is stored."""

    async def delta(self, text: str) -> None:
        """Show a piece of the reply's text."""
        ...

    async def progress(self, what: str, *, tool: bool = False) -> None:
        """Show the current activity in a few words."""
        ...


class Model(Protocol):
    """Source of replies. Adapters call a provider; the mock plays a script."""

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """Request one reply and return it with its native form, without ``duration_ms``. Raises Failed.

        ``allowance`` is a maximum of tokens, in addition to the agent's own limit. Cancellation closes
        the connection; the partial reply is lost.
        """
        ...

    async def aclose(self) -> None:
        """Close the model's connection to its provider."""
        ...


def counted(value: object) -> int:
    """Return ``value`` as a token count; 0 for a missing one. Raises Failed for an invalid count."""
    try:
        return msgspec.convert(value or 0, Count)
    except msgspec.ValidationError as error:
        raise Failed("protocol", f"the provider returned an invalid token count: {value!r:.60} ({error})") from error


def to_native(dialect: str, value: object) -> Json:
    """Return ``value``, a provider's own form of a reply, for an entry. Replaces lone surrogates."""
    labelled = {dialect: value}
    try:
        return Json(msgspec.json.encode(labelled))
    except UnicodeEncodeError:
        return Json(clean(json.dumps(labelled, ensure_ascii=False, allow_nan=False)).encode())


def native_of(reply: Entry, dialect: str) -> Any:
    """Return the native form of ``reply`` in ``dialect``; None if it has none and must be converted."""
    labelled: object = msgspec.json.decode(reply.native)
    return labelled.get(dialect) if isinstance(labelled, dict) else None


def replayed(step: ConversationStep, dialect: str) -> tuple[Any, list[str]]:
    """Return the native form of a step's reply (None: it must be converted), and the ids of its calls for a request.

    Converted calls get ids that every provider accepts (9 letters and digits, unique), because a provider's own may be
    refused by another one.
    """
    native = native_of(step.reply, dialect)
    if native and step.reply.stop_reason not in CUT:
        return native, [one.call_id or "" for one in step.results]
    return None, [f"c{step.reply.k:05d}{index:03d}" for index in range(len(step.reply.calls))]


BLANK: Final = Start(
    instruction="i0",
    attempt="i0-0",
    epoch=0,
    agent="nobody",
    space="dm:nobody",
    backend="mock",
    model="-",
    provider=None,
    system="-",
    messages=(),
    message="-",
    entries=(),
    limits=Limits(),
    mcp=McpAddress(url="http://127.0.0.1:9/mcp"),
    token="-",
    cwd="/",
    env={},
    idempotency_key="-",
    source_text="-",
)
"""Start frame for the warm-up; its addresses are not reachable."""
