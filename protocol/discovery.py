"""Finding a project's kernel: the paths of its state, and the proof of identity it gives before it is shown the token.

``$AGENT_WORKER_HOME`` (default ``~/.agent-worker``) ``/projects/<slug>-<hash>/`` (contracts 3). Pure functions of the
root, on which kernel and clients must agree; nothing here touches the disk.

Standard library only, and little of it, for ``awk ps``: ``pathlib`` takes a tenth of its time. ``hmac`` and ``hashlib``
load OpenSSL, which takes a sixth; the interpreter has SHA-256 of its own, and what ``hmac`` compares with where there
is no OpenSSL.
"""

import re
from _operator import _compare_digest  # pyright: ignore[reportPrivateUsage]
from collections.abc import MutableMapping
from typing import Final

try:
    from _sha256 import sha256  # type: ignore[import-not-found]  # the stubs have public modules only
except ImportError:  # Python 3.12 calls it by another name; some distributions leave it out
    from hashlib import sha256

VERSION: Final = "0.1.0"
"""The version of this distribution: the only place that says it."""

_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def digest(data: bytes) -> str:
    """SHA-256 of ``data``, in hex."""
    return str(sha256(data).hexdigest())


def prove(token: str, nonce: str) -> str:
    """HMAC-SHA256 (RFC 2104) of ``nonce`` under ``token``, in hex: what only the holder of the token can say."""
    key = token.encode()
    key = (sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(_BLOCK_BYTES, b"\0")
    inner = sha256(key.translate(_INNER) + nonce.encode()).digest()
    return digest(key.translate(_OUTER) + inner)


def is_proof(proof: str, token: str, nonce: str) -> bool:
    """Return whether ``proof`` is what ``prove`` says, compared in constant time."""
    return _compare_digest(proof.encode(), prove(token, nonce).encode())


TOKEN_MARK: Final = "awt_"
"""How a token begins that somebody made (``awk token create``). Its number follows, ``_``, and what nobody guesses."""


def proof_key(token: str) -> tuple[str, str]:
    """The key that a kernel proves to have ``token`` by, and the number it has to be asked for; "" for its own token.

    Of a token that somebody made it has only the digest.
    """
    number, _, secret = token.removeprefix(TOKEN_MARK).partition("_")
    made = token.startswith(TOKEN_MARK) and number.isascii() and number.isdecimal() and secret
    return (digest(token.encode()), number) if made else (token, "")


CALL_URL: Final = "AGENT_WORKER_CALL"
"""The variable in which programs of an attempt find the kernel. No secret: who asks there is told by the system."""
COOKIE: Final = "AGENT_WORKER_COOKIE"
"""The variable with the cookie of an attempt (protocol.ipc)."""
COOKIE_FIELD: Final = "Agent-Worker-Cookie"
"""The header of ``POST /call`` with the cookie: a request that somebody has a program of the attempt send lacks it."""

BODY_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""The largest body of a request that a kernel takes."""

RECORD: Final = "daemon.json"
ADMIN: Final = "admin.json"
"""The administrator's token, for the command line, and the digest of the token in the record that it goes with."""
PROJECT: Final = "project.json"
"""A note of the project's root, which stays when the record goes: by it all projects of a user are found."""
SERVICE: Final = "AGENT_WORKER_SERVICE"
"""The variable that names the service (awk service) that a kernel is kept by."""
ENDED: Final = "ended"
"""A file in which that service leaves how the kernel ended."""
PORT: Final = "port"
"""A file with the port that the last kernel had: the next takes it if it is free."""
LOCK: Final = "daemon.lock"
STANDBY_LOCK: Final = "standby.lock"
DATABASE: Final = "agent-worker.db"
JOURNAL: Final = "restore.json"
"""A restore that was begun and has not ended: the next kernel ends it."""
LOG: Final = "kernel.log"
IN_FLIGHT: Final = "in-flight"
PLACEHOLDERS: Final = "placeholders.json"
RUN: Final = "run"
SESSIONS: Final = "sessions"
WORKTREES: Final = "worktrees"
CONTEXTS: Final = "contexts"

PROJECT_MARKS: Final = (".agents", ".workflows", "moniro.yaml", ".agents.yaml", ".git")
"""A directory that holds one of these is a project's root; the nearest parent of the working directory wins."""


def project_slug(root: str) -> str:
    """The folder name for the project at ``root``, which must be a real, absolute path."""
    words = re.sub(r"[^a-z0-9]+", "-", root.rpartition("/")[2].lower()).strip("-")[:40] or "project"
    return f"{words}-{digest(root.encode('utf-8', 'surrogateescape'))[:10]}"


def state_home(environ_home: str | None, user_home: str) -> str:
    """The state directory of all projects: ``AGENT_WORKER_HOME``, or ``.agent-worker`` in the user's home.

    Raises ValueError where the home is not absolute: each working directory would have a state of its own.
    """
    if not user_home.startswith("/"):
        raise ValueError(f"HOME={user_home!r} is not an absolute path")
    return environ_home or f"{user_home.rstrip('/')}/.agent-worker"


def forget_empty_home(environ: MutableMapping[str, str]) -> None:
    """Drop a HOME that is empty: the home in the password database counts then, not the root of the file system."""
    if not environ.get("HOME"):
        environ.pop("HOME", None)


def project_state(home: str, root: str) -> str:
    """The state directory of the project at ``root``."""
    return f"{home.rstrip('/')}/projects/{project_slug(root)}"


def authorities(host: str, port: int) -> frozenset[str]:
    """The names that a request may have as its Host: this address, and localhost, with exactly this port."""
    shown = f"[{host}]" if ":" in host else host
    return frozenset({f"{shown}:{port}", f"localhost:{port}"})
