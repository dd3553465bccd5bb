"""The choice of the instructions to lease next, and the lane of those that were preempted (promise P11). Pure.

Only age and preemption raise an instruction, or a person: never its text.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from protocol.instruction import LANES
from protocol.names import AgentKey, InstructionId

PREEMPTIONS: Final = 3
"""After so many a background instruction is a normal one."""

STARVATION_MS: Final = 300_000

_NORMAL: Final = LANES.index("normal")


def lane_after(lane: int, preempted: int) -> int:
    """The lane (index into LANES) of an instruction that was preempted so often."""
    return min(lane, _NORMAL) if preempted >= PREEMPTIONS else lane


def may_yield(promoted: bool, steps_in_attempt: int) -> bool:
    """Return whether an attempt that has just made an entry may be preempted.

    That entry is progress already. One that was promoted has suffered enough: it makes a whole step (a reply) first.
    """
    return not promoted or steps_in_attempt >= 1


class Candidate(msgspec.Struct, frozen=True):
    """An instruction that could be leased. ``lane`` is an index into LANES, ``number`` the order of arrival.

    ``provider`` is whose limit its worker counts against; "" where it is not known, which no limit is about.
    """

    id: InstructionId
    agent: AgentKey
    lane: int
    number: int
    provider: str = ""


class Limits(msgspec.Struct, frozen=True):
    """Limits of workers that live at once: in all, and for a provider: as named, else ``each_provider``."""

    workers: int
    per_provider: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    each_provider: int | None = None

    @property
    def by_provider(self) -> bool:
        """Return whether some that could run must wait while others, who came later, need not."""
        return bool(self.per_provider) or self.each_provider is not None


def choose(
    ready: Iterable[Candidate], running: Mapping[str, int], limits: Limits, busy: frozenset[str]
) -> tuple[Candidate, ...]:
    """Those to lease now, in order: more urgent lane first, then first come, at most one for each agent.

    ``running`` counts live workers by provider; ``busy`` are agents that have one. One whose provider has no room is
    passed over and keeps its place: it holds up nobody who asks another provider.
    """
    live = Counter(running)
    taken = set(busy)
    chosen: list[Candidate] = []
    for candidate in sorted(ready, key=lambda one: (one.lane, one.number)):
        if live.total() >= limits.workers:
            break
        # How many workers may call provider; one that is not known yet has no limit of its own.
        each = limits.each_provider if candidate.provider and limits.each_provider is not None else limits.workers
        full = live[candidate.provider] >= limits.per_provider.get(candidate.provider, each)
        if candidate.agent not in taken and not full:
            taken.add(candidate.agent)
            live[candidate.provider] += 1
            chosen.append(candidate)
    return tuple(chosen)
