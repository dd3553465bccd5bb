"""What an agent says when its work is done becomes a reply in the space the work came from."""

from typing import Final

from kernel.rule.draft import Draft, Outcome
from kernel.rule.effects import Append, Effect
from kernel.rule.fact import Fact
from kernel.rule.proposal import Proposal
from kernel.rule.view import View


def decide(fact: Fact, _view: View) -> tuple[Effect, ...]:
    """Append the reply, unless the agent had nothing to say."""
    if not isinstance(fact.payload, Outcome) or not fact.payload.text.strip():
        return ()
    return (Append(Draft(kind="reply", space=fact.space, sender=fact.sender, text=fact.payload.text)),)


REPLY: Final = Proposal(name="reply", kinds=frozenset({"done"}), decide=decide)
