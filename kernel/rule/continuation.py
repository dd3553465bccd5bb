"""Whether a message takes up work that was left incomplete: the user says so to its agent, with the word. Pure."""

import re
from typing import Final

from kernel.rule.fact import Fact
from kernel.rule.view import View
from protocol.message import USER
from protocol.names import AgentKey

_ASKS: Final = re.compile(r"\s*continue\b", re.IGNORECASE)


def taken_up(fact: Fact, agent: AgentKey, view: View) -> int | None:
    """The instruction of ``agent`` whose thread the message takes up; None where it is a message like any other."""
    if fact.kind != "said" or fact.sender != USER or _ASKS.match(fact.text) is None:
        return None
    return view.incomplete(fact.space, agent)
