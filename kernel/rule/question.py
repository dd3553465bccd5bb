"""Whether an agent may ask another and wait for the answer: within its workspace, and never in a circle. Pure.

No circle of waits could lock anybody up, because an agent that waits does other work meanwhile. But a question that
comes back to who waits for its answer would only be asked again.
"""

from collections.abc import Iterable

from kernel.rule.effects import Refuse
from kernel.rule.fact import Fact
from kernel.rule.view import View
from protocol.names import AgentKey, split_space


def nobody_to_ask(space: str) -> Refuse:
    """The refusal of a question in a personal space."""
    text = f"there is nobody to ask in {space}: it is between {split_space(space)[1]} and the user"
    return Refuse("not_a_participant", text, "agents ask each other in a workspace; ask the user in your final answer")


def refusal(fact: Fact, asked: Iterable[AgentKey], view: View) -> Refuse | None:
    """Why the speaker of ``fact`` may not ask ``asked``, members of its workspace; None where it may."""
    waiting = view.askers(fact.cause) if fact.cause is not None else ()
    for key in asked:
        if key == fact.speaker:
            return Refuse("conflict", f"{fact.sender} cannot ask itself", "think it over, or ask a colleague")
        if key in waiting:
            return _circle(fact)
    return None


def _circle(fact: Fact) -> Refuse:
    name = fact.to[0]
    text = f"{name} waits for {fact.sender} already, so {fact.sender} cannot wait for {name}"
    return Refuse("conflict", text, "answer with what you know, and say in your final answer what is missing")
