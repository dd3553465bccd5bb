"""``github:owner/repo@ref/path``: names of remote workflows and folders, and the URL of their host. Pure.

A text that git could interpret as an option, another transport or another directory is not a valid name and never
reaches git (faults XF04, T50).
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

PREFIX: Final = "github:"
GITHUB_URL: Final = "AGENT_WORKER_GITHUB_URL"
"""Variable with the URL of a host that replaces github.com: an enterprise's host, or a test's on this machine."""
_GITHUB: Final = "https://github.com"
_LONGEST: Final = 500

_OWNER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}", re.ASCII)
_REPO: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", re.ASCII)
_REF: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,127}", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_FOLDER_HINT: Final = "write github:owner/repo@ref/path/to/folder; ref is a tag, a branch without a slash, or a commit"
_HINT: Final = "write github:owner/repo@ref/path/to/workflow.yaml; ref is a tag, a branch without a slash, or a commit"


class RemoteRejected(ValueError):
    """Text that names no remote workflow or host, with the reason and a ``hint``."""

    def __init__(self, text: str, hint: str = _HINT) -> None:
        super().__init__(text)
        self.hint = hint


class Remote(NamedTuple):
    """File or folder in a remote repository."""

    owner: str
    repo: str
    ref: str
    path: str

    @property
    def repository(self) -> str:
        """Return ``github:owner/repo@ref``, the name that is pinned to a commit."""
        return f"{PREFIX}{self.owner}/{self.repo}@{self.ref}"

    def __str__(self) -> str:
        return f"{self.repository}/{self.path}" if self.path else self.repository


def is_remote(asked: str) -> bool:
    """Return whether ``asked`` has the prefix of a remote workflow's name."""
    return asked.startswith(PREFIX)


def parse_remote(asked: str) -> Remote:
    """Parse the name of a remote workflow. Raises RemoteRejected."""
    remote = _parse(asked)
    if not remote.path.endswith((".yaml", ".yml")):
        raise RemoteRejected(f"{remote.path[:100]!a} cannot be the path of a remote workflow")
    return remote


def parse_remote_folder(asked: str) -> Remote:
    """Parse the name of a folder in a repository, by default the whole repository. Raises RemoteRejected."""
    try:
        return _parse(asked.rstrip("/"), may_be_all=True)
    except RemoteRejected as error:
        raise RemoteRejected(str(error), _FOLDER_HINT) from error


def _parse(asked: str, *, may_be_all: bool = False) -> Remote:
    if not is_remote(asked) or len(asked) > _LONGEST:
        raise RemoteRejected(f"{asked[:100]!a} does not name something in a repository")
    owner, _, rest = asked.removeprefix(PREFIX).partition("/")
    repo, at, rest = rest.partition("@")
    ref, slash, path = rest.partition("/")
    if not at or not (slash or may_be_all):
        raise RemoteRejected(f"{asked[:100]!a} has no @ref, or no path")
    _check("owner", owner, _OWNER.fullmatch(owner) is not None)
    _check("repository", repo, _REPO.fullmatch(repo) is not None and not repo.endswith((".git", ".")))
    sound = _REF.fullmatch(ref) is not None and ".." not in ref and not ref.endswith((".", ".lock"))
    _check("ref", ref, sound)
    parts = path.split("/")
    _check(
        "path",
        path,
        all(_SEGMENT.fullmatch(part) and part not in (".", "..") and part.lower() != ".git" for part in parts)
        or (may_be_all and not path),
    )
    return Remote(owner, repo, ref, path)


def is_commit(ref: str) -> bool:
    """Return whether ``ref`` is the full id of a commit."""
    return _COMMIT.fullmatch(ref) is not None


def repository_url(remote: Remote, environ: Mapping[str, str]) -> str:
    """Return the URL of the repository. Raises RemoteRejected for a host that is neither https nor on this machine."""
    base = environ.get(GITHUB_URL) or _GITHUB
    try:
        parts = urlsplit(base)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    plain = host and re.fullmatch(r"[A-Za-z0-9.:/_-]+", parts.netloc + parts.path, re.ASCII)
    sound = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    if not plain or not sound or parts.query or parts.fragment or ".." in parts.path or port == 0:
        raise RemoteRejected(f"{GITHUB_URL}={base[:100]!a} is not a valid host", "write https://host")
    return f"{base.rstrip('/')}/{remote.owner}/{remote.repo}.git"


def _check(what: str, value: str, sound: bool) -> None:
    if not sound:
        raise RemoteRejected(f"{value[:100]!a} cannot be the {what} of something in a repository")
