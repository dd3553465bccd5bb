"""A failure is told once, in the space the work came from, as the system's words and never the agent's.

What a schedule wakes fails again and again while its cause lasts: that is told the first time only.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kernel.rule.draft import Draft, Outcome
from kernel.rule.effects import Append, Effect
from kernel.rule.fact import Fact
from kernel.rule.proposal import Proposal
from kernel.rule.view import View
from protocol.instruction import Status
from protocol.message import SYSTEM

NOTICES: Final[Mapping[Status, str]] = MappingProxyType(
    {
        "failed": "failed and is not tried again",
        "dead": "was given up after its last attempt",
        "incomplete": "stopped before it was complete",
    }
)
"""How each end reads. One that is not listed is not announced."""


def decide(fact: Fact, view: View) -> tuple[Effect, ...]:
    """Append the notice: who, which instruction, class and cause."""
    outcome = fact.payload
    if not isinstance(outcome, Outcome) or outcome.status not in NOTICES or _told(fact, outcome, view):
        return ()
    why = ": ".join(part for part in (outcome.error_class, outcome.cause) if part) or "cause unknown"
    text = f"{outcome.instruction} of {fact.sender} {NOTICES[outcome.status]} ({why})"
    return (Append(Draft(kind="system", space=fact.space, sender=SYSTEM, text=text)),)


def _told(fact: Fact, outcome: Outcome, view: View) -> bool:
    """Whether the wakeup before this one failed for the same cause."""
    if fact.cause is None or outcome.cause is None:
        return False
    before = view.wakeup_before(fact.cause)
    return before is not None and before.status in NOTICES and before.cause == outcome.cause


FAILURE: Final = Proposal(name="failure", kinds=frozenset({"done", "failed"}), decide=decide)
