"""Reads codex's own record of a thread: the cause of a failed turn, and the tokens spent so far.

Codex keeps it in its home (``sessions/**/rollout-*-<thread>.jsonl``, version 0.169). What ``codex exec --json`` prints
of a failure is prose, and for many failures the provider's own; the record has a code beside it. And it prints what
was spent once, at the end; the record counts after each reply of the model.

Where there is no such record, because a later version keeps it elsewhere, the status is taken from the two sentences
that name it, and tokens are all told in the end.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from protocol.errors import Cause
from worker.backends import private_files
from worker.backends.process import Lines
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


class TurnFailure(msgspec.Struct, frozen=True):
    """A cause, with the HTTP status where one is known."""

    cause: Cause
    status: int | None = None


class Count(msgspec.Struct, frozen=True):
    """Tokens of a thread so far, of all processes that worked on it."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0


class _Info(msgspec.Struct, frozen=True):
    total_token_usage: Count = Count()


class _Error(msgspec.Struct, frozen=True):
    message: str = ""
    codex_error_info: str | dict[str, Any] | None = None


class _Payload(msgspec.Struct, frozen=True):
    type: str = ""
    error: _Error | None = None
    info: _Info | None = None


class _Event(msgspec.Struct, frozen=True):
    payload: _Payload = _Payload()


_decode: Final = msgspec.json.Decoder(_Event).decode


def turn_failure(home: Path, thread: str | None, message: str) -> TurnFailure:
    """Return the cause of the failure of the last turn of ``thread``, of which codex said ``message``."""
    info = _recorded(home, thread) if thread is not None else None
    if isinstance(info, str) and info in CAUSES:
        return TurnFailure(CAUSES[info])
    if isinstance(info, dict):
        for code in _CONNECTIONS & info.keys():
            detail = info[code]
            status = detail.get("http_status_code") if isinstance(detail, dict) else None
            return TurnFailure(cause_of(status, ()), status) if isinstance(status, int) else TurnFailure("network")
    if (found := _STATUS.search(message)) is not None:
        status = int(found[1])
        return TurnFailure(cause_of(status, ()), status)
    for words, cause in _PROSE:
        if message.startswith(words):
            return TurnFailure(cause)
    if not message.startswith("{"):
        return TurnFailure("overloaded")  # of which we know nothing: it is tried again
    # The body of a 400 is passed on as it came.
    body: object = None
    with suppress(msgspec.DecodeError, RecursionError):
        body = msgspec.json.decode(message)
    return TurnFailure(cause_of(400, codes_in(body)), 400)


def _recorded(home: Path, thread: str) -> str | dict[str, Any] | None:
    """The code of the last turn that failed; None where there is none."""
    found: str | dict[str, Any] | None = None
    for path in home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl"):
        with suppress(OSError), private_files.opened(path) as lines:
            for line in lines:
                if b'"task_complete"' in line:
                    found = None
                    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                        error = _decode(line).payload.error
                        found = error.codex_error_info if error is not None else None
    return found


_KIND: Final = "token_count"
_CHUNK_BYTES: Final = 1024 * 1024


class TokenCount:
    """Follows the records of one thread, in the home that they are in."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._read: dict[Path, tuple[int, Lines]] = {}
        """How much of each is behind us, and its last line, which is being written."""
        self._last: Count | None = None

    def count(self, thread: str) -> Count | None:
        """Return the tokens that ``thread`` has spent, as far as they are written down by now; None if none are."""
        for path in sorted(self._home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl")):
            with suppress(OSError):
                behind, lines = self._read.get(path, (0, Lines()))
                with private_files.opened(path) as file:
                    file.seek(behind)
                    while chunk := file.read(_CHUNK_BYTES):
                        for line in lines.feed(chunk):
                            self._last = _counted(line) or self._last
                    self._read[path] = file.tell(), lines
        return self._last


def _counted(line: bytes) -> Count | None:
    if _KIND.encode() not in line:
        return None
    try:
        payload = _decode(line).payload
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return payload.info.total_token_usage if payload.type == _KIND and payload.info is not None else None
