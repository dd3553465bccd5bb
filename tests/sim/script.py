"""What an agent of the simulation does with a message: read from the message's own text, so that nothing is kept."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_JOB: Final = re.compile(r"job (\S+): do (\d+)((?:; \w+(?: \w+)+)*)\.")


@dataclass(frozen=True, slots=True)
class Script:
    """``steps`` replies. At some of them a tool is called; ``pass_to`` is given a job by the last one."""

    label: str = "?"
    steps: int = 1
    touches: frozenset[int] = frozenset()
    tells: Mapping[int, str] = field(default_factory=dict)
    asks: Mapping[int, str] = field(default_factory=dict)
    long: int | None = None
    """The step at which the thread is too long for the model, until it is made shorter."""
    pass_to: str | None = None


def read_script(text: str) -> Script:
    """The last job of a message: what stands before it was said earlier."""
    found = list(_JOB.finditer(text))
    if not found:
        return Script()
    label, steps, rest = found[-1].groups()
    touches: set[int] = set()
    tells: dict[int, str] = {}
    asks: dict[int, str] = {}
    long: int | None = None
    pass_to: str | None = None
    for words in (part.split() for part in rest.split("; ")[1:]):
        match words:
            case ["touch", step]:
                touches.add(int(step))
            case ["tell", step, name]:
                tells[int(step)] = name
            case ["ask", step, name]:
                asks[int(step)] = name
            case ["long", step]:
                long = int(step)
            case ["pass", name]:
                pass_to = name
            case _:
                raise AssertionError(f"no such work: {words}")
    return Script(label, int(steps), frozenset(touches), tells, asks, long, pass_to)
