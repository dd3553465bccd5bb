"""Selection of the action that lets blocked work continue, by the state of an agent, workflow or instruction. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from protocol.api.instructions import UnblockAction

T = TypeVar("T")
_STATES: Final[Mapping[UnblockAction, str]] = {
    "resume": "paused stopped",
    "continue": "budget hops instructions wall_time",
    "reset": "error credentials quota provider node backoff",
    "retry": "failed dead",
    "restart": "silent",
}
ACTIONS: Final[Mapping[str, UnblockAction]] = {
    state: action for action, states in _STATES.items() for state in states.split()
}
"""Action by state, wait reason or reached limit. silent: a running step without output for ``timeouts.quiet``."""
PERSONS: Final[Mapping[str, str]] = {
    "approval": "decide the call: awk needs --approvals",
    "person": "answer the question: awk needs",
    "answer": "see what blocks its colleague: awk needs",
}
"""Suggested action by wait reason, where only the user knows the decision."""


def first_of(states: Iterable[str | None], table: Mapping[str, T]) -> tuple[T, str] | None:
    """Return the action for the first state in ``table``, and that state; None if it contains none of them."""
    return next(((table[state], state) for state in states if state is not None and state in table), None)
