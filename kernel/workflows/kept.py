"""What is kept of what was fetched: commits as folders, each with its digest beside it, and which of them may go.

The digest's file tells when its commit was used last. Nothing that the project's lock names is ever removed.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

DIGEST: Final = ".sha256"
WORKSHOP: Final = "fetching-"
"""How the folders begin in which somebody fetches now, or died doing so."""
UNUSED_SECONDS: Final = 30 * 86_400.0
DEAD_SECONDS: Final = 3600.0
"""A fetch takes minutes at most."""


def digest_file(folder: Path) -> Path:
    """Where the digest of the commit in ``folder`` is noted."""
    return folder.with_name(f"{folder.name}{DIGEST}")


def used(folder: Path) -> float:
    """Note that the commit in ``folder`` is used now. Returns that, in the time of the file system. Raises OSError."""
    mark = digest_file(folder)
    os.utime(mark)
    return mark.stat().st_mtime


def remove(folder: Path) -> None:
    """Remove ``folder``, as far as that is possible."""
    shutil.rmtree(folder, ignore_errors=True)


def prune(base: Path, now: float, spared: frozenset[str]) -> None:
    """Remove what was not used for long, but for the commits ``spared``, and what was left by fetches that died."""
    for workshop in base.glob(f"{WORKSHOP}*"):
        if _age(workshop, now) > DEAD_SECONDS:
            remove(workshop)
    for mark in _marks(base):
        commit = mark.name.removesuffix(DIGEST)
        if commit not in spared and _age(mark, now) > UNUSED_SECONDS:
            mark.unlink(missing_ok=True)  # first: a folder without its digest is fetched again
            remove(mark.with_name(commit))


def _marks(base: Path) -> Iterator[Path]:
    yield from base.glob(f"*/*/*{DIGEST}")


def _age(path: Path, now: float) -> float:
    with suppress(OSError):
        return now - path.stat().st_mtime
    return 0.0
