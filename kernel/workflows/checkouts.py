"""Checkouts of remote workflows: plain files of one commit, each commit a folder with its digest beside it.

The digest's file tells when its commit was used last. ``.workflows/remote.lock`` says which commit a remote ref stood
for when it was first used here; people commit it. It is read as any file of a project is: checked, and believed only as
far as the user trusts it. A commit that the lock names is never removed.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from kernel.source.diagnostics import fail
from kernel.source.files import FileMissing, inside, read_bytes
from kernel.source.safe_paths import open_folder
from osfiles.atomic_write import replacing
from protocol.errors import Refused
from protocol.remote_ref import Remote, is_commit


class Checkout(msgspec.Struct, frozen=True):
    """The files of a ``commit`` in ``folder``. ``digest`` is the SHA-256 of all of them, their names and modes."""

    remote: Remote
    url: str
    commit: str
    digest: str
    folder: Path

    @property
    def demand(self) -> str:
        """The demand that starting it makes on the user's trust."""
        return f"it comes from {self.url}, commit {self.commit}, content sha256:{self.digest}"

    def variables(self) -> Mapping[str, str]:
        """``source.*`` for its texts."""
        return {
            "source.dir": str(self.folder),
            "source.url": self.url,
            "source.ref": self.remote.ref,
            "source.commit": self.commit,
        }


DIGEST: Final = ".sha256"
WORKSHOP: Final = "fetching-"
"""How the folders begin in which somebody fetches now, or died doing so."""
UNUSED_SECONDS: Final = 30 * 86_400.0
DEAD_SECONDS: Final = 3600.0
"""A fetch takes minutes at most."""


def digest_file(folder: Path) -> Path:
    """The file that has the digest of the commit in ``folder``."""
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
    for mark in list(base.glob(f"*/*/*{DIGEST}")):
        commit = mark.name.removesuffix(DIGEST)
        if commit not in spared and _age(mark, now) > UNUSED_SECONDS:
            mark.unlink(missing_ok=True)  # first: a folder without its digest is fetched again
            remove(mark.with_name(commit))


def _age(path: Path, now: float) -> float:
    with suppress(OSError):
        return now - path.stat().st_mtime
    return 0.0


FOLDER: Final = ".workflows"
NAME: Final = "remote.lock"
SHOWN: Final = f"{FOLDER}/{NAME}"
_AGAIN: Final = "repeat with --update to pin it anew"


class LockedCommit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commit that a ref is pinned to: ``digest`` is that of all files of the ``commit``."""

    commit: str
    digest: str


_decode: Final = msgspec.json.Decoder(dict[str, LockedCommit]).decode


def pinned(root: Path, remote: Remote) -> LockedCommit | None:
    """The commit that ``remote`` is pinned to in the project at ``root``.

    Raises BadDefinition where the file is wrong.
    """
    found = _read(root).get(remote.repository)
    if found is not None and not is_commit(found.commit):
        raise fail(SHOWN, f"{found.commit[:60]!a} is not the id of a commit", _AGAIN, where=remote.repository)
    return found


def commits(root: Path) -> frozenset[str]:
    """All commits that are pinned in the project at ``root``. Raises BadDefinition where the file is wrong."""
    return frozenset(one.commit for one in _read(root).values())


def pin(root: Path, checkout: Checkout) -> None:
    """Note what ``checkout`` stood for, if that is not there already. Raises BadDefinition, Refused(fetch_failed)."""
    pins = _read(root)
    new = LockedCommit(commit=checkout.commit, digest=checkout.digest)
    if pins.get(checkout.remote.repository) == new:
        return
    pins[checkout.remote.repository] = new
    try:
        content = msgspec.json.format(msgspec.json.encode(pins, order="sorted")) + b"\n"
        folder = open_folder(str(root), FOLDER, make=True)
        try:
            with replacing(NAME, 0o644, beside=f".{NAME}.new", folder=folder, sync=False) as file:
                file.write(content)
        finally:
            os.close(folder)
    except OSError as error:
        raise Refused(
            "fetch_failed", f"{SHOWN} cannot be written: {error.strerror}", "links are not followed"
        ) from error


def _read(root: Path) -> dict[str, LockedCommit]:
    try:
        return _decode(read_bytes(inside(root, SHOWN, SHOWN), SHOWN))
    except FileMissing:
        return {}
    except msgspec.MsgspecError as error:
        raise fail(SHOWN, f"cannot be read: {error}", "take it from your version control, or remove it") from error
