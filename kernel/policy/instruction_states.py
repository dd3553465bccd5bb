"""State machines of instructions and deliveries, as tables. The store renders the guards of its statements from them,
so that a step that is not in a table cannot be written."""

from collections.abc import Mapping
from typing import Final, Literal

from protocol.instruction import STATUSES, DeliveryState, Status

Step = Literal[
    "lease", "entry", "retry", "yield", "wait", "pause", "resume",
    "answer", "done", "incomplete", "fail", "bury", "cancel", "revive",
]  # fmt: skip
"""wait: its attempt ends, and it waits. pause: a person, a limit or a question keeps back what nobody holds.
answer: a person says what comes of it. bury: given up after retries. revive: ``awk retry`` of what was given up."""

DeliveryStep = Literal["lease", "inject", "ack", "die", "revive"]
"""lease: an attempt holds its instruction. inject: a model was shown it, and the reply is durable. die: the work was
given up or cancelled."""

_LIVE: Final[Mapping[Step, Status]] = {
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
_FREE: Mapping[Step, Status] = {"incomplete": "incomplete", "cancel": "cancelled"}
"""An instruction that nobody holds can end too: it is cancelled, or the money of its run is spent."""
_READY: Mapping[Step, Status] = {"lease": "leased", "pause": "waiting", **_FREE}
_NOTHING: Mapping[Step, Status] = {}
_GIVEN_UP: Mapping[Step, Status] = {"revive": "queued"}

BEGINNINGS: Final[frozenset[Status]] = frozenset({"queued", "waiting"})
"""States of a new instruction: it waits where its workflow is paused or has reached a limit."""

TRANSITIONS: Final[Mapping[Status, Mapping[Step, Status]]] = {
    "queued": _READY,
    "yielded": _READY,
    "waiting": {"resume": "queued", "answer": "done", **_FREE},
    "leased": _LIVE,
    "running": _LIVE,
    "done": _NOTHING,
    "incomplete": _NOTHING,
    "failed": _GIVEN_UP,
    "dead": _GIVEN_UP,
    "cancelled": _NOTHING,
}

_END_OF_DELIVERY: Mapping[DeliveryStep, DeliveryState] = {"ack": "acked", "die": "dead"}

DELIVERIES: Final[Mapping[DeliveryState, Mapping[DeliveryStep, DeliveryState]]] = {
    "queued": {"lease": "leased", **_END_OF_DELIVERY},
    "leased": {"inject": "injected", **_END_OF_DELIVERY},
    "injected": _END_OF_DELIVERY,
    "acked": {},
    "dead": {"revive": "queued"},
}
"""A delivery stays leased or injected while its instruction is tried again: what was shown once stays shown. Its agent
may mark it as handled at any time; that ends the delivery and not the work."""


def sources(step: Step) -> tuple[Status, ...]:
    """The states that ``step`` may be made from."""
    return tuple(state for state in STATUSES if step in TRANSITIONS[state])


def target(step: Step) -> Status:
    """The state that ``step`` leads to, the same from each of its sources."""
    return TRANSITIONS[sources(step)[0]][step]


def delivery_sources(step: DeliveryStep) -> tuple[DeliveryState, ...]:
    """The states of a delivery that ``step`` may be made from."""
    return tuple(state for state in DELIVERIES if step in DELIVERIES[state])


def delivery_target(step: DeliveryStep) -> DeliveryState:
    """The state of a delivery that ``step`` leads to, the same from each of its sources."""
    return DELIVERIES[delivery_sources(step)[0]][step]
