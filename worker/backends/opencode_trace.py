"""The one file that opencode leaves in a repository, whatever it is told: an id of its own in the git folder (1.18.33).

It is written as opencode starts, and it does without: so it is taken away again, where it was not there before.
"""

from pathlib import Path
from typing import Final

_NAME: Final = "opencode"
_POINTS: Final = "gitdir: "


class Trace:
    """What an opencode that is started in ``cwd`` now may leave behind. Raises OSError."""

    def __init__(self, cwd: Path) -> None:
        folder = _git_folder(cwd)
        file = folder / _NAME if folder is not None else None
        self._file = file if file is not None and not file.exists() else None

    def wipe(self) -> None:
        """Take it away, if it is there by now. Raises OSError."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _git_folder(cwd: Path) -> Path | None:
    """Git's folder of the repository around ``cwd``, the common one of all its worktrees; None outside of any."""
    found = next((folder / ".git" for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), None)
    if found is None or found.is_dir():
        return found
    own = found.parent / found.read_text("utf-8").removeprefix(_POINTS).strip()
    common = own / "commondir"
    return own / common.read_text("utf-8").strip() if common.is_file() else own
