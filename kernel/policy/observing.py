"""The guard's observation of agents: its question about much work, and its accepted suggestions for souls. Pure.

The risk of a suggestion follows from the trait, the size and the characters of the change, and the trust of all that
the model saw, never from the meaning of words: what no rule below calls low is significant.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from kernel.policy.guard import OBSERVATION_CHARACTERS, TRAIT_CHARACTERS, evolved, one_line, read_answer
from kernel.policy.recall import nearly_same, shape_of
from protocol.agent_memory import SourceClass, least
from protocol.api.souls import SoulRisk
from protocol.errors import Refused
from protocol.text import quoted

OBSERVED: Final = 20
"""Instructions of an agent in one question."""
FEWEST_CITED: Final = 3
MOST_OBSERVED: Final = 3
"""Limit of suggestions for one answer."""
WORK_CHARACTERS: Final = 300
SOUL_CHARACTERS: Final = 4000

OBSERVE: Final = """\
Below is the work of one agent: for each instruction its outcome, what was asked and the reply. Name qualities of the
agent that show in several instructions and that its soul does not state yet, as
{"traits": [{"trait": "expertise" | "principles" | "style" | "role", "value": "<one short sentence>",
  "observation": "<what you saw>", "instructions": ["i12", "i15", "i19"]}]}

- instructions: ids (in brackets) of at least three instructions that show it. Others are discarded.
- Describe how the agent works, not what a single task was about. Most answers are {"traits": []}."""

_LOW: Final[Mapping[str, int]] = {"expertise": 60}
"""Lists to which a short item may be added at low risk: what an agent knows. Other traits direct what it does."""
_WORD: Final = r"[^\W_\u0e00-\u109f\u1780-\u17ff\u2e80-\U0010ffff]{1,20}"
_PLAIN: Final = re.compile(rf"{_WORD}(?:[ ,+-]{{1,2}}{_WORD}){{0,2}}")
"""At most three short words, without paths, addresses, mentions or quotes, of a script that separates words: room for
the name of a field of knowledge, but hardly for a command."""


class ShownWork(NamedTuple):
    """Ended instruction in a question to a guard."""

    id: str
    message: str
    state: str
    trust: SourceClass
    space: str
    asked: str
    reply: str


class Suggestion(NamedTuple):
    """Suggested change of a soul, by its agent or by a guard; ``messages`` and ``risk`` are a guard's."""

    trait: str
    value: str
    observation: str
    messages: tuple[str, ...] = ()
    risk: SoulRisk = "significant"


class _Trait(msgspec.Struct, frozen=True):
    trait: str
    value: str
    observation: str
    instructions: tuple[str, ...]


class _Observation(msgspec.Struct, frozen=True):
    traits: tuple[_Trait, ...] = ()


def observe_question(work: Iterable[ShownWork], soul: str) -> str:
    """Build the guard's question about ``work`` of an agent with the ``soul``; everything is quoted."""
    parts = (
        f"[{one.id}] {one.state}, asked:\n{quoted(one.asked[:WORK_CHARACTERS])}\n"
        f"Reply:\n{quoted(one.reply[:WORK_CHARACTERS])}"
        for one in work
    )
    return "\n\n".join((OBSERVE, f"Its soul:\n{quoted(soul[:SOUL_CHARACTERS])}", *parts))


def observed(
    answer: str, work: Sequence[ShownWork], soul: Mapping[str, Any], known: Iterable[str]
) -> Iterator[Suggestion]:
    """Yield the suggestions of ``answer`` that pass all checks; ``known``: values that were suggested before."""
    shown = {one.id: one for one in work}
    trust = least(one.trust for one in work)  # the model saw all of it, whatever it cites
    seen = [shape_of(text) for text in known]
    for one in (read_answer(_Observation, answer) or _Observation()).traits[:MOST_OBSERVED]:
        cited = [shown[id_] for id_ in dict.fromkeys(one.instructions) if id_ in shown]
        try:
            value = one_line(one.value, TRAIT_CHARACTERS, "value")
            observation = one_line(one.observation, OBSERVATION_CHARACTERS, "observation")
            changed = evolved(soul, one.trait, value)
        except Refused:
            continue
        stated = (item for one_ in soul.values() for item in (one_ if isinstance(one_, list | tuple) else (one_,)))
        if len(cited) < FEWEST_CITED or nearly_same(shape_of(value), (*seen, *map(shape_of, map(str, stated)))):
            continue
        soul = changed
        outcomes = ", ".join(f"{each.id} {each.state}" for each in cited)
        risk = risk_of(soul, one.trait, value, trust)
        messages = tuple(each.message for each in cited)
        yield Suggestion(one.trait, value, f"{observation} (seen in {outcomes})", messages, risk)


def risk_of(soul: Mapping[str, Any], trait: str, value: str, trust: SourceClass) -> SoulRisk:
    """Return the risk of the new ``value`` in ``trait`` of ``soul``, suggested because of work of class ``trust``."""
    small = isinstance(soul[trait], list) and len(value) <= _LOW.get(trait, 0)
    return "low" if small and _PLAIN.fullmatch(value) and trust == "user" else "significant"
