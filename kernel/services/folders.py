"""Where an attempt may leave things: a folder that goes with it, and one that the agent's CLI lives in for longer.

``sessions/<agent>/<space>/<backend>/`` (contracts.md section 3) is made when it is first needed; nothing of the user's
or of the project is ever a home.
"""

import re
from pathlib import Path
from typing import Final

from kernel.store.commits.lease import Leased
from protocol.agent import AgentDefinition
from protocol.backends import BACKENDS
from protocol.state_paths import RUN, SESSIONS

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._@-]+")


class Folders:
    """Names folders below ``state``, and makes those that outlive an attempt. ``home`` is where all projects' is."""

    def __init__(self, *, state: Path, home: Path) -> None:
        self._state = state
        self.hidden: tuple[str, ...] = (str(home),)
        """What no agent has any business in."""

    def attempt(self, leased: Leased) -> str:
        """The folder of the attempt; whoever spawns it makes it."""
        return str(self._state / RUN / leased.attempt)

    def session(self, leased: Leased, definition: AgentDefinition) -> str:
        """The home of the agent's CLI in that space, made with mode 0700; "" for what needs none. Raises OSError."""
        if not BACKENDS[definition.backend].own_session:
            return ""
        place = self.sessions(leased.agent) / plain(leased.space) / definition.backend
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(place)

    def sessions(self, agent: str) -> Path:
        """The homes of all CLIs of one agent (its key)."""
        return self._state / SESSIONS / plain(agent)


def plain(name: str) -> str:
    """A key, of an agent or a space, as one folder: only ``review:main`` becomes ``review+main``."""
    return _PLAIN.sub("+", name)
