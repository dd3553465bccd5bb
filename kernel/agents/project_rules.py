"""The rules that a project has for agents: its nearest CLAUDE.md and AGENTS.md, as they are read for one agent."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kernel.source.diagnostics import Diagnostics
from kernel.source.files import FileMissing, read_bytes
from kernel.source.yaml_tree import decode_utf8

KEY: Final = "project_rules"
NAMES: Final = ("CLAUDE.md", "AGENTS.md")
MAX_RULES_BYTES: Final = 64 * 1024
"""Of one file."""


class RulesFile(NamedTuple):
    """A file with rules. ``path`` is as seen from the project's root."""

    path: str
    text: str
    digest: str


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
        for name in NAMES:
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
    return target in NAMES and not (file.parent / target).is_symlink()
