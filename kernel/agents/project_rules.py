"""The rules that a project has for agents: its nearest CLAUDE.md and AGENTS.md, as they are read for one agent.

Those in folders of the project are told when a file tool first touches something below (``worker.tools.files``);
here they are found and pinned, so that only what somebody agreed to is followed.
"""

import hashlib
import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kernel.source.diagnostics import BadDefinition, Diagnostics
from kernel.source.files import FileMissing, read_bytes
from kernel.source.yaml_tree import decode_utf8
from protocol.tools import RULES_FILES

KEY: Final = "project_rules"
MAX_RULES_BYTES: Final = 64 * 1024
"""Of one file."""


class RulesFile(NamedTuple):
    """A file with rules. ``path`` is as seen from the project's root."""

    path: str
    text: str
    digest: str


FOLDERS: Final = 2000
"""Folders of a project that are looked at, the upper ones first; rules in further ones are not followed."""
_PASSED_BY: Final = frozenset({"node_modules", "__pycache__"})


class _Walked(NamedTuple):
    """The folders of a project that were looked at, each with the time of its last change, and the rules in them."""

    folders: tuple[tuple[str, int], ...]
    found: tuple[str, ...]


_walked: Final[dict[str, _Walked]] = {}


def rules_of(root: Path) -> tuple[RulesFile, ...]:
    """The rules in the nearest folder that has some: the project's, then those above it in its repository.

    Raises BadDefinition for a file that is too large, no text, or a link: one could lead to what is nobody's rule, such
    as ``.env``. Only one that names the other of the two is no fault, and says nothing that the other does not.
    """
    real = Path(os.path.realpath(root))
    folders = [real, *real.parents]
    top = next((number for number, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    for folder in folders[: top + 1]:
        found: dict[bytes, RulesFile] = {}
        for name in RULES_FILES:
            if _names_the_other(folder / name):
                continue
            shown = os.path.relpath(folder / name, real)
            with suppress(FileMissing):
                data = read_bytes(folder / name, shown, MAX_RULES_BYTES, KEY, links=False)
                problems = Diagnostics(shown)
                text = decode_utf8(data, problems)
                problems.check()
                # One may be a copy of the other: what is said once counts.
                found.setdefault(data, RulesFile(shown, text, hashlib.sha256(data).hexdigest()))
        if found:
            return tuple(found.values())
    return ()


def _names_the_other(file: Path) -> bool:
    try:
        target = os.readlink(file)
    except OSError:
        return False
    return target in RULES_FILES and not (file.parent / target).is_symlink()


def nested_rules(root: Path) -> dict[str, str]:
    """The rules in folders of the project, by their paths, with the SHA-256 of each. Blocks while they are read.

    One that cannot be told (too large, a link) is left out: nobody agrees to it, and so nobody is told it.
    """
    real = os.path.realpath(root)
    known = _walked.get(real)
    if known is None or any(_changed_ns(folder) != at for folder, at in known.folders):
        known = _walked[real] = _walk(real)
    pinned: dict[str, str] = {}
    for file in known.found:
        shown = os.path.relpath(file, real)
        with suppress(FileMissing, BadDefinition, OSError, UnicodeDecodeError):
            data = read_bytes(Path(file), shown, MAX_RULES_BYTES, KEY, links=False)
            data.decode()  # no text: UnicodeDecodeError
            pinned[shown] = hashlib.sha256(data).hexdigest()
    return pinned


def _walk(root: str) -> _Walked:
    """Look for rules below ``root``, level by level. Hidden folders, links and what was installed are passed by."""
    folders: list[tuple[str, int]] = []
    found: list[str] = []
    pending = deque([root])
    while pending and len(folders) < FOLDERS:
        folder = pending.popleft()
        try:
            folders.append((folder, _changed_ns(folder)))  # before its names are read: what comes meanwhile is a change
            with os.scandir(folder) as entries:
                names = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        found += [entry.path for entry in names if entry.name in RULES_FILES and folder != root and entry.is_file()]
        inner = (entry for entry in names if entry.name[0] != "." and entry.name not in _PASSED_BY)
        pending += [entry.path for entry in inner if entry.is_dir(follow_symlinks=False)]
    return _Walked(tuple(folders), tuple(path for path in found if not _names_the_other(Path(path))))


def _changed_ns(folder: str) -> int:
    try:
        return os.stat(folder, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0
