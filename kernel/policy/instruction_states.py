"""The states of an instruction and of a delivery, as tables. A missing key is a bug, and changes nothing."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeVar

from protocol.instruction import DeliveryState, Status

Step = Literal[
    "lease", "entry", "retry", "yield", "wait", "pause", "resume",
    "done", "incomplete", "fail", "bury", "cancel", "revive",
]  # fmt: skip
"""wait: parked by its attempt. pause: by a person or a limit, while nobody held it. bury: given up after retries.
revive: ``awk retry`` of what was given up."""

DeliveryStep = Literal["lease", "inject", "ack", "die", "revive"]
"""lease: an attempt holds its instruction. inject: a model was shown it, and the reply is durable. die: the work was
given up or cancelled."""

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
_FREE: Final[Mapping[Step, Status]] = MappingProxyType({"incomplete": "incomplete", "cancel": "cancelled"})
"""What nobody holds can end too: it is cancelled, or the money of its run is spent."""
_READY: Final[Mapping[Step, Status]] = MappingProxyType({"lease": "leased", "pause": "waiting", **_FREE})
_NOTHING: Final[Mapping[Step, Status]] = MappingProxyType({})
_GIVEN_UP: Final[Mapping[Step, Status]] = MappingProxyType({"revive": "queued"})

BEGINNINGS: Final[frozenset[Status]] = frozenset({"queued", "waiting"})
"""How an instruction comes into the world: waiting where its workflow is paused or has reached a limit."""

TRANSITIONS: Final[Mapping[Status, Mapping[Step, Status]]] = MappingProxyType(
    {
        "queued": _READY,
        "yielded": _READY,
        "waiting": MappingProxyType({"resume": "queued", **_FREE}),
        "leased": _LIVE,
        "running": _LIVE,
        "done": _NOTHING,
        "incomplete": _NOTHING,
        "failed": _GIVEN_UP,
        "dead": _GIVEN_UP,
        "cancelled": _NOTHING,
    }
)

_END_OF_DELIVERY: Final[Mapping[DeliveryStep, DeliveryState]] = MappingProxyType({"ack": "acked", "die": "dead"})

DELIVERIES: Final[Mapping[DeliveryState, Mapping[DeliveryStep, DeliveryState]]] = MappingProxyType(
    {
        "queued": MappingProxyType({"lease": "leased", **_END_OF_DELIVERY}),
        "leased": MappingProxyType({"inject": "injected", **_END_OF_DELIVERY}),
        "injected": _END_OF_DELIVERY,
        "acked": MappingProxyType({}),
        "dead": MappingProxyType({"revive": "queued"}),
    }
)
"""A delivery stays leased or injected while its instruction is tried again: what was shown once stays shown. Its agent
may mark it as handled at any time; that ends the delivery and not the work."""


class IllegalTransition(Exception):
    """A step that the state does not allow. Raised for bugs; a request that comes too late is refused instead."""


S = TypeVar("S", bound=str)
T = TypeVar("T", bound=str)


def after(state: Status, step: Step) -> Status:
    """The state of an instruction after ``step``. Raises IllegalTransition."""
    return _after(TRANSITIONS, "an instruction", state, step)


def delivery_after(state: DeliveryState, step: DeliveryStep) -> DeliveryState:
    """The state of a delivery after ``step``. Raises IllegalTransition."""
    return _after(DELIVERIES, "a delivery", state, step)


def _after(table: Mapping[S, Mapping[T, S]], what: str, state: S, step: T) -> S:
    try:
        return table[state][step]
    except KeyError:
        raise IllegalTransition(f"{what} that is {state} cannot {step}") from None
