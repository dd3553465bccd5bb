"""What an agent of the simulation does with a message: read from the message's own text, so that nothing is kept."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.sim.polls import asked_to_vote

_JOB: Final = re.compile(r"job (\S+): do (\d+)((?:; \w+(?: \w+)+)*)\.")


@dataclass(frozen=True, slots=True)
class Script:
    """``steps`` replies. At some of them a tool is called; ``pass_to`` is given a job by the last one."""

    label: str = "?"
    steps: int = 1
    touches: frozenset[int] = frozenset()
    tells: Mapping[int, str] = field(default_factory=dict)
    asks: Mapping[int, str] = field(default_factory=dict)
    risks: frozenset[int] = frozenset()
    """Steps at which something is called that somebody has to approve."""
    holds: frozenset[int] = frozenset()
    """The same, as a program does that keeps its call in its hand until it has the answer."""
    long: int | None = None
    """The step at which the thread is too long for the model, until it is made shorter."""
    pass_to: str | None = None
    polls: Mapping[int, int] = field(default_factory=dict)
    """Steps at which something is put to the vote, and what of tests.sim.polls."""
    votes: tuple[str, ...] = ()
    """What it is asked to vote on, with its first reply."""


def read_script(text: str) -> Script:
    """The last job of a message, since what stands before it was said earlier; and whatever it puts to the vote."""
    found = list(_JOB.finditer(text))
    votes = asked_to_vote(text)
    if not found:
        return Script(votes=votes)
    label, steps, rest = found[-1].groups()
    at: dict[str, set[int]] = {"touch": set(), "risk": set(), "hold": set()}
    tells: dict[int, str] = {}
    asks: dict[int, str] = {}
    polls: dict[int, int] = {}
    long: int | None = None
    pass_to: str | None = None
    for words in (part.split() for part in rest.split("; ")[1:]):
        match words:
            case [("touch" | "risk" | "hold") as word, step]:
                at[word].add(int(step))
            case ["tell", step, name]:
                tells[int(step)] = name
            case ["ask", step, name]:
                asks[int(step)] = name
            case ["poll", step, kind]:
                polls[int(step)] = int(kind)
            case ["long", step]:
                long = int(step)
            case ["pass", name]:
                pass_to = name
            case _:
                raise AssertionError(f"no such work: {words}")
    touches, risks, holds = (frozenset(places) for places in at.values())
    return Script(label, int(steps), touches, tells, asks, risks, holds, long, pass_to, polls, votes)
