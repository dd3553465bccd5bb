"""The environment of a worker, built from an allowlist: nothing of the kernel's comes along by accident (P18, XF22)."""

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

_ALLOWED: Final = frozenset(
    {"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_ALLOWED_PREFIX: Final = "LC_"
_DENIED: Final = re.compile(r"(PYTHON|LD_|DYLD_|GIT_|NODE_OPTIONS$|AGENT_WORKER_|AWK_|BASH_ENV$|ENV$|IFS$|PATH$)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_STEERING: Final = re.compile(
    r"LD_|DYLD_|AGENT_WORKER_|AWK_|(PATH|ENV|BASH_ENV|IFS|NODE_OPTIONS|PYTHON(PATH|HOME|STARTUP))$"
)
"""What has a program be another one, or load what its command line does not name."""
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def name_fault(name: str) -> str | None:
    """The reason why ``name`` may not be let through by an agent's ``env``; None where it may."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is not the name of a variable"
    if name == "PATH":
        return "PATH is passed on by itself, without folders that are relative or ours: it changes how programs are run"
    if _DENIED.match(name):
        return f"{name} is never passed on: it changes how programs are run"
    return None


def own_name_fault(name: str) -> str | None:
    """The reason why a program's own ``env`` may not set ``name``; None where it may."""
    if not _NAME.fullmatch(name):
        return f"{name[:60]!r} is not the name of a variable"
    if _STEERING.match(name):
        return f"{name} is never set: it changes which program is run, or what it loads"
    return None


def worker_environment(
    environ: Mapping[str, str], let_through: Iterable[str] = (), own_bin: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The part of ``environ`` that a worker, its shells and setup commands see.

    ``own_bin``: directories with our commands.
    """
    passed = {name: value for name, value in environ.items() if name in _ALLOWED or name.startswith(_ALLOWED_PREFIX)}
    passed |= {name: environ[name] for name in let_through if name in environ and name_fault(name) is None}
    passed["PATH"] = _search_path(environ.get("PATH") or _DEFAULT_PATH, own_bin)
    return passed


@lru_cache(maxsize=16)
def _search_path(path: str, own_bin: frozenset[str]) -> str:
    """``path`` without our own directories, and without relative ones, which would follow the working directory."""
    own = {os.path.realpath(directory) for directory in own_bin}
    kept = [part for part in path.split(":") if part.startswith("/") and os.path.realpath(part) not in own]
    return ":".join(kept) or _DEFAULT_PATH
