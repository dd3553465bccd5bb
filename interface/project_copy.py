"""Copies of a project for runs that must not see each other: the same files and the same commit, and nothing shared.

A git repository becomes a clone with the one branch that is checked out and without a way back; all that is not
committed is one more commit in it, and what git ignores is copied. What lies in the project and is no file, folder or
link is left out. A link to a place in the project leads to the same place in the copy.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from typing import Final

from interface.autostart import make_private
from interface.failure import Failure

LIMIT_BYTES: Final = 4 * 2**30
LIMIT_FILES: Final = 200_000
_BRANCH: Final = "compared"
"""In place of a commit that is checked out without a branch."""
_AS: Final = ("-c", "user.name=agent-worker", "-c", "user.email=agent-worker@localhost")
_GIT: Final = (
    "git",
    "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
)  # fmt: skip


class ProjectCopy:
    """Makes copies of what is at ``root`` now, below ``folder``; ``hidden`` is not copied, wherever it lies."""

    def __init__(self, root: str, environ: Mapping[str, str], hidden: str) -> None:
        self._root = root
        self._hidden = hidden
        self._environ = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
        self._environ |= {"GIT_CONFIG_GLOBAL": environ.get("GIT_CONFIG_GLOBAL", ""), "LC_ALL": "C"}
        if not self._environ["GIT_CONFIG_GLOBAL"]:
            del self._environ["GIT_CONFIG_GLOBAL"]
        self._bytes = 0
        self._files = 0
        top = self._asked(root, "rev-parse", "--show-toplevel")
        self.top: str | None = os.path.realpath(top) if top and self._asked(root, "rev-parse", "HEAD") else None
        """The repository's working tree; None: the project is in none, or nothing was ever committed."""

    @property
    def inside(self) -> str:
        """The project as seen from the top of a copy."""
        return "" if self.top is None else os.path.relpath(self._root, self.top)

    def make(self, folder: str) -> None:
        """Copy the project as it is now to ``folder``, which is not there yet. Raises Failure."""
        source = self.top or self._root
        if self.top is not None and os.path.lexists(os.path.join(source, ".gitmodules")):
            raise Failure("usage", "the project has submodules, which a comparison cannot copy")
        make_private(os.path.dirname(folder))
        if self.top is not None:
            clone = (
                "clone",
                "--quiet",
                "--no-hardlinks",
                "--single-branch",
                "--no-tags",
                "--no-checkout",
                "--template=",
            )
            self.git(os.path.dirname(folder), *clone, "--", self.top, folder)
            self.git(folder, "remote", "remove", "origin")
            branch = self._asked(source, "symbolic-ref", "-q", "HEAD") or f"refs/heads/{_BRANCH}"
            self.git(folder, "update-ref", branch, self.git(source, "rev-parse", "HEAD"))
            self.git(folder, "symbolic-ref", "HEAD", branch)
            # A clone of a commit without a branch takes any branch that is there for it.
            for other in self.git(folder, "for-each-ref", "--format=%(refname)", "refs/heads").split("\n"):
                if other != branch:
                    self.git(folder, "update-ref", "-d", other)
            for name in ("user.name", "user.email"):
                if value := self._asked(source, "config", "--get", name):
                    self.git(folder, "config", name, value)
        try:
            shutil.copytree(source, folder, symlinks=True, ignore=self._left_out, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise Failure("failed", f"the project cannot be copied to {folder}: {str(error)[:500]}") from error
        lead_inward(folder, source)
        self.commit(folder, "What was not committed")

    def commit(self, folder: str, message: str) -> None:
        """Commit all that is changed in a copy, if anything is."""
        if self.top is None:
            return
        self.git(folder, "add", "--all", "--", ".")
        if self._asked(folder, "status", "--porcelain", "--untracked-files=no"):
            self.git(folder, *_AS, "commit", "--quiet", "--no-verify", "-m", message)

    def git(self, folder: str, *words: str) -> str:
        """The words of git, in ``folder``. Raises Failure."""
        done = subprocess.run(
            (*_GIT, *words), cwd=folder, env=self._environ, capture_output=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-500:]
            raise Failure("failed", f"git {words[0]} failed while the project was copied: {said}")
        return done.stdout.decode("utf-8", "replace").strip()

    def _asked(self, folder: str, *words: str) -> str:
        """The same, "" where git says no, or is not there."""
        try:
            return self.git(folder, *words)
        except (Failure, FileNotFoundError):
            return ""

    def _left_out(self, folder: str, names: Iterable[str]) -> list[str]:
        left: list[str] = []
        for name in names:
            path = os.path.join(folder, name)
            found = os.lstat(path)
            self._files += 1
            self._bytes += found.st_size
            plain = os.path.islink(path) or os.path.isdir(path) or os.path.isfile(path)
            git = folder == self.top and name == ".git"
            if git or not plain or os.path.realpath(path) == self._hidden:
                left.append(name)
        if self._bytes > LIMIT_BYTES or self._files > LIMIT_FILES:
            text = f"the project has more than {LIMIT_BYTES // 2**30} GiB or {LIMIT_FILES:,} files"
            raise Failure("usage", f"{text}: each run of a comparison needs a copy of it", "name a smaller --project")
        return left


def copy_again(made: str, folder: str) -> None:
    """Copy a copy to ``folder``, which is not there yet. Raises Failure."""
    try:
        shutil.copytree(made, folder, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise Failure("failed", f"the project cannot be copied to {folder}: {str(error)[:500]}") from error
    lead_inward(folder, made)


def lead_inward(folder: str, source: str) -> None:
    """Let links in ``folder`` that lead into ``source``, which it is a copy of, lead to the same place in it."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            if os.path.islink(path) and os.path.isabs(leads := os.readlink(path)):
                inside = os.path.relpath(leads, source)
                if inside != os.pardir and not inside.startswith(os.pardir + os.sep):
                    os.unlink(path)
                    os.symlink(os.path.normpath(os.path.join(folder, inside)), path)
