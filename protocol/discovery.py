"""Discovery of a project's kernel: the paths of its state, and its proof of identity, which precedes the token.

``$AGENT_WORKER_HOME`` (default ``~/.agent-worker``) ``/projects/<slug>-<hash>/`` (contracts 3). The kernel and its
clients must derive the same paths, so the functions depend on the root alone and never access the disk.

Imports are few, because they slow every command: ``pathlib`` would take a tenth of the time of ``awk ps``. OpenSSL,
which ``hmac`` and ``hashlib`` load, would take a sixth; the interpreter's own SHA-256 and comparison replace it.
"""

import json
import re
from _operator import _compare_digest  # pyright: ignore[reportPrivateUsage]
from collections.abc import MutableMapping
from typing import Any, Final

try:
    from _sha256 import sha256  # type: ignore[import-not-found]  # the stubs have public modules only
except ImportError:
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # the name since Python 3.12
    except ImportError:  # some distributions leave it out
        from hashlib import sha256

VERSION: Final = "0.1.0"
"""Version of this distribution, defined only here."""

_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def digest(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hex."""
    return str(sha256(data).hexdigest())


def prove(token: str, nonce: str) -> str:
    """Return the HMAC-SHA256 (RFC 2104) of ``nonce``, in hex, with ``token`` as key. Only a
    holder of ``token`` can compute it."""
    key = token.encode()
    key = (sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(_BLOCK_BYTES, b"\0")
    inner = sha256(key.translate(_INNER) + nonce.encode()).digest()
    return digest(key.translate(_OUTER) + inner)


def is_proof(proof: str, token: str, nonce: str) -> bool:
    """Return whether ``proof`` equals the result of ``prove``, compared in constant time."""
    return _compare_digest(proof.encode(), prove(token, nonce).encode())


TOKEN_MARK: Final = "awt_"
"""Prefix of a token of ``awk token create``. The token's number, ``_`` and a random secret follow."""


def proof_key(token: str) -> tuple[str, str]:
    """Return the HMAC key for a proof to the holder of ``token``, and the token's number ("" for
    the kernel's own token).

    The key of a created token is its digest, because the kernel stores nothing else."""
    number, _, secret = token.removeprefix(TOKEN_MARK).partition("_")
    made = token.startswith(TOKEN_MARK) and number.isascii() and number.isdecimal() and secret
    return (digest(token.encode()), number) if made else (token, "")


CALL_URL: Final = "AGENT_WORKER_CALL"
"""Variable with the kernel's URL for programs of an attempt. Not a secret: the kernel identifies callers by PID."""
COOKIE: Final = "AGENT_WORKER_COOKIE"
"""Variable with the cookie of an attempt (protocol.ipc)."""
COOKIE_FIELD: Final = "Agent-Worker-Cookie"
"""Header of ``POST /call`` with the cookie. A request that another party sends through a program
of the attempt does not have it."""

BODY_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of the body of a request."""

RECORD: Final = "daemon.json"
ADMIN: Final = "admin.json"
"""File with the administrator's token for the command line, and the digest of the token in the discovery record."""
PROJECT: Final = "project.json"
"""File with the project's root, from which commands find all projects of a user. It remains when
the kernel has exited."""
SERVICE: Final = "AGENT_WORKER_SERVICE"
"""Variable with the name of the service (awk service) that runs the kernel."""
ENDED: Final = "ended"
"""File in which the service (awk service) records the exit of the kernel."""
PORT: Final = "port"
"""File with the port of the last kernel. The next kernel uses the same port if it is free."""
LOCK: Final = "daemon.lock"
STANDBY_LOCK: Final = "standby.lock"
DATABASE: Final = "agent-worker.db"
JOURNAL: Final = "restore.json"
"""Journal of an interrupted restore, which the next kernel completes."""
LOG: Final = "kernel.log"
IN_FLIGHT: Final = "in-flight"
PLACEHOLDERS: Final = "placeholders.json"
RUN: Final = "run"
SESSIONS: Final = "sessions"
WORKTREES: Final = "worktrees"
CONTEXTS: Final = "contexts"

PROJECT_MARKS: Final = (".agents", ".workflows", "moniro.yaml", ".agents.yaml", ".git")
"""Names that mark the root of a project: the nearest parent of the working directory that contains one of them."""


def project_slug(root: str) -> str:
    """Return the folder name for the project at ``root``, which must be an absolute path without links."""
    words = re.sub(r"[^a-z0-9]+", "-", root.rpartition("/")[2].lower()).strip("-")[:40] or "project"
    return f"{words}-{digest(root.encode('utf-8', 'surrogateescape'))[:10]}"


def state_home(environ_home: str | None, user_home: str) -> str:
    """Return the state directory of all projects: ``AGENT_WORKER_HOME``, or ``.agent-worker`` in the user's home.

    Raises ValueError if the home is not absolute, because each working directory would have a separate state.
    """
    if not user_home.startswith("/"):
        raise ValueError(f"HOME={user_home!r} is not an absolute path")
    return environ_home or f"{user_home.rstrip('/')}/.agent-worker"


def forget_empty_home(environ: MutableMapping[str, str]) -> None:
    """Delete an empty HOME, so that the home in the password database is used instead of the root directory."""
    if not environ.get("HOME"):
        environ.pop("HOME", None)


def project_state(home: str, root: str) -> str:
    """Return the state directory of the project at ``root``."""
    return f"{home.rstrip('/')}/projects/{project_slug(root)}"


LOOKED_AT: Final = 4096
"""Maximum number of state directories to inspect."""
RECORD_BYTES: Final = 64 * 1024


def project_in(content: bytes, home: str, state: str) -> dict[str, Any] | None:
    """Return RECORD or PROJECT of the state directory ``state``; None if malformed or copied from another project."""
    try:
        found = json.loads(content)
        return found if project_state(home, str(found["project"])) == state else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def authorities(host: str, port: int) -> frozenset[str]:
    """Return the accepted Host headers of a request: this address, and localhost, with exactly this port."""
    shown = f"[{host}]" if ":" in host else host
    return frozenset({f"{shown}:{port}", f"localhost:{port}"})
