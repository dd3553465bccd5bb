"""What a program leaves outside of our folders when it is killed (a socket, say): removed when it has ended.

Its paths are kept in the program's home for as long as it runs, so that the next one there removes what was left by
one that was killed together with us.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from worker.backends import private

_LIST: Final = "litter.txt"


def remember(home: Path, paths: Iterable[str]) -> None:
    """Keep ``paths``, absolute and of one line each. Not worth failing for: a full disk keeps nothing."""
    text = "".join(f"{path}\n" for path in paths)
    with suppress(OSError):
        if text:
            private.write(home / _LIST, text)


def remove(home: Path) -> None:
    """Remove what is kept, if it is still there; nothing is said of what cannot be removed."""
    with suppress(OSError):
        for path in (home / _LIST).read_text("utf-8").splitlines():
            Path(path).unlink(missing_ok=True)
        (home / _LIST).unlink()
