"""State machines of instructions and deliveries, as tables.

The store renders the guards of its SQL statements from them, so that a step outside the tables cannot be written.
"""

from collections.abc import Mapping
from typing import Final, Literal

from protocol.instruction import STATUSES, DeliveryState, Status

Step = Literal[
    "lease", "entry", "retry", "yield", "wait", "pause", "resume",
    "answer", "done", "incomplete", "fail", "bury", "cancel", "revive",
]  # fmt: skip
"""wait: the attempt ends and the instruction waits. pause: a person, a limit or a question holds a queued instruction.
answer: a person supplies the result. bury: dead-letter after retries. revive: ``awk retry`` of dead-lettered work."""

DeliveryStep = Literal["lease", "inject", "ack", "die", "revive"]
"""lease: an attempt holds the instruction. inject: a model has seen the message and its reply is durable. die: the
work was dead-lettered or cancelled."""

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
"""A queued instruction can also end: it is cancelled, or the budget of its run is exhausted."""
_READY: Mapping[Step, Status] = {"lease": "leased", "pause": "waiting", **_FREE}
_NOTHING: Mapping[Step, Status] = {}
_GIVEN_UP: Mapping[Step, Status] = {"revive": "queued"}

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
"""A delivery stays leased or injected during retries, because the model has already seen it. Its agent may mark it as
handled at any time, which ends the delivery but not the instruction."""


def sources(step: Step) -> tuple[Status, ...]:
    """Return the states from which ``step`` is allowed."""
    return tuple(state for state in STATUSES if step in TRANSITIONS[state])


def target(step: Step) -> Status:
    """Return the state after ``step``, which is the same from each of its sources."""
    return TRANSITIONS[sources(step)[0]][step]


def delivery_sources(step: DeliveryStep) -> tuple[DeliveryState, ...]:
    """Return the delivery states from which ``step`` is allowed."""
    return tuple(state for state in DELIVERIES if step in DELIVERIES[state])


def delivery_target(step: DeliveryStep) -> DeliveryState:
    """Return the delivery state after ``step``, which is the same from each of its sources."""
    return DELIVERIES[delivery_sources(step)[0]][step]
