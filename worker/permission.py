"""The step before a tool of the worker's own runs: may it? The kernel knows, or somebody it asks.

Asking holds nothing up here: while nobody has decided the outcome is ``pending``, the work is put back, and the next
attempt asks again by the same key. What an answer means is read here, what it is decided there.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from protocol.agent import Approval
from protocol.ipc import Refusal
from protocol.tools import AUTH_REQUEST
from worker.tool import Outcome, Permit, ToolRunner

_REFUSED: Final[Mapping[str, tuple[Refusal, str]]] = MappingProxyType(
    {"denied": ("denied", "it was denied"), "expired": ("expired", "it was not approved")}
)
"""What is kept of a call that may not be made, and what a model reads of it."""


class _Answer(msgspec.Struct, frozen=True):
    decision: str
    reason: str = ""
    first: bool = False


_decode: Final = msgspec.json.Decoder(_Answer).decode


class Permission(msgspec.Struct, frozen=True):
    """Asks ``kernel`` about calls, as far as ``policy`` wants that."""

    policy: Approval
    kernel: ToolRunner

    def wanted(self, *, read_only: bool) -> bool:
        """Return whether a call has to be asked about first."""
        return self.policy == "all" or (self.policy != "auto" and not read_only)

    async def ask(self, name: str, args: dict[str, Any], key: str) -> Permit | Outcome:
        """Ask whether a call may run; return the outcome in its place if not. Raises Failed.

        Bound to exactly this call: its key, the tool, its arguments.
        """
        asked = await self.kernel.run(AUTH_REQUEST, {"tool": name, "input": args, "wait_seconds": 0}, key)
        if asked.is_error:
            return asked
        answer = _decode(asked.text)
        if answer.decision == "pending":
            return Outcome(asked.text, pending=True)
        if answer.decision == "granted":
            return Permit(first=answer.first)
        refused, why = _REFUSED.get(answer.decision, (None, answer.decision))
        words = f"{name} was not run: {why}"
        return Outcome(f"{words}: {answer.reason}" if answer.reason else words, is_error=True, refused=refused)


class UnknownTool:
    """Stands for auth_request where a model calls it: it is not offered, and what asks for a model's calls is here.

    A person would read words that the model chose, of a call that nothing makes.
    """

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Refuse, and ask nobody."""
        return Outcome(f"{name} is not for you to call: call the tool itself, it is asked about where needed", True)
