"""Git as a user runs it: with an identity, and with no configuration of this machine's."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

IDENTITY: Final = {
    f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(folder: Path, *words: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the output of a git command in ``folder``. Raises subprocess.CalledProcessError."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_GLOBAL": os.devnull}
    env = {**plain, **IDENTITY, **(environ or {})}
    done = subprocess.run(("git", *words), cwd=folder, env=env, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def commit_all(folder: Path, message: str = "first") -> None:
    """Commit every file of ``folder`` to its branch ``main``; the repository is created if there is none."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", message)
