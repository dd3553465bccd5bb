"""Causes of failure and codes of refusal: two closed tables for server, client and docs.

A *cause* is the reason that an attempt ended. A *code* is the reason that a request was refused. The code determines
the HTTP status and the exit code for every route, tool and command.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeVar, get_args

_T = TypeVar("_T")
ErrorClass = Literal["transient", "permanent", "resource", "crash"]
"""Class of a cause. Defined here, so that the command line can read these tables without importing msgspec."""

TransientCause = Literal[
    "rate_limited", "overloaded", "network", "idle_timeout", "startup_timeout", "spawn_transient", "kernel_restart",
    "node_lost", "session_lost",
]  # fmt: skip
PermanentCause = Literal[
    "quota", "auth", "invalid", "definition_missing", "untrusted", "spawn_permanent", "refusal", "cancelled"
]
ResourceCause = Literal["resource", "max_steps", "max_tokens", "context_overflow", "total_timeout", "budget", "limit"]
CrashCause = Literal["crash", "protocol", "unresponsive", "suspect_kernel_crash"]
Cause = Literal[TransientCause, PermanentCause, ResourceCause, CrashCause]

UNREACHED: Final = "kernel_unreached"
"""Code of a failure (cause ``network``): a worker, or its program, could not reach Daemon MCP."""
UNSERVED: Final = "mcp_server_unavailable"
"""Code of a failure (cause ``network``): an MCP server of the agent did not start."""
BESIDE_THE_PROVIDER: Final = frozenset({UNREACHED, UNSERVED})
"""Codes of failures that do not concern the provider. Circuit breakers ignore them."""

_CAUSES: Final[tuple[tuple[ErrorClass, object], ...]] = (
    ("transient", TransientCause),
    ("permanent", PermanentCause),
    ("resource", ResourceCause),
    ("crash", CrashCause),
)
CLASS_OF_CAUSE: Final[Mapping[Cause, ErrorClass]] = {
    cause: class_ for class_, causes in _CAUSES for cause in get_args(causes)
}


class Meaning(NamedTuple):
    """HTTP status and exit code of a refusal code."""

    http_status: int
    exit_code: int


REFUSALS: Final[Mapping[str, Meaning]] = {
    "bad_request": Meaning(400, 2),
    "bad_target": Meaning(400, 2),
    "bad_definition": Meaning(422, 78),
    "unauthorized": Meaning(401, 4),
    "stale_attempt": Meaning(401, 4),
    "bad_signature": Meaning(401, 4),
    "forbidden": Meaning(403, 4),
    "forbidden_host": Meaning(421, 4),
    "forbidden_origin": Meaning(403, 4),
    "not_found": Meaning(404, 5),
    "unknown_agent": Meaning(404, 5),
    "unknown_workflow": Meaning(404, 5),
    "workflow_not_running": Meaning(404, 5),
    "not_a_participant": Meaning(404, 5),
    "method_not_allowed": Meaning(405, 2),
    "already_running": Meaning(409, 2),
    "already_exists": Meaning(409, 2),
    "conflict": Meaning(409, 1),
    "version_conflict": Meaning(412, 1),
    "no_kickoff": Meaning(422, 2),
    "key_reused": Meaning(422, 2),
    "already_told": Meaning(409, 1),
    "setup_failed": Meaning(422, 1),
    "fetch_failed": Meaning(502, 1),
    "provider_unreachable": Meaning(502, 1),
    "untrusted": Meaning(403, 7),
    "no_credentials": Meaning(422, 4),
    "too_large": Meaning(413, 2),
    "unsupported_media_type": Meaning(415, 2),
    "queue_full": Meaning(429, 1),
    "quota_reached": Meaning(429, 1),
    "starting": Meaning(503, 69),
    "stopping": Meaning(503, 69),
    "safe_mode": Meaning(503, 69),
    "busy": Meaning(503, 69),
    "storage_full": Meaning(507, 1),
    "storage_failed": Meaning(507, 1),
    "internal": Meaning(500, 1),
}


EXIT_OF_WAIT: Final[Mapping[str, int]] = MappingProxyType(
    {"credentials": 4, "quota": 4, "approval": 7, "person": 7, "node": 7, "budget": 6, "hops": 6}
    | dict.fromkeys(("answer", "paused", "stopped", "error"), 1)
)
"""Exit code of a command whose instruction waits for a person, by the reason of the wait."""
EXIT_OF_CAUSE: Final[Mapping[str, int]] = {"auth": 4, "quota": 4, "untrusted": 7}
"""Exit code by cause of failure, for causes with a code that replaces the status's code."""


class Refused(Exception):
    """Refusal of a request, which changes nothing: the caller receives ``code``, the problem and a hint.

    Raised for mistakes that a caller can fix, never for bugs (they become ``internal``).
    """

    def __init__(self, code: str, text: str, hint: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hint = hint
        self.meaning = REFUSALS[code]


def accepted(check: Callable[[str], _T], name: str, hint: str | None = None) -> _T:
    """Return the result of ``check``. Raises Refused (bad_request) if it rejects ``name``."""
    try:
        return check(name)
    except ValueError as error:
        raise bad_request(str(error), hint) from error


def bad_request(text: str, hint: str | None = None) -> Refused:
    """Return the refusal of a request with invalid content."""
    return Refused("bad_request", text, hint)
