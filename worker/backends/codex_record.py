"""Why a turn of codex failed: from the record of the thread that it keeps in its home.

What ``codex exec --json`` prints of a failure is prose, and for many failures the provider's own. The record
(``sessions/**/rollout-*-<thread>.jsonl``, version 0.169) has a code beside it, and we go by that. Where there is no
such record, because a later version keeps it elsewhere, the status is taken from the two sentences that name it.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from protocol.errors import Cause
from worker.backends import private
from worker.models.errors import cause_of, codes_in

CAUSES: Final[Mapping[str, Cause]] = MappingProxyType(
    {
        "context_window_exceeded": "context_overflow",
        "session_budget_exceeded": "budget",
        "usage_limit_exceeded": "quota",
        "rate_limit_exceeded": "rate_limited",
        "server_overloaded": "overloaded",
        "internal_server_error": "overloaded",
        "model_not_found": "invalid",
        "bad_request": "invalid",
        "unauthorized": "auth",
        "cyber_policy": "refusal",
        "sandbox_error": "crash",
    }
)
"""Codes without a number of their own."""
_CONNECTIONS: Final = frozenset(
    {
        "http_connection_failed",
        "response_stream_connection_failed",
        "response_stream_disconnected",
        "response_too_many_failed_attempts",
    }
)
"""Codes that come with the HTTP status, or with none where there was no answer."""
_STATUS: Final = re.compile(r"(?:unexpected|last) status:? (\d{3})\b", re.ASCII)
_PROSE: Final[tuple[tuple[str, Cause], ...]] = (
    ("stream disconnected before completion", "network"),
    ("Incomplete response returned, reason: max_output_tokens", "max_tokens"),
    ("Incomplete response returned, reason: content_filter", "refusal"),
)
"""Its own fixed sentences for what has no code but ``other``."""


@dataclass(frozen=True, slots=True)
class Why:
    """A cause, with the HTTP status where one is known."""

    cause: Cause
    status: int | None = None


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    codex_error_info: str | dict[str, Any] | None = None


class _Payload(msgspec.Struct, frozen=True):
    type: str = ""
    error: _Error | None = None


class _Event(msgspec.Struct, frozen=True):
    payload: _Payload = _Payload()


_decode: Final = msgspec.json.Decoder(_Event).decode


def why(home: Path, thread: str | None, message: str) -> Why:
    """Why the last turn of ``thread`` failed, of which codex said ``message``."""
    info = _recorded(home, thread) if thread is not None else None
    if isinstance(info, str) and info in CAUSES:
        return Why(CAUSES[info])
    if isinstance(info, dict):
        for code in _CONNECTIONS & info.keys():
            return _of_status(info[code])
    return _from_prose(message)


def _recorded(home: Path, thread: str) -> str | dict[str, Any] | None:
    """The code of the last turn that failed; None where there is none."""
    found: str | dict[str, Any] | None = None
    for path in home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl"):
        with suppress(OSError), private.opened(path) as lines:
            for line in lines:
                if b'"task_complete"' in line:
                    error = _error(line)
                    found = error.codex_error_info if error is not None else None
    return found


def _error(line: bytes) -> _Error | None:
    try:
        return _decode(line).payload.error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _of_status(detail: object) -> Why:
    status = detail.get("http_status_code") if isinstance(detail, dict) else None
    return Why(cause_of(status, ()), status) if isinstance(status, int) else Why("network")


def _from_prose(message: str) -> Why:
    if (found := _STATUS.search(message)) is not None:
        status = int(found[1])
        return Why(cause_of(status, ()), status)
    for words, cause in _PROSE:
        if message.startswith(words):
            return Why(cause)
    codes = codes_in(_json(message))
    # The body of a 400 is passed on as it came; of anything else we know nothing, and it is tried again.
    return Why(cause_of(400, codes), 400) if message.startswith("{") else Why("overloaded")


def _json(text: str) -> object:
    try:
        body: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return body
