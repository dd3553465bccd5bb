"""The states of an instruction, as a table. A missing key is a bug, and changes nothing."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from protocol.instruction import Status

Step = Literal["lease", "entry", "retry", "yield", "wait", "resume", "done", "incomplete", "fail", "bury", "cancel"]

_LIVE: Final[Mapping[Step, Status]] = MappingProxyType(
    {
        "entry": "running",
        "retry": "queued",
        "yield": "yielded",
        "wait": "waiting",
        "done": "done",
        "incomplete": "incomplete",
        "fail": "failed",
        "bury": "dead",
        "cancel": "cancelled",
    }
)
_READY: Final[Mapping[Step, Status]] = MappingProxyType({"lease": "leased", "cancel": "cancelled"})
_NOTHING: Final[Mapping[Step, Status]] = MappingProxyType({})

TRANSITIONS: Final[Mapping[Status, Mapping[Step, Status]]] = MappingProxyType(
    {
        "queued": _READY,
        "yielded": _READY,
        "waiting": MappingProxyType({"resume": "queued", "cancel": "cancelled"}),
        "leased": _LIVE,
        "running": _LIVE,
        "done": _NOTHING,
        "incomplete": _NOTHING,
        "failed": _NOTHING,
        "dead": _NOTHING,
        "cancelled": _NOTHING,
    }
)


class IllegalTransition(Exception):
    """A step that the state does not allow. Raised for bugs; a request that comes too late is refused instead."""


def after(state: Status, step: Step) -> Status:
    """The state after ``step``. Raises IllegalTransition."""
    try:
        return TRANSITIONS[state][step]
    except KeyError:
        raise IllegalTransition(f"an instruction that is {state} cannot {step}") from None
