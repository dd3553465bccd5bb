"""Which waiting instructions to lease next."""

from collections.abc import Iterable
from dataclasses import dataclass

from protocol.names import AgentKey, InstructionId


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instruction that could be leased. ``lane`` is an index into LANES, ``number`` the order of arrival."""

    id: InstructionId
    agent: AgentKey
    lane: int
    number: int


def choose(ready: Iterable[Candidate], free_slots: int, busy: frozenset[str]) -> tuple[Candidate, ...]:
    """Those to lease now, in order: more urgent lane first, then first come, at most one for each agent."""
    taken = set(busy)
    chosen: list[Candidate] = []
    for candidate in sorted(ready, key=lambda one: (one.lane, one.number)):
        if len(chosen) >= free_slots:
            break
        if candidate.agent not in taken:
            taken.add(candidate.agent)
            chosen.append(candidate)
    return tuple(chosen)
