"""The paths of a project's state, as pure functions of the root: kernel and clients must agree on it.

``$AGENT_WORKER_HOME`` (default ``~/.agent-worker``) ``/projects/<slug>-<hash>/``; nothing here touches the disk.
Plain text, since ``pathlib`` takes a tenth of the time of ``awk ps``.
"""

import re
from typing import Final

from protocol.proof import digest

RECORD: Final = "daemon.json"
LOCK: Final = "daemon.lock"
DATABASE: Final = "agent-worker.db"
LOG: Final = "kernel.log"
IN_FLIGHT: Final = "in-flight"
PLACEHOLDERS: Final = "placeholders.json"
RUN: Final = "run"
SESSIONS: Final = "sessions"
WORKTREES: Final = "worktrees"

PROJECT_MARKS: Final = (".agents", ".workflows", "moniro.yaml", ".agents.yaml", ".git")
"""A directory that holds one of these is a project's root; the nearest parent of the working directory wins."""


def project_slug(root: str) -> str:
    """The folder name for the project at ``root``, which must be a real, absolute path."""
    words = re.sub(r"[^a-z0-9]+", "-", root.rpartition("/")[2].lower()).strip("-")[:40] or "project"
    return f"{words}-{digest(root.encode('utf-8', 'surrogateescape'))[:10]}"


def state_home(environ_home: str | None, user_home: str) -> str:
    """The state directory of all projects: ``AGENT_WORKER_HOME``, or ``.agent-worker`` in the user's home."""
    return environ_home or f"{user_home.rstrip('/')}/.agent-worker"


def project_state(home: str, root: str) -> str:
    """The state directory of the project at ``root``."""
    return f"{home.rstrip('/')}/projects/{project_slug(root)}"
