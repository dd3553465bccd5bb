"""Discovery of the kernel of a project; only a kernel that proves its identity receives the token.

The address comes from ``AGENT_WORKER_URL`` with ``AGENT_WORKER_TOKEN``, otherwise from the project's record (contracts
3). A record must be a private file of this user. The server at the address must answer a nonce with the HMAC of the
token (faults PF12, HF27). This module starts no kernel; interface.autostart does.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from interface.failure import Failure, Unreachable
from interface.http_client import Address, Connection, parse_address
from osfiles.safe_open import is_locked as is_file_locked
from osfiles.safe_open import read_private
from protocol.discovery import (
    ADMIN,
    LOCK,
    PROJECT_MARKS,
    RECORD,
    RECORD_BYTES,
    digest,
    is_proof,
    project_state,
    proof_key,
    state_home,
)

URL: Final = "AGENT_WORKER_URL"
TOKEN: Final = "AGENT_WORKER_TOKEN"
HOME: Final = "AGENT_WORKER_HOME"

PROOF_SECONDS: Final = 5.0
"""Timeout of the proof of identity; a kernel needs a millisecond."""


class Project(NamedTuple):
    """Project by its root (real, absolute path), and the directory of its kernel's state."""

    root: str
    state: str


class KernelEndpoint(NamedTuple):
    """Unproved address of a kernel, and the token that the kernel must prove to have. ``pid`` is 0 if unknown."""

    address: Address
    token: str
    pid: int
    origin: str
    """File or variable that contains the address, for messages."""
    start_time: int = 0
    """Start time of ``pid`` in clock ticks since boot; 0 if unknown."""


class Proof(NamedTuple):
    """Connection to a kernel that has proved its identity, with the kernel's status and version."""

    connection: Connection
    status: str
    version: str
    idle: bool = False
    """Whether the kernel is in safe mode: it stores requests but starts no work."""


IDLE: Final = "note: the kernel is in safe mode and starts no work; see awk status, or restart it"


class Unverified(Unreachable):
    """Kernel record that cannot be trusted; the text has the reason and a remedy."""


class NotOurKernel(Unreachable):
    """The server at the kernel's address failed to prove its identity. It received no token."""


class Hanging(Failure):
    """A kernel holds the lock of the project but does not answer. Unreachable is raised if no kernel runs."""

    def __init__(self, project: Project, why: Exception) -> None:
        endpoint = recorded_endpoint(project)
        self.endpoint = endpoint if endpoint is not None and lives(endpoint) else None
        """Endpoint of the kernel; None if its process is unknown."""
        named = f"pid {self.endpoint.pid}" if self.endpoint else f"it holds {os.path.join(project.state, LOCK)}"
        hint = (
            "kill it: awk stop --now; awk start continues its work"
            if self.endpoint
            else "stop the process that holds the lock"
        )
        super().__init__("no_kernel", f"the kernel of {project.root} does not answer ({named}): {why}", hint)


def find_project(environ: Mapping[str, str], cwd: str, asked: str | None) -> Project:
    """Return the project at ``asked`` (``--project``), or the project that contains ``cwd``. Raises Failure."""
    if not cwd and not (asked and os.path.isabs(asked)):
        hint = "change to an existing directory, or use --project"
        raise Failure("usage", "the working directory no longer exists", hint)
    if asked is not None and not os.path.isdir(os.path.join(cwd, asked)):
        raise Failure("usage", f"--project {asked}: no such directory")
    root = os.path.realpath(os.path.join(cwd, asked)) if asked is not None else nearest_root(os.path.realpath(cwd))
    try:
        root.encode()
    except UnicodeEncodeError as error:  # non-UTF-8 bytes of a path become lone surrogates
        text = f"the project's path is not UTF-8 text: {root!r}"
        raise Failure("usage", text, "rename that directory") from error
    return Project(root=root, state=project_state(state_folder(environ, cwd), root))


def state_folder(environ: Mapping[str, str], cwd: str) -> str:
    """Return the state directory of all projects. Raises Failure (usage) if it would be relative."""
    try:
        return os.path.abspath(os.path.join(cwd, state_home(environ.get(HOME), os.path.expanduser("~"))))
    except ValueError as error:
        raise Failure("usage", str(error), "set HOME to your home directory") from error


def nearest_root(directory: str) -> str:
    """Return the nearest of ``directory`` and its parents that has one of PROJECT_MARKS; else ``directory``."""
    place = directory
    while True:
        if any(os.path.exists(os.path.join(place, mark)) for mark in PROJECT_MARKS):
            return place
        parent = os.path.dirname(place)
        if parent == place:
            return directory
        place = parent


def given_endpoint(environ: Mapping[str, str]) -> KernelEndpoint | None:
    """Return the kernel that AGENT_WORKER_URL names, if any. Raises Failure for a missing token or invalid URL."""
    url, token = environ.get(URL), environ.get(TOKEN)
    if not url:
        return None
    if not token:
        hint = f"set {TOKEN}, or unset {URL}: the kernel of this machine needs neither"
        raise Failure("no_credentials", f"{TOKEN} is missing: {URL} is set", hint)
    address = parse_address(url)
    if address is None:
        raise Failure("usage", f"{URL}={url}: not a valid address; use one such as http://127.0.0.1:4711")
    return KernelEndpoint(address, token, 0, URL)


def recorded_endpoint(project: Project) -> KernelEndpoint | None:
    """Return the kernel from the record of the project; None if it is missing or not trusted."""
    path = os.path.join(project.state, RECORD)
    try:
        record = json.loads(read_private(path, RECORD_BYTES))
        address, token = parse_address(str(record["url"])), str(record["token"])
        with suppress(FileNotFoundError):  # written by an earlier version: its record has the administrator's token
            admin = json.loads(read_private(os.path.join(project.state, ADMIN), RECORD_BYTES))
            token = str(admin["token"]) if admin["record"] == digest(token.encode()) else token
        started = int(record.get("start_time", 0))
        return KernelEndpoint(address, token, int(record["pid"]), path, started) if address else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def reject_reason(project: Project) -> str | None:
    """Return the reason to distrust the record; None if it is missing or a private file of this user."""
    for path in (os.path.join(project.state, name) for name in (RECORD, ADMIN)):
        try:
            read_private(path, RECORD_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{path} is not believed: {error.strerror or error}; it must be a file of yours with mode 0600"
    return None


def prove(endpoint: KernelEndpoint, timeout_seconds: float = PROOF_SECONDS) -> Proof:
    """Connect, and verify that the server knows the token, without sending the token.

    Raises Unreachable if no server answers, NotOurKernel if the proof fails.
    """
    connection = Connection(endpoint.address, timeout_seconds)
    nonce = os.urandom(16).hex()
    key, number = proof_key(endpoint.token)
    asked = f"/health?nonce={nonce}&token={number}" if number else f"/health?nonce={nonce}"
    try:
        answer = connection.request("GET", asked, {"Accept": "application/json"})
        health = json.loads(answer.body())
        proofs = [str(health.get(name, "")) for name in ("proof", "admin_proof") if answer.status == 200]
        status, version, idle = str(health["status"]), str(health["version"]), bool(health.get("safe_mode"))
    except (ValueError, KeyError, TypeError, AttributeError):
        proofs, status, version, idle = [], "", "", False
    if not any(is_proof(proof, key, nonce) for proof in proofs):
        connection.close()
        raise NotOurKernel(
            f"the server at {endpoint.address.authority} is not the kernel of {endpoint.origin}; the token was not sent"
        )
    return Proof(connection, status, version, idle)


def lives(endpoint: KernelEndpoint) -> bool:
    """Return whether the recorded process still exists and its pid was not reused (fault PF12)."""
    if endpoint.pid <= 0:
        return False
    try:
        with open(f"/proc/{endpoint.pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0] not in (b"Z", b"X") and endpoint.start_time in (0, int(fields[19]))
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return False
    except (OSError, ValueError, IndexError):
        pass
    try:
        os.kill(endpoint.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def is_locked(project: Project) -> bool:
    """Return whether a kernel holds the lock of the project's state, whether or not it answers (promise P23)."""
    return is_file_locked(os.path.join(project.state, LOCK))
