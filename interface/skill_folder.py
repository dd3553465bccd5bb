"""Imported skills of the project: ``.agents/skills/<name>/``, and a lock file with the source and digest of each skill.

A skill is written to a temporary directory and then renamed, so it is never incomplete. The digest in the lock file
shows whether the user has changed the skill.
"""

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from interface.failure import Failure
from interface.safe_dir import SafeDir
from osfiles.atomic_write import open_new
from protocol.inspection import FetchedSkill, SkillPin

HOME: Final = ".agents/skills"
LOCK: Final = "skills.lock"
_NEW: Final = ".new-"
_OLD: Final = ".old-"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_HINT: Final = "restore the file from version control, or delete it"
_decode: Final = msgspec.json.Decoder(dict[str, SkillPin]).decode


def path_of(name: str) -> str:
    """Return the path of an imported skill, relative to the root."""
    return f"{HOME}/{name}"


def pins(root: str) -> dict[str, SkillPin]:
    """Return the pins of imported skills by name. Raises Failure (bad_definition) if the lock file is invalid."""
    try:
        with SafeDir.within(root, HOME) as folder:
            found = _decode(folder.read(LOCK).encode())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise Failure("bad_definition", f"{HOME}/{LOCK} cannot be read: {error}", _HINT) from error
    wrong = next((name for name in found if not _NAME.fullmatch(name)), None)
    if wrong is not None:  # a name becomes a path
        raise Failure("bad_definition", f"{HOME}/{LOCK} has {wrong[:80]!r}, which is not a skill name", _HINT)
    return found


def put(root: str, source: str, commit: str, skill: FetchedSkill) -> None:
    """Replace the installed skill by ``skill`` and pin it. Raises Failure."""
    try:
        with SafeDir.within(root, HOME, make=True) as folder, folder.locked():
            known = pins(root)
            home = os.path.join(root, HOME)
            name = skill.name
            new = os.path.join(home, f"{_NEW}{name}")
            _clear(new)
            os.mkdir(new)  # fails if the path exists: it could be a link out of the project
            try:
                for file in skill.files:
                    path = os.path.join(new, file.name)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(open_new(path, 0o666), "wb") as out:
                        out.write(file.data)
                        if file.program:
                            os.fchmod(out.fileno(), os.fstat(out.fileno()).st_mode | 0o111)
                _away(home, name)
                os.rename(new, os.path.join(home, name))
            finally:
                _clear(new)
            pin = SkillPin(source=source, commit=commit, digest=skill.digest)
            folder.write(LOCK, _text({**known, skill.name: pin}))
    except OSError as error:
        raise Failure("failed", f"{path_of(skill.name)} cannot be written: {error.strerror or error}") from error


def remove(root: str, name: str) -> None:
    """Remove an imported skill, and its pin. Raises Failure."""
    try:
        with SafeDir.within(root, HOME) as folder, folder.locked():
            known = pins(root)
            _away(os.path.join(root, HOME), name)
            folder.write(LOCK, _text({other: pin for other, pin in known.items() if other != name}))
    except OSError as error:
        raise Failure("failed", f"{path_of(name)} cannot be removed: {error.strerror or error}") from error


def _away(home: str, name: str) -> None:
    old = os.path.join(home, f"{_OLD}{name}")
    _clear(old)
    with suppress(FileNotFoundError):
        os.rename(os.path.join(home, name), old)
    _clear(old)


def _clear(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):  # POSIX: unlink of a directory fails with EPERM
        shutil.rmtree(path)


def _text(known: Mapping[str, SkillPin]) -> str:
    return msgspec.json.format(msgspec.json.encode(known, order="sorted")).decode() + "\n"
