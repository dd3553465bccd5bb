"""Waits until instructions have ended, whatever happens to the kernel meanwhile.

Level-triggered: their state is asked for after every connect and every ping; events only make it quicker.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from interface.failure import Unreachable
from interface.follow import CONNECTED, Follower
from interface.sse import PING

ENDED: Final = frozenset({"done", "incomplete", "failed", "dead", "cancelled"})
"""As protocol.instruction.ENDED, which costs msgspec."""

Result = dict[str, Any]
"""One protocol.api.InstructionResult, as JSON."""


class Outcomes:
    """The results of ``ids``, as they come in; ``results`` is good at any time, also after Expired."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = tuple(ids)
        self._ended: dict[str, Result] = {}

    @property
    def results(self) -> list[Result]:
        """Those that have ended, in the order of the ids."""
        return [self._ended[name] for name in self._ids if name in self._ended]

    @property
    def open(self) -> list[str]:
        """Those that have not."""
        return [name for name in self._ids if name not in self._ended]

    def wait(self, follower: Follower) -> None:
        """Until all have ended. Raises what the follower raises."""
        for event in follower:
            if event in (CONNECTED, PING):
                self._ask(follower, self.open)
            elif event.type == "instruction.ended":
                name = str(json.loads(event.data).get("instruction"))
                self._ask(follower, [name] if name in self.open else [])
            if not self.open:
                return

    def _ask(self, follower: Follower, names: Sequence[str]) -> None:
        assert follower.client is not None
        for name in names:
            try:
                info = json.loads(follower.client.get(f"/instructions/{name}"))
            except Unreachable:
                return  # the stream breaks too, and the next connect asks again
            if info["status"] in ENDED:
                self._ended[name] = {
                    "instruction_id": name,
                    **{key: info[key] for key in ("agent", "status", "text", "usage")},
                }
