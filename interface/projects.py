"""Projects of a user, found by the files of their kernels and queried concurrently with timeouts.

The folder ``~/.agent-worker/projects`` (0700) contains all state directories. Each kernel stores its project's root in
PROJECT there. Like a record, this file is only accepted if it is private and owned by the user, and if the folder's
name contains the digest of the root, so that no file can claim another project. It does not replace the record: only
the record and a proof identify a kernel.
"""

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from shlex import quote
from typing import Any, Final, Generic, NamedTuple, TypeVar

from interface.client import Client
from interface.discovery import (
    KernelEndpoint,
    NotOurKernel,
    Project,
    lives,
    prove,
    recorded_endpoint,
    reject_reason,
    state_folder,
)
from interface.failure import Failure, Unreachable
from osfiles.safe_open import read_private_in
from protocol.discovery import LOOKED_AT, PROJECT, RECORD, RECORD_BYTES, project_in

T = TypeVar("T")
AT_ONCE: Final = 32
"""Maximum number of concurrent queries."""
ANSWER_SECONDS: Final = 5.0
"""Timeout of a kernel's answer."""


def projects_of_user(environ: Mapping[str, str], cwd: str, *, running: bool = False) -> list[Project]:
    """Return the projects with a kernel's state, sorted by root; with ``running`` only those with a kernel's record."""
    home = state_folder(environ, cwd)
    names = (RECORD,) if running else (RECORD, PROJECT)
    files = read_private_in(os.path.join(home, "projects"), names, RECORD_BYTES, LOOKED_AT)
    found = {state: str(known["project"]) for state, file in files if (known := project_in(file, home, state))}
    return sorted(Project(root, state) for state, root in found.items())


def client_of(project: Project) -> Client:
    """Return a client of the project's running kernel. Raises Unreachable."""
    endpoint = recorded_endpoint(project)
    if endpoint is None:
        raise Unreachable(f"no kernel is running for {project.root}")
    return Client(endpoint, prove(endpoint, ANSWER_SECONDS).connection)


class Answer(NamedTuple, Generic[T]):
    """Answer for a project, or the failure."""

    project: Project
    value: T | None
    failure: Exception | None = None


def ask_all(projects: Sequence[Project], ask: Callable[[Project], T], seconds: float | None = None) -> list[Answer[T]]:
    """Call ``ask`` for all ``projects`` concurrently. A project without an answer in time counts as Unreachable."""
    patience = 2 * ANSWER_SECONDS if seconds is None else seconds  # a proof, and an answer
    answers: dict[str, Answer[T]] = {}
    left = list(reversed(projects))
    changed = threading.Condition()

    def work() -> None:
        while True:
            with changed:
                if not left:
                    return
                project = left.pop()
            try:
                answer = Answer(project, ask(project))
            except Exception as error:  # noqa: BLE001  (every error is reported with its project)
                answer = Answer(project, None, error)
            with changed:
                answers[project.state] = answer
                changed.notify()

    for _ in range(min(AT_ONCE, len(projects))):
        threading.Thread(target=work, daemon=True, name="projects").start()
    rounds = -(-len(projects) // AT_ONCE)
    with changed:
        changed.wait_for(lambda: len(answers) == len(projects), timeout=patience * rounds)
        late = Unreachable(f"no response within {patience:g} s")
        return [answers.get(project.state) or Answer(project, None, late) for project in projects]


class Standing(NamedTuple):
    """Snapshot of a project; ``state`` is one of STATES, None if unknown."""

    project: str
    state: str
    state_dir: str
    pid: int | None = None
    version: str | None = None
    needs: int | None = None
    running: int | None = None
    text: str | None = None
    """Problem of the project, if any."""
    command: str | None = None
    """Suggested command."""


STATES: Final = (
    "up", "idle", "safe_mode", "starting", "stopping", "silent", "unverified", "dead", "removed", "stopped",
)  # fmt: skip
"""States of a project. idle: the kernel is up and no agent runs. silent: its process runs but does not respond. dead:
it exited unexpectedly. stopped: it exited on request. removed: the project's directory was deleted."""


def look(project: Project, program: str) -> Standing:
    """Inspect a project. Never raises and starts no process."""
    gone = not os.path.isdir(project.root)
    endpoint = recorded_endpoint(project)
    if endpoint is None:
        reason = reject_reason(project)
        row = Standing(project.root, "unverified" if reason else "stopped", project.state, text=reason)
    else:
        row = _look_at(project, endpoint)
    if row.state == "silent":
        row = row._replace(command=f"kill {row.pid}")
    elif row.state == "dead" and not gone:
        row = row._replace(command=f"{program} start --project {quote(project.root)}")
    elif row.state == "safe_mode":
        where = f"--project {quote(project.root)}"
        row = row._replace(command=f"{program} stop {where} && {program} start {where}")
    if not gone:
        return row
    if row.state in ("dead", "stopped"):
        text = "its directory was deleted; its messages and work remain until you remove them"
        return row._replace(state="removed", pid=None, text=text, command=f"rm -r {quote(project.state)}")
    text = "its directory was deleted, but its kernel is still running"
    return row._replace(text=text, command=f"kill {row.pid}" if row.pid else None)


def _look_at(project: Project, endpoint: KernelEndpoint) -> Standing:
    row = Standing(project.root, "up", project.state, endpoint.pid or None)
    try:
        proof = prove(endpoint, ANSWER_SECONDS)
        row = row._replace(version=proof.version)
        with closing(Client(endpoint, proof.connection)) as client:
            if proof.status != "ok":
                return row._replace(state=proof.status if proof.status in STATES else "silent")
            status: dict[str, Any] = json.loads(client.get("/status", wait_seconds=ANSWER_SECONDS))
            running = int(status.get("agents", {}).get("running", 0))
            state = "safe_mode" if proof.idle else "up" if running else "idle"
            return row._replace(
                state=state, needs=int(status.get("needs", 0)), running=running, text=status.get("notice")
            )
    except (Unreachable, Failure, ValueError, TypeError, AttributeError) as error:
        is_there = not isinstance(error, NotOurKernel) and lives(endpoint)
        why = str(error) if is_there else "its kernel exited unexpectedly; work continues when it starts again"
        return row._replace(state="silent" if is_there else "dead", text=why)


def is_down(error: Exception, project: Project) -> bool:
    """Return whether a query failed only because no kernel runs."""
    endpoint = recorded_endpoint(project)
    return isinstance(error, Unreachable) and (
        endpoint is None or isinstance(error, NotOurKernel) or not lives(endpoint)
    )
