"""What a project would bring into cursor-agent, which takes it as it comes: it has no option that leaves it alone.

``--trust --approve-mcps``, without which it does not begin, agree to servers and hooks of ``.cursor`` in the working
directory and its parents, and rules there speak to the model. A repository's files are not trusted here to do either,
so such a project is not opened with it. What lies in the user's own home, and above that, is the user's.
"""

import os
from pathlib import Path
from typing import Final

_FOLDER: Final = ".cursor"


def brought_in(cwd: Path, home: str) -> Path | None:
    """The ``.cursor`` that cursor-agent would take up in ``cwd``; None: there is none with anything in it.

    A link counts, wherever it leads. ``home`` is the user's. Raises OSError.
    """
    own = Path(home) if home else None
    for folder in (cwd, *cwd.parents):
        if own is not None and own.is_relative_to(folder):
            break
        found = folder / _FOLDER
        if os.path.islink(found) or os.path.isfile(found) or (found.is_dir() and any(found.iterdir())):
            return found
    return None
