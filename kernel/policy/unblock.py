"""Selection of the action that lets blocked work continue, by the state of an agent, workflow or instruction. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from protocol.api.instructions import UnblockAction

_STATES: Final[Mapping[UnblockAction, str]] = {
    "resume": "paused stopped",
    "continue": "budget hops instructions wall_time",
    "reset": "error credentials quota provider node backoff",
    "retry": "failed dead",
}
ACTIONS: Final[Mapping[str, UnblockAction]] = {
    state: action for action, states in _STATES.items() for state in states.split()
}
"""Action by state, wait reason or reached limit."""
PERSONS: Final[Mapping[str, str]] = {
    "approval": "decide the call: awk needs --approvals",
    "person": "answer the question: awk needs",
    "answer": "see what blocks its colleague: awk needs",
}
"""Suggested action by wait reason, where only the user knows the decision."""


def choose(states: Iterable[str | None]) -> tuple[UnblockAction, str] | None:
    """Return the action for the first state that has one, and that state; None if nothing is blocked."""
    return next(((ACTIONS[state], state) for state in states if state is not None and state in ACTIONS), None)


def decision_for(states: Iterable[str | None]) -> str | None:
    """Return the suggested action of the first state that waits for a decision of the user."""
    return next((PERSONS[state] for state in states if state is not None and state in PERSONS), None)
