"""The files of one commit, taken out of git's objects by hand: no filter, hook, link or submodule has a say (XF05).

``git checkout`` would ask ``.gitattributes`` and the configuration what to run. Here blobs are bytes and nothing else.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

MAX_FILES: Final = 10_000
MAX_ENTRIES: Final = 50_000
"""Of all folders together, however often one of them is used."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Of all files together, however often the same content is used."""
MAX_DEPTH: Final = 64

_FILE, _PROGRAM, _TREE = b"100644", b"100755", b"40000"
_OLD_FILE: Final = b"100664"
_HASH_BYTES: Final = 20


class BadObjects(ValueError):
    """Git's output is not the content of a commit that we take. The text says why."""


class GitObject(NamedTuple):
    """One object: ``blob``, ``tree``, ``commit`` or ``tag``, and its bytes."""

    kind: bytes
    data: bytes


class File(NamedTuple):
    """A regular file of a commit. ``path`` has slashes and is relative; no part of it leads anywhere else."""

    path: bytes
    program: bool
    data: bytes


def parse_objects(output: bytes) -> dict[str, GitObject]:
    """Parse the output of ``git cat-file --batch``. Raises BadObjects."""
    found: dict[str, GitObject] = {}
    position = 0
    while position < len(output):
        end = output.find(b"\n", position)
        words = output[position:end].split(b" ") if end >= 0 else []
        if len(words) != 3 or not words[2].isdigit():
            raise BadObjects("git's answer cannot be read")
        start, size = end + 1, int(words[2])
        found[words[0].decode("ascii", "replace")] = GitObject(words[1], output[start : start + size])
        position = start + size + 1
    return found


def files_of(commit: str, objects: Mapping[str, GitObject]) -> tuple[File, ...]:
    """The regular files of ``commit`` in the order of their paths; links and submodules are left out.

    Raises BadObjects where something is missing, a name is not one, or there is too much.
    """
    head = _object(commit, b"commit", objects).data.split(b"\n", 1)[0]
    if not head.startswith(b"tree "):
        raise BadObjects("the commit has no tree")
    found: list[File] = []
    size = 0
    for file in _Walk(objects).files(head[5:].decode("ascii", "replace"), b"", 0):
        found.append(file)
        size += len(file.data)
        if len(found) > MAX_FILES:
            raise BadObjects(f"there are more than {MAX_FILES} files")
        if size > MAX_BYTES:
            raise BadObjects(f"there is more than {MAX_BYTES // 2**20} MiB")
    return tuple(sorted(found))


def digest_of_files(files: tuple[File, ...]) -> str:
    """SHA-256, in hex, of ``files``: names, modes and content."""
    total = hashlib.sha256()
    for file in files:
        total.update(b"%d %d:%b" % (file.program, len(file.path), file.path))
        total.update(hashlib.sha256(file.data).digest())
    return total.hexdigest()


def write_files(files: tuple[File, ...], folder: Path) -> None:
    """Write ``files`` into the new directory ``folder``, read-only. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True)
    for file in files:
        path = os.path.join(os.fsencode(folder), file.path)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        mode = 0o500 if file.program else 0o400
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as out:
            out.write(file.data)


def read_files(folder: Path) -> tuple[File, ...]:
    """Read the files that ``write_files`` wrote, as they are now.

    Raises OSError; BadObjects where there is anything but files.
    """
    root = os.fsencode(folder)
    return tuple(sorted(_read(root, b"")))


def _read(root: bytes, below: bytes) -> Iterator[File]:
    with os.scandir(os.path.join(root, below)) as entries:
        for entry in entries:
            path = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from _read(root, path)
                continue
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                mode = os.fstat(descriptor).st_mode
                if not stat.S_ISREG(mode):
                    raise BadObjects("there is something that is no file")
                yield File(path, bool(mode & 0o100), file.read())


class _Walk:
    """Through the folders of one commit. A few of them can be nested to look like billions: steps are counted."""

    def __init__(self, objects: Mapping[str, GitObject]) -> None:
        self._objects = objects
        self._steps = 0

    def files(self, tree: str, above: bytes, depth: int) -> Iterator[File]:
        if depth > MAX_DEPTH:
            raise BadObjects(f"folders are nested more than {MAX_DEPTH} deep")
        for mode, name, hexadecimal in _entries(_object(tree, b"tree", self._objects).data):
            self._steps += 1
            if self._steps > MAX_ENTRIES:
                raise BadObjects(f"its folders have more than {MAX_ENTRIES} entries")
            path = above + name
            if mode == _TREE:
                yield from self.files(hexadecimal, path + b"/", depth + 1)
            elif mode in (_FILE, _PROGRAM, _OLD_FILE):
                yield File(path, mode == _PROGRAM, _object(hexadecimal, b"blob", self._objects).data)


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes, str]]:
    position = 0
    while position < len(data):
        end = data.find(b"\0", position)
        mode, space, name = data[position:end].partition(b" ")
        stop = end + 1 + _HASH_BYTES
        if end < 0 or not space or stop > len(data):
            raise BadObjects("a folder cannot be read")
        if not (name not in (b"", b".", b"..") and b"/" not in name and name.lower() != b".git"):
            raise BadObjects(f"{name[:60]!r} is not the name of a file")
        yield mode, name, data[end + 1 : stop].hex()
        position = stop


def _object(hexadecimal: str, kind: bytes, objects: Mapping[str, GitObject]) -> GitObject:
    found = objects.get(hexadecimal)
    if found is None or found.kind != kind:
        raise BadObjects(f"the {kind.decode()} {hexadecimal[:40]!a} is missing")
    return found
