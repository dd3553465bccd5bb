"""Atomic replacement of files in a checkout: new files are written next to the old, then renamed.

A rollback only renames files, so it needs neither disk space nor filters. A journal in a folder of
the kernel records the exchange before it starts, so that the next kernel can roll back after a
crash. A file that the user has changed in the meantime is not replaced. Every function blocks.
"""

import errno
import os
import shutil
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from kernel.fault_injection import fault_point
from kernel.git.directory import GitDirectory, first_line
from kernel.source.safe_paths import open_parts
from osfiles.atomic_write import open_new, replacing

_OURS: Final = "agent-worker moves this checkout to "
_ADVICE: Final = "The move is finished or rolled back when the kernel starts: awk start\n"
_OWN: Final = "agent-worker"
"""Prefix of the kernel's files next to the index."""
_JOURNAL: Final = "exchange"
_FOLDER_MODE: Final = 0o777

Facts = tuple[int, int, int] | None
"""Inode, size and modification time, which a rename preserves; None if there is no file."""


class FileChange(msgspec.Struct, frozen=True, array_like=True):
    """A changed file: its path in the tree, and its facts before and after the exchange."""

    name: bytes
    old: Facts
    new: Facts

    @property
    def path(self) -> str:
        """Return the path of the file as text."""
        return os.fsdecode(self.name)


class Exchange(msgspec.Struct, frozen=True):
    """Exchange of ``files`` in ``top`` before ``branch`` moves to ``tip``. ``index``: facts of the installed index."""

    repository: str
    branch: str
    tip: str
    own: str
    """The git directory of ``top``, with its index."""
    top: str
    stage: str
    files: tuple[FileChange, ...] = ()
    index: Facts = None

    def aside(self, number: int) -> str:
        """Return the path to which the old version of file ``number`` is moved."""
        return f"{self.stage}/old/{number}"


_decoder: Final = msgspec.msgpack.Decoder(Exchange)


def facts_of(path: str, folder: int | None = None) -> Facts:
    """Return the facts of the file or link at ``path``; None for a folder or a missing file."""
    try:
        found = os.lstat(path) if folder is None else os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return None if stat.S_ISDIR(found.st_mode) else (found.st_ino, found.st_size, found.st_mtime_ns)


def stage_of(checkout: GitDirectory) -> str:
    """Return the folder for new files, on the file system of the checkout. Raises OSError."""
    base = checkout.own if os.stat(checkout.own).st_dev == os.stat(checkout.top).st_dev else checkout.top
    return f"{base}/.{_OWN}-files"


def make_stage(stage: str) -> None:
    """Create the empty folder ``stage``. Raises OSError."""
    with suppress(OSError):
        os.unlink(stage)  # do not follow a link that a repository contains
    shutil.rmtree(stage, ignore_errors=True)
    for folder in (stage, f"{stage}/new", f"{stage}/old"):
        os.mkdir(folder, 0o700)


def record(place: Path, exchange: Exchange, seen: Mapping[str, Facts]) -> Exchange:
    """Write the journal once all new files are complete. ``seen`` are the facts of the old files. Raises OSError."""
    files = []
    for path, old in seen.items():
        new = f"{exchange.stage}/new/{path}"
        if os.path.isdir(new) and not os.path.islink(new) and not os.listdir(new):  # a submodule, as git creates it
            os.close(open_parts(exchange.top, path.split("/"), make=_FOLDER_MODE))
        files.append(FileChange(os.fsencode(path), old, facts_of(new)))
    return _write(place, msgspec.structs.replace(exchange, files=tuple(files)))


def _write(place: Path, exchange: Exchange) -> Exchange:
    with replacing(place / _JOURNAL, 0o666, beside=place / f"{_JOURNAL}.new") as target:
        target.write(msgspec.msgpack.encode(exchange))
    return exchange


def recorded(place: Path) -> Exchange | None:
    """Return the unfinished exchange; None without one, or if its repository was deleted. Raises OSError."""
    try:
        found = _decoder.decode((place / _JOURNAL).read_bytes())
    except FileNotFoundError:
        return None
    return found if os.path.isdir(found.own) else None


def exchange_files(exchange: Exchange) -> None:
    """Move the old files aside and the new ones to their paths. Raises OSError."""
    # Removals come first: a folder may become a file, and a file a folder.
    for number, file in sorted(enumerate(exchange.files), key=lambda one: one[1].new is not None):
        if file.old is not None:
            aside = exchange.aside(number)
            with _folder_of(exchange.top, file.path) as (name, folder):
                os.rename(name, aside, src_dir_fd=folder)  # atomic, and open files of other programs stay valid
            fault_point("landing.aside")
            _check_aside(exchange, number, file)
        if file.new is not None:
            source = f"{exchange.stage}/new/{file.path}"
            with _folder_of(exchange.top, file.path, make=_FOLDER_MODE) as (name, folder):
                _remove_empty(name, folder)
                os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)  # a rename would replace another file
            os.unlink(source)
            fault_point("landing.file")


def _check_aside(exchange: Exchange, number: int, file: FileChange) -> None:
    if file.old is not None and facts_of(exchange.aside(number)) != file.old:
        raise OSError(errno.EBUSY, "changed by another program meanwhile", file.path)


@contextmanager
def _folder_of(top: str, path: str, *, make: int = 0) -> Generator[tuple[str, int]]:
    *parts, name = path.split("/")
    folder = open_parts(top, parts, make=make)
    try:
        yield name, folder
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{top}/{path}") from error
    finally:
        os.close(folder)


def _remove_empty(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            for _, inner, _, inside in os.fwalk(name, topdown=False, dir_fd=folder):
                for one in inner:
                    os.rmdir(one, dir_fd=inside)  # fails for a folder with files, which must remain
            os.rmdir(name, dir_fd=folder)


def install_index(place: Path, exchange: Exchange, index: str) -> None:
    """Install ``index`` in the checkout. Raises OSError, also if a program has written to a replaced file."""
    new = f"{exchange.own}/{_OWN}.index"
    with suppress(FileNotFoundError):
        _copy(f"{exchange.own}/index", f"{exchange.own}/{_OWN}.old")
    _copy(index, new)
    for number, file in enumerate(exchange.files):
        _check_aside(exchange, number, file)
    _write(place, msgspec.structs.replace(exchange, index=facts_of(new)))
    os.replace(new, f"{exchange.own}/index")


def go_back(exchange: Exchange, unlike: frozenset[str]) -> None:
    """Restore the old versions of the files in ``unlike``, and the old index. May be repeated. Raises OSError.

    New versions that another program has replaced meanwhile remain.
    """
    back = tuple((number, file) for number, file in enumerate(exchange.files) if file.path in unlike)
    # Another program may have replaced a folder with a file or a link.
    taken = suppress(NotADirectoryError, FileNotFoundError)
    for _, file in back:
        with taken, _folder_of(exchange.top, file.path) as (name, folder):
            if file.new is not None and facts_of(name, folder) == file.new:
                os.unlink(name, dir_fd=folder)
    for number, file in back:
        aside = exchange.aside(number)
        if os.path.lexists(aside):
            with taken, _folder_of(exchange.top, file.path, make=_FOLDER_MODE) as (name, folder):
                with suppress(OSError):
                    _remove_empty(name, folder)
                if not os.access(name, os.F_OK, dir_fd=folder, follow_symlinks=False):
                    os.rename(aside, name, dst_dir_fd=folder)
    index, old = f"{exchange.own}/index", f"{exchange.own}/{_OWN}.old"
    if unlike and exchange.index is not None and facts_of(index) == exchange.index and os.path.lexists(old):
        os.replace(old, index)


def end(place: Path, exchange: Exchange) -> None:
    """Delete the exchange's temporary files, the folders that it left empty, and its journal. Raises OSError."""
    for file in exchange.files:
        above = os.path.dirname(file.path)
        with suppress(OSError):
            while above:
                with _folder_of(exchange.top, above) as (name, folder):
                    os.rmdir(name, dir_fd=folder)
                above = os.path.dirname(above)
    shutil.rmtree(exchange.stage, ignore_errors=True)
    for name in ("index", "old"):
        Path(f"{exchange.own}/{_OWN}.{name}").unlink(missing_ok=True)
    (place / _JOURNAL).unlink(missing_ok=True)


# -- git's lock on the index, which is ours while files move ---------------------------------------------


def lock(own: str, tip: str) -> None:
    """Take git's lock on the index in ``own``, or keep ours. Raises FileExistsError if another git has it; OSError."""
    path, new = f"{own}/index.lock", f"{own}/{_OWN}.lock"
    with os.fdopen(open_new(new, 0o600), "w", encoding="utf-8") as target:
        target.write(f"{_OURS}{tip}\n{_ADVICE}")
    try:
        os.link(new, path)  # atomic: the lock appears with its content
    except FileExistsError:
        if not _is_ours(path, tip):
            raise
    finally:
        os.unlink(new)


def release(own: str, tip: str) -> None:
    """Release git's lock on the index if the kernel took it for ``tip``."""
    path = f"{own}/index.lock"
    if _is_ours(path, tip):
        with suppress(OSError):
            os.unlink(path)


def _is_ours(path: str, tip: str) -> bool:
    with suppress(OSError):
        return first_line(path) == f"{_OURS}{tip}"
    return False


def _copy(source: str, target: str) -> None:
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as read, os.fdopen(open_new(target, 0o666), "wb") as written:
        shutil.copyfileobj(read, written)
        written.flush()
        os.fsync(written.fileno())
