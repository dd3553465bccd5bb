"""``.workflows/remote.lock``: which commit a remote ref stood for when it was first used here. People commit it.

It is read as any file of a project is: what it says is checked, and believed only as far as the user trusts.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from kernel.source.beneath import open_file, open_folder
from kernel.source.files import FileMissing, inside, read_bytes
from kernel.source.problems import fail
from kernel.workflows.checkout import Checkout
from protocol.errors import Refused
from protocol.remote import Remote, is_commit

FOLDER: Final = ".workflows"
NAME: Final = "remote.lock"
SHOWN: Final = f"{FOLDER}/{NAME}"
_AGAIN: Final = "repeat with --update to pin it anew"


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a ref is pinned to: ``digest`` is that of all files of the ``commit``."""

    commit: str
    digest: str


_decode: Final = msgspec.json.Decoder(dict[str, Pin]).decode


def pinned(root: Path, remote: Remote) -> Pin | None:
    """What ``remote`` is pinned to in the project at ``root``. Raises BadDefinition where the file is wrong."""
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
    new = Pin(commit=checkout.commit, digest=checkout.digest)
    if pins.get(checkout.remote.repository) == new:
        return
    pins[checkout.remote.repository] = new
    try:
        _write(root, msgspec.json.format(msgspec.json.encode(pins, order="sorted")) + b"\n")
    except OSError as error:
        raise Refused(
            "fetch_failed", f"{SHOWN} cannot be written: {error.strerror}", "links are not followed"
        ) from error


def _read(root: Path) -> dict[str, Pin]:
    try:
        return _decode(read_bytes(inside(root, SHOWN, SHOWN), SHOWN))
    except FileMissing:
        return {}
    except msgspec.MsgspecError as error:
        raise fail(SHOWN, f"cannot be read: {error}", "take it from your version control, or remove it") from error


def _write(root: Path, content: bytes) -> None:
    """Readers see the old file or the new one."""
    folder = open_folder(str(root), FOLDER, make=True)
    temporary = f".{NAME}.new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        descriptor = open_file(folder, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, NAME, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
