"""Refusals as problem+json (RFC 9457): one mapping for every route and for what never reached one."""

import logging
from http import HTTPStatus
from typing import Final

import msgspec

from kernel.agents.trust import Untrusted
from kernel.api.reply import PROBLEM, Reply
from kernel.source.problems import BadDefinition
from kernel.store.errors import StorageFailed
from protocol.api.problem import Problem
from protocol.codec import DuplicateKey
from protocol.errors import Refused
from protocol.text import encode_json

logger = logging.getLogger(__name__)

INTERNAL: Final = Refused(
    "internal", "the kernel failed to answer; nothing was changed", hint="see `awk logs` and report it"
)

_KNOWN: Final[tuple[tuple[type[Exception], Refused], ...]] = (
    (UnicodeError, Refused("bad_request", "the body has text that is not Unicode (UTF-8, no lone surrogates)")),
    (RecursionError, Refused("bad_request", "the body is nested too deeply")),
    (
        StorageFailed,
        Refused(
            "storage_failed",
            "the kernel cannot write to its database any more, and ends",
            "the end of kernel.log says why",
        ),
    ),
)


def problem_of(refused: Refused) -> Problem:
    """The document that says why a request was refused."""
    status = refused.meaning.http_status
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        code=refused.code,
        detail=refused.text,
        hint=refused.hint,
        errors=refused.errors if isinstance(refused, BadDefinition) else (),
        wants=refused.wants if isinstance(refused, Untrusted) else (),
    )


def problem_reply(refused: Refused, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    """The answer to a refused request."""
    problem = problem_of(refused)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers = (*headers, (b"www-authenticate", b"Bearer"))
    return Reply(problem.status, encode_json(problem), PROBLEM, headers)


def refusal_of(error: Exception) -> Refused:
    """The refusal that ``error`` amounts to. What is nobody's mistake but ours is logged and becomes ``internal``."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, msgspec.ValidationError | DuplicateKey):
        return Refused("bad_request", f"the body does not fit: {error}")
    if isinstance(error, msgspec.DecodeError):
        return Refused("bad_request", f"the body is not JSON: {error}")
    known = next((refused for kind, refused in _KNOWN if isinstance(error, kind)), None)
    if known is not None:
        return known
    logger.error("request.failed", exc_info=error)
    return INTERNAL
