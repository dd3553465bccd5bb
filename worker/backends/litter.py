"""What a program leaves outside of our folders when it is killed (a socket, say): removed when it has ended.

Its process id is kept in the program's home for as long as it runs, so that the next one there removes what was left by
one that was killed together with us. The id alone: what is kept there a program in a sandbox can write, and a path of
its choice is nothing that we, outside of the sandbox, should remove.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from worker.backends import private

_LIST: Final = "litter.txt"


def remember(home: Path, pid: int) -> None:
    """Keep whose litter it is. Not worth failing for: a full disk keeps nothing."""
    with suppress(OSError):
        private.write(home / _LIST, f"{pid}\n")


def remove(home: Path, litter: Iterable[str]) -> None:
    """Remove ``litter`` (paths with ``{pid}``) of the one that is kept; nothing is said of what cannot be removed."""
    kept = home / _LIST
    with suppress(OSError, ValueError):
        if not kept.is_file():
            return
        pid = int(kept.read_text("ascii"))
        for path in litter:
            Path(path.format(pid=pid)).unlink(missing_ok=True)
    with suppress(OSError):
        kept.unlink()
