"""The files by which git knows a linked working tree, written and read by hand (gitrepository-layout).

``git worktree add`` and ``remove`` would do the same under the repository's own configuration. Every function blocks.
"""

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from kernel.workflows.git_directory import first_line
from protocol.errors import Refused

_BRANCH: Final = "ref: refs/heads/"


def linked_trees(common: str) -> Iterator[tuple[str, str, str]]:
    """Of each linked tree: its own directory in the repository, where it is, and its branch ("": none)."""
    with suppress(FileNotFoundError), os.scandir(f"{common}/worktrees") as entries:
        for entry in entries:
            with suppress(OSError):
                place = first_line(f"{entry.path}/gitdir")
                path = os.path.dirname(os.path.normpath(os.path.join(entry.path, place)))
                yield entry.path, path, branch_in(entry.path)


def branch_in(own: str) -> str:
    """The branch that a git directory has checked out; "": none."""
    with suppress(OSError):
        head = first_line(f"{own}/HEAD")
        return head.removeprefix(_BRANCH) if head.startswith(_BRANCH) else ""
    return ""


def link_tree(common: str, path: str, branch: str) -> str:
    """Make ``path`` a linked tree with ``branch``, with no files yet. Returns its own directory in the repository."""
    unlink_tree(common, path)
    os.makedirs(path, mode=0o700, exist_ok=True)
    own = _new_folder(common, os.path.basename(path))
    Path(own, "gitdir").write_text(f"{path}/.git\n", "utf-8", "surrogateescape")
    Path(own, "commondir").write_text("../..\n", "utf-8")
    Path(own, "HEAD").write_text(f"{_BRANCH}{branch}\n", "utf-8")
    Path(path, ".git").write_text(f"gitdir: {own}\n", "utf-8", "surrogateescape")
    return own


def unlink_tree(common: str, path: str) -> None:
    """Have the repository forget the linked tree at ``path``, whose files stay."""
    for own, where, _branch in tuple(linked_trees(common)):
        if where == path:
            shutil.rmtree(own)
    with suppress(OSError):
        os.rmdir(f"{common}/worktrees")


def check_not_locked(own: str) -> None:
    """Raise Refused where somebody wants the tree to stay (git worktree lock)."""
    if os.path.lexists(f"{own}/locked"):
        raise Refused("setup_failed", "the working tree is locked", "git worktree unlock")


def _new_folder(common: str, name: str) -> str:
    os.makedirs(f"{common}/worktrees", exist_ok=True)
    for number in itertools.count():
        own = f"{common}/worktrees/{name}{number or ''}"
        with suppress(FileExistsError):
            os.mkdir(own)
            return own
    raise AssertionError("unreachable")
