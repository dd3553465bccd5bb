"""Reads one text file of a user: inside a root, a regular file, bounded. Never blocks on what is not a file (CF11)."""

import errno
import os
import stat
from pathlib import Path

from kernel.source.nodes import Node
from kernel.source.problems import BadDefinition, Problems, fail
from kernel.source.yaml_tree import MAX_BYTES, decode_utf8, parse_yaml
from protocol.api.problem import FileError


class FileMissing(Exception):
    """There is no such file. Not raised for one that is there and cannot be used: that is BadDefinition."""


def inside(root: Path, relative: str, shown: str, where: str = "") -> Path:
    """The file ``relative`` to ``root``, with links followed.

    Raises BadDefinition if it leads outside, FileMissing.
    """
    if os.path.isabs(relative) or relative.startswith("~"):
        hint = "write the path as seen from the project's root"
        raise fail(shown, f"{relative[:200]!r} is not a path inside the project", hint, where=where)
    real_root = os.path.realpath(root)
    # Where the text alone leads outside, nobody is told whether there is such a file.
    escapes = os.path.normpath(relative).split(os.sep)[0] == os.pardir
    real = real_root if escapes else _real(os.path.join(real_root, relative), shown, where)
    if escapes or os.path.commonpath([real_root, real]) != real_root:
        raise fail(shown, f"{relative[:200]!r} leads outside the project", "keep the file in the project", where=where)
    return Path(real)


def folder_errors(root: Path, folder: str) -> tuple[FileError, ...]:
    """Why ``folder`` of the project holds no files though it is there: it is a file or a pipe, or cannot be read."""
    try:
        os.listdir(root / folder)
    except FileNotFoundError:
        return ()
    except NotADirectoryError:
        return fail(
            folder, "is not a folder, so nothing in it counts", "move it away: its files go into a folder"
        ).errors
    except OSError as error:
        return _unreadable(error, folder).errors
    return ()


def read_bytes(path: Path, shown: str, limit: int = MAX_BYTES, where: str = "") -> bytes:
    """All of a regular file of at most ``limit`` bytes. Raises BadDefinition, FileMissing."""
    real = _real(str(path), shown, where)
    try:
        if not stat.S_ISREG(os.lstat(real).st_mode):
            raise fail(shown, "is not a regular file", where=where)
        # The file may have been swapped for a pipe since: O_NONBLOCK keeps the open from waiting for a writer.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise _translate(error, shown, where) from error
    with open(descriptor, "rb", buffering=0) as file:
        return _read_regular(file.fileno(), shown, limit, where)


def read_text(path: Path, shown: str, where: str = "") -> str:
    """A UTF-8 file as text. Raises BadDefinition, FileMissing."""
    problems = Problems(shown)
    text = decode_utf8(read_bytes(path, shown, where=where), problems)
    problems.check()
    return text


def read_tree(path: Path, shown: str) -> tuple[Node, Problems]:
    """A YAML file as a tree, and where to note what is wrong with it. Raises BadDefinition, FileMissing."""
    return tree_of(read_bytes(path, shown), shown)


def tree_of(data: bytes, shown: str) -> tuple[Node, Problems]:
    """YAML (or JSON, which is YAML) as a tree. Raises BadDefinition if there is none."""
    problems = Problems(shown)
    text = decode_utf8(data, problems)
    problems.check()
    problems.text = text
    node = parse_yaml(text, problems)
    if node is None:
        problems.check()
        raise fail(shown, "is empty")
    return node, problems


def _read_regular(descriptor: int, shown: str, limit: int, where: str) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise fail(shown, "is not a regular file", where=where)
    parts: list[bytes] = []
    left = limit + 1
    while left > 0 and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise fail(shown, f"is larger than {limit // 1024} KiB", where=where)
    return b"".join(parts)


def _real(path: str, shown: str, where: str) -> str:
    try:
        return os.path.realpath(path, strict=True)
    except ValueError as error:
        raise fail(shown, "the path holds a NUL character", where=where) from error
    except OSError as error:
        raise _translate(error, shown, where) from error


def _translate(error: OSError, shown: str, where: str) -> BadDefinition | FileMissing:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return FileMissing(shown)
    return _unreadable(error, shown, where)


def _unreadable(error: OSError, shown: str, where: str = "") -> BadDefinition:
    name = errno.errorcode.get(error.errno or 0, "EIO")
    return fail(shown, f"cannot be read ({name}: {os.strerror(error.errno or errno.EIO)})", where=where)
