"""What the user's own git knows of a host: asked for a name and a password, as any ``git fetch`` of theirs would.

This is the one place where git's configuration has a say, and it is the user's: the system's and their own, never that
of a folder. Nobody is prompted; a helper that wants to is answered by nothing. What is found goes into one request.
"""

import base64
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from kernel.workflows.git_command import GitCommand, Setting

SECONDS: Final = 20.0
LIMIT_BYTES: Final = 64 * 1024

_PASSED: Final = (
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GH_CONFIG_DIR",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GNUPGHOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)
"""Where helpers keep what they know: the files of git and gh, keyrings, agents."""

SETTINGS: Final[tuple[Setting, ...]] = (("safe.bareRepository", "explicit"),)
"""The folder it runs in is none that has a say."""
SILENT: Final[Mapping[str, str]] = {"GCM_INTERACTIVE": "never"}
"""Beside what holds for every git of ours."""


def variables(environ: Mapping[str, str], path: str, folder: str) -> dict[str, str]:
    """The environment in which ``git credential`` is run in ``folder``; no folder above it is looked at."""
    passed = {name: environ[name] for name in _PASSED if environ.get(name)}
    return {**passed, **SILENT, "PATH": path, "GIT_CEILING_DIRECTORIES": folder.rpartition("/")[0] or "/"}


async def credential(git: GitCommand, folder: str, url: str) -> str | None:
    """The value of an ``Authorization`` header for ``url``, as the user's git would send it; None where it has none.

    Raises GitMissing, SpawnTransient. Cancellation kills the helper's tree.
    """
    parts = urlsplit(url)
    asked = f"protocol={parts.scheme}\nhost={parts.netloc}\npath={parts.path.lstrip('/')}\n\n"
    result = await git.run(folder, "credential", "fill", given=asked.encode())
    parted = (line.partition("=") for line in result.stdout.decode("utf-8", "replace").splitlines())
    answer = {key: value for key, _, value in parted}
    if not result.ok or not answer.get("password"):
        return None
    pair = f"{answer.get('username', '')}:{answer['password']}"
    return f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
