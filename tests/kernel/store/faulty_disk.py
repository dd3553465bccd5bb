"""A disk that fills up, that fails to sync, or that loses its power: an SQLite VFS over the real one.

Between two syncs nothing that was written is sure to last, in whatever order it was written (a disk reorders). At every
sync the disk remembers what it would hold if the power were cut just then; ``Cut.write_to`` makes that state real.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw

SECTOR: Final = 512
_names: Final = itertools.count(1)


@dataclass(frozen=True)
class _Write:
    offset: int
    data: bytes


@dataclass(frozen=True)
class _Truncate:
    size: int


_Change = _Write | _Truncate


@dataclass
class _Image:
    """A file as the platters have it, and what is still on its way to them. ``kept`` None: no such file yet."""

    kept: bytes | None = None
    pending: list[_Change] = field(default_factory=list)

    def settle(self) -> None:
        self.kept = _apply(self.kept or b"", self.pending)
        self.pending = []


def _apply(content: bytes, changes: list[_Change]) -> bytes:
    result = bytearray(content)
    for change in changes:
        if isinstance(change, _Truncate):
            del result[change.size :]
        else:
            end = change.offset + len(change.data)
            result.extend(bytes(max(end - len(result), 0)))
            result[change.offset : end] = change.data
    return bytes(result)


@dataclass(frozen=True)
class Cut:
    """The disk at the moment of one sync, before it was done. ``told`` is what callers knew by then."""

    files: dict[str, tuple[bytes | None, tuple[_Change, ...]]]
    told: int

    def write_to(self, folder: Path, chance: random.Random | None = None) -> None:
        """Make it real below ``folder``: without what was not synced or, by ``chance``, with some of it, torn."""
        for path, (kept, pending) in self.files.items():
            survived = [] if chance is None else _some(pending, chance)
            if kept is not None or survived:
                (folder / Path(path).name).write_bytes(_apply(kept or b"", survived))


def _some(changes: tuple[_Change, ...], chance: random.Random) -> list[_Change]:
    chosen = [change for change in changes if chance.random() < 0.6]
    chance.shuffle(chosen)
    return [_torn(change, chance) for change in chosen]


def _torn(change: _Change, chance: random.Random) -> _Change:
    if isinstance(change, _Truncate) or len(change.data) <= SECTOR or chance.random() < 0.7:
        return change
    sectors = chance.randrange(1, (len(change.data) + SECTOR - 1) // SECTOR)
    return _Write(change.offset, change.data[: sectors * SECTOR])


class FaultyDisk(apsw.VFS):
    """Give ``name`` to ``open_database``. ``told`` says how many callers have been answered so far."""

    def __init__(self, told: Callable[[], int] = lambda: 0) -> None:
        self.name = f"faulty-{next(_names)}"
        self.told = told
        self.cuts: list[Cut] = []
        self.remembers = True
        """Whether each sync is a cut; it costs a copy of what is pending."""
        self.syncs = 0
        self.failing_sync: int | None = None
        """The number of the sync that fails, from 1, and none after it is tried."""
        self.room: int | None = None
        """Bytes that may still be written beyond the ends of files."""
        self.on_write: Callable[[], None] = lambda: None
        """Called before each write."""
        self._images: dict[str, _Image] = {}
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "apsw.VFSFile":  # noqa: N802  (SQLite's names)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is not None and path not in self._images and Path(path).exists():
            self._images[path] = _Image(Path(path).read_bytes())
        return _File(self, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802  (SQLite's names)
        self._images.pop(filename, None)
        super().xDelete(filename, syncdir)

    def image(self, path: str) -> _Image:
        return self._images.setdefault(path, _Image())

    def synced(self, path: str) -> None:
        """One file is being synced."""
        self.syncs += 1
        if self.remembers:
            files = {one: (image.kept, tuple(image.pending)) for one, image in self._images.items()}
            self.cuts.append(Cut(files, self.told()))
        if self.failing_sync is not None and self.syncs >= self.failing_sync:
            raise apsw.IOError("fsync failed")
        self.image(path).settle()


class _File(apsw.VFSFile):
    def __init__(
        self, disk: FaultyDisk, path: str | None, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        self._disk = disk
        self._path = path
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  (SQLite's names)
        disk = self._disk
        disk.on_write()
        if disk.room is not None:
            disk.room -= max(offset + len(data) - self.xFileSize(), 0)
            if disk.room < 0:
                disk.room = 0
                raise apsw.FullError("the disk is full")
        super().xWrite(data, offset)
        if self._path is not None:
            disk.image(self._path).pending.append(_Write(offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  (SQLite's names)
        super().xTruncate(newsize)
        if self._path is not None:
            self._disk.image(self._path).pending.append(_Truncate(newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802  (SQLite's names)
        if self._path is not None:
            self._disk.synced(self._path)
        # The real disk is not waited for: what it holds is read only by processes that share its cache.
