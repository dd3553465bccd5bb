"""Waits until instructions have ended or only a person can let them go on, whatever happens to the kernel meanwhile.

Level-triggered: their state is asked for after every connect and every ping; events only make it quicker.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from interface.client import PING, ServerEvent
from interface.event_follow import CONNECTED, Follower
from interface.failure import Unreachable

ENDED: Final = frozenset({"done", "incomplete", "failed", "dead", "cancelled"})
"""As protocol.instruction.ENDED, which costs msgspec."""

TURNS: Final = frozenset({"instruction.ended", "instruction.queued", "agent.changed", "approval.requested"})
"""Events after which an instruction may have ended, or come to where only a person can help."""

Result = dict[str, Any]
"""One protocol.api.InstructionResult, as JSON."""


class InstructionWait:
    """The results of ``ids``, as they come in; ``results`` is good at any time, also after Expired.

    ``approve`` puts a request to who is there to decide it, and ``answer`` a question to a person who is an agent, each
    once, so that is waited for as long as it may be given; None: nobody is.
    ``tell`` hears every event of work that is still waited for.
    """

    def __init__(
        self,
        ids: Sequence[str],
        *,
        approve: Callable[[str], None] | None,
        answer: Callable[[str], None] | None,
        tell: Callable[[ServerEvent], None],
    ) -> None:
        self._ids = tuple(ids)
        self._approve = approve
        self._answer = answer
        self._put: set[str] = set()
        self._told = tell
        self._ended: dict[str, Result] = {}

    @property
    def results(self) -> list[Result]:
        """Those that go on no more by themselves, in the order of the ids."""
        return [self._ended[name] for name in self._ids if name in self._ended]

    @property
    def open(self) -> list[str]:
        """The others."""
        return [name for name in self._ids if name not in self._ended]

    def wait(self, follower: Follower) -> None:
        """Until all have ended. Raises what the follower raises."""
        for event in follower:
            if event in (CONNECTED, PING) or event.type == "agent.changed":
                self._ask(follower, self.open)
            elif event.type in TURNS:
                if str(json.loads(event.data).get("instruction")) in self.open:
                    self._told(event)
                name = str(json.loads(event.data).get("instruction"))
                self._ask(follower, [name] if name in self.open else [])
            if not self.open:
                return

    def _ask(self, follower: Follower, names: Sequence[str]) -> None:
        assert follower.client is not None
        left = [*names]
        while left:
            name = left.pop(0)
            try:
                info = json.loads(follower.client.get(f"/instructions/{name}"))
            except Unreachable:
                return  # the stream breaks too, and the next connect asks again
            asks = info.get("waits_for") == "approval" and self._approve is None
            approval = info.get("approval")
            if self._approve is not None and approval is not None and approval not in self._put:
                self._put.add(approval)
                self._approve(approval)
                left.append(name)  # it may go on now, or have ended meanwhile
                continue
            if self._answer is not None and info.get("waits_for") == "person" and name not in self._put:
                self._put.add(name)
                self._answer(name)
                left.append(name)
                continue
            held = info.get("standing") == "person" or (info.get("standing") == "time" and asks)
            if held or info["status"] in ENDED:
                self._ended[name] = {
                    "instruction_id": name,
                    **{key: info[key] for key in ("agent", "status", "text", "usage")},
                    "cause": info.get("cause"),
                    "waits_for": None,
                    "unasked": info.get("unasked"),
                    "attempts": info.get("tried", 0),
                    **({"status": "waiting", "waits_for": info.get("waits_for")} if held else {}),
                }
