"""Notices an agent that has a working tree of its own and names files of the project itself: they are not its copy.

It is told, never prevented: a path in an argument may be read, written or only talked about. ``sandbox: on`` prevents.
"""

import re
from typing import Final

from protocol.ipc import Entry

_END: Final = r"""(?:/[^\s"'\\`;|&<>(){}\[\],:]*)?(?![\w.-])"""


class Strays:
    """Of one attempt. ``project`` is the folder that is not its own; "": it works nowhere else."""

    def __init__(self, project: str, cwd: str) -> None:
        self._pattern = re.compile(f"(?<![\\w./-]){re.escape(project)}{_END}") if project else None
        self._cwd = cwd
        self._told: set[str] = set()

    def of(self, entry: Entry) -> tuple[str, ...]:
        """What to warn of in the calls of ``entry``; of each path once."""
        found: list[str] = []
        if self._pattern is None:
            return ()
        for call in entry.calls:
            for path in self._pattern.findall(bytes(call.args).decode("utf-8", "replace")):
                if path not in self._told and not path.startswith(self._cwd):
                    self._told.add(path)
                    found.append(f"{call.name} names {path[:300]}, which is in the project and not in {self._cwd}")
        return tuple(found)
