"""Views: private git directories over the refs and objects of a repository, for the kernel's git.

A view contains only the data formats of the repository's configuration: no filters, hooks,
monitors, includes, transports or redirections. What git writes into the view (an empty object, a
refreshed index) is deleted with it. The user's own configuration applies as usual.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kernel.git.directory import GitDirectory, NoRepository, check_kinds, first_line, mode_of, strange
from kernel.source.safe_paths import copy_path
from protocol.ipc import Sandbox

_BOOLEAN: Final = frozenset({"true", "false"})
_FORMAT: Final[Mapping[str, frozenset[str]]] = {
    "core.filemode": _BOOLEAN,
    "core.ignorecase": _BOOLEAN,
    "core.precomposeunicode": _BOOLEAN,
    "core.symlinks": _BOOLEAN,
    "core.autocrlf": _BOOLEAN | {"input"},
    "core.eol": frozenset({"lf", "crlf", "native"}),
    "extensions.objectformat": frozenset({"sha1", "sha256"}),
    "extensions.refstorage": frozenset({"files", "reftable"}),
}
"""Settings of a repository that its views contain, with the allowed values."""
_ADDRESS: Final = re.compile(r"remote\.([A-Za-z0-9][\w.-]*)\.url", re.ASCII)
_HOST: Final = re.compile(r"(https://|ssh://(\w[\w.-]*@)?)\w[\w.:~/+-]*|\w[\w.-]*@\w[\w.-]*:[\w~/][\w.~/+-]*", re.ASCII)
"""Addresses that contain only a host and a path: filters of the user (Git LFS) download missing files from them."""
_HEAD: Final = re.compile(r"ref: refs/[^\s\\~^:?*\[]+|[0-9a-f]{40}|[0-9a-f]{64}")
_CONFIG_BYTES: Final = 4 * 1024 * 1024
_LINKED: Final = ("refs", "packed-refs")
_IF_THERE: Final = ("reftable", "lfs")
"""Folders that not every repository has: refs in the reftable format, and files of Git LFS."""
_COPIED: Final = ("info/exclude", "info/attributes", "shallow")
_TEXT_BYTES: Final = 16 * 1024 * 1024
INDEX_BYTES: Final = 1024**3


class GitView(msgspec.Struct, frozen=True):
    """A view: the git directory ``folder`` and the working tree ``top``. With ``sandbox``, git runs in it."""

    folder: str
    top: str
    sandbox: Sandbox | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Return ``GIT_DIR`` and ``GIT_WORK_TREE`` for the view."""
        return {"GIT_DIR": self.folder, "GIT_WORK_TREE": self.top}


class Manner(msgspec.Struct, frozen=True):
    """The trusted part of a repository's configuration: its data formats, in git's format, and the user's name."""

    text: str
    formats: tuple[tuple[str, str], ...] = ()
    """Settings of the data formats."""
    name: str = ""
    email: str = ""
    """Together with ``name``: the user as configured in the repository, for commits of agents; "" if not set."""


class ConfigFile(NamedTuple):
    """A configuration file with its size and times, by which a later change is detected."""

    path: str
    modified_ns: int
    size_bytes: int
    inode: int


def config_files(directory: GitDirectory) -> tuple[ConfigFile, ...]:
    """Return the configuration files that exist. Raises NoRepository if one cannot be read."""
    found: list[ConfigFile] = []
    for path in (f"{directory.common}/config", f"{directory.own}/config.worktree"):
        try:
            facts = os.lstat(path)
        except OSError:
            continue
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _CONFIG_BYTES:
            raise NoRepository(f"{path} is not a readable file", "check the file")
        found.append(ConfigFile(path, facts.st_mtime_ns, facts.st_size, facts.st_ino))
    return tuple(found)


def manner_of(directory: GitDirectory, said: Mapping[str, str]) -> Manner:
    """Return the trusted part of the configuration ``said`` of ``directory``.

    Raises NoRepository if the configuration names another working tree, or a bare repository.
    """
    if directory.top and directory.own == directory.common:
        place = said.get("core.worktree")
        if place is not None:
            there = os.path.realpath(os.path.join(directory.own, place))
            if there != directory.top:
                text = f"{directory.own} has another working tree: {there} (core.worktree)"
                raise NoRepository(text, "git config --unset core.worktree")
        elif not directory.own.endswith("/.git"):
            raise NoRepository(f"{directory.own} does not belong to {directory.top}", "git submodule update")
        elif said.get("core.bare", "").lower() in ("true", "yes", "on", "1"):
            raise NoRepository("the repository is bare")
    values = {key: said[key].lower() for key, known in _FORMAT.items() if said.get(key, "").lower() in known}
    rows = [format_sections(values)]
    for key, value in said.items():
        remote = _ADDRESS.fullmatch(key)
        if remote is not None and _HOST.fullmatch(value):
            rows.append(section(f'remote "{remote[1]}"', {"url": value}))
    return Manner("".join(rows), tuple(values.items()), said.get("user.name", ""), said.get("user.email", ""))


def format_sections(values: Mapping[str, str]) -> str:
    """Return the sections of a configuration file for the data formats."""
    extended = any(key.startswith("extensions.") for key in values)
    rows = [section("core", {"repositoryformatversion": str(int(extended)), "bare": "false"})]
    for key, value in values.items():
        name, _, rest = key.partition(".")
        rows.append(section(name, {rest: value}))
    return "".join(rows)


def section(name: str, values: Mapping[str, str]) -> str:
    """Return a section of a configuration file with escaped values."""
    rows = (f"\t{key} = {quoted(value)}\n" for key, value in values.items())
    return f"[{name}]\n{''.join(rows)}"


def quoted(text: str) -> str:
    """Return ``text`` in double quotes as in git's files."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def filter_sections(filters: Iterable[tuple[str, str]], *, required: bool = True) -> str:
    """Return ``filters`` as sections of a configuration file; if not ``required``, git ignores their failures."""
    rows: list[str] = []
    for key, value in filters:
        name, _, what = key.removeprefix("filter.").rpartition(".")
        if name and "\n" not in name:
            stays = required or what != "required"
            rows.append(section(f"filter {quoted(name)}", {what: value if stays else "false"}))
    return "".join(rows)


def make_view(folder: str, directory: GitDirectory, manner: Manner) -> GitView:
    """Create a view of ``directory`` and its index in the new ``folder``. Blocks. Raises OSError, NoRepository."""
    check_kinds(directory.common)
    line = first_line(f"{directory.own}/HEAD")
    _begin(
        folder, manner, line if _HEAD.fullmatch(line) else "ref: refs/heads/.invalid", (f"{directory.common}/objects",)
    )
    for name in (*_LINKED, *(name for name in _IF_THERE if os.path.isdir(f"{directory.common}/{name}"))):
        os.symlink(f"{directory.common}/{name}", f"{folder}/{name}")
    copy_settings(directory.common, folder)
    copy_index(directory.own, folder)
    for part in Path(directory.own).glob("sharedindex.*"):  # parts of a split index
        if not stat.S_ISREG(mode_of(part)):
            raise strange(str(part))
        os.symlink(part, f"{folder}/{part.name}")
    return GitView(folder, directory.top or folder)


def make_closed_view(
    folder: str,
    seen: GitView,
    manner: Manner,
    *,
    tip: str,
    objects: Iterable[str],
    sandbox: Sandbox,
    settings: str = "",
) -> GitView:
    """Create a view like ``seen`` for git in ``sandbox``, with the commit ``tip`` and without refs.

    ``settings`` are added to its configuration. Blocks. Raises OSError.
    """
    _begin(folder, msgspec.structs.replace(manner, text=manner.text + settings), tip, objects)
    os.mkdir(f"{folder}/refs", 0o700)
    copy_settings(seen.folder, folder)
    copy_index(seen.folder, folder)
    return GitView(folder, seen.top, sandbox)


def write_alternates(folder: str, objects: Iterable[str]) -> None:
    """Let the git directory ``folder`` read the object folders ``objects``. Blocks. Raises OSError."""
    os.makedirs(f"{folder}/objects/info", mode=0o700)
    lines = b"".join(os.fsencode(quoted(path)) + b"\n" for path in objects if os.path.isdir(path))
    Path(f"{folder}/objects/info/alternates").write_bytes(lines)


def _begin(folder: str, manner: Manner, head: str, objects: Iterable[str]) -> None:
    os.makedirs(f"{folder}/info", mode=0o700)
    write_alternates(folder, objects)
    Path(f"{folder}/config").write_text(manner.text, "utf-8", "surrogateescape")
    Path(f"{folder}/HEAD").write_text(f"{head}\n", "utf-8", "surrogateescape")


def copy_settings(source: str, folder: str) -> None:
    """Copy the ignore rules, attributes and shallow boundary of a repository. Blocks.

    Only regular files of limited size are copied, and no link is followed. Raises OSError, NoRepository.
    """
    for name in _COPIED:
        _copy(source, name, folder, _TEXT_BYTES)


def copy_index(source: str, folder: str) -> None:
    """Copy an index as ``copy_settings`` does, with its modification time, by which git detects changed files."""
    _copy(source, "index", folder, INDEX_BYTES)


def _copy(source: str, name: str, folder: str, limit: int) -> None:
    try:
        copy_path(f"{source}/{name}", f"{folder}/{name}", limit)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise strange(f"{source}/{name}", error.strerror or str(error)) from error


_WRITE_INDEX: Final = frozenset({"add", "read-tree", "update-index"})
_ALONE: Final = frozenset({"index.lock", "HEAD.lock"})
"""Locks of one working tree. Git never waits for them, so a lock that is new belongs to our command."""


def free_locks(view: GitView, words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the lock files that git will create and that do not exist."""
    if words[0] in _WRITE_INDEX:
        locks = [variables.get("GIT_INDEX_FILE", f"{view.folder}/index")]
    elif words[0] == "update-ref":
        locks = [f"{view.folder}/{word}" for word in ("HEAD", *words) if word == "HEAD" or word.startswith("refs/")]
    else:
        locks = []
    return tuple(f"{lock}.lock" for lock in locks if not os.path.lexists(f"{lock}.lock"))


def remove_locks(locks: Iterable[str], words: Sequence[str]) -> None:
    """Remove locks of a killed git. Blocks. The lock of a ref is removed only if it contains a commit of ours."""
    for lock in locks:
        with suppress(OSError):
            if os.path.basename(lock) in _ALONE or ((line := first_line(lock)) and line in words):
                os.unlink(lock)
