"""The choice of the instructions to lease next, and the lane of those that were preempted (promise P11). Pure.

Only age and preemption raise an instruction, or a person: never its text.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kernel.policy.placement import FULL, HERE, Load, Machine, Unplaced, place
from protocol.instruction import LANES
from protocol.names import AgentKey, InstructionId
from protocol.placement import PlaceNeeds

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
    needs: PlaceNeeds = PlaceNeeds()
    prefer: str = ""
    """The node that its agent worked on last."""
    node: str = HERE
    """Where it is to run, once it is chosen."""


class Limits(msgspec.Struct, frozen=True):
    """Limits of workers that live at once: on this machine, and for a provider, wherever they are: as named, else
    ``each_provider``.
    """

    workers: int
    per_provider: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    each_provider: int | None = None

    @property
    def by_provider(self) -> bool:
        """Return whether some that could run must wait while others, who came later, need not."""
        return bool(self.per_provider) or self.each_provider is not None


def choose(
    ready: Iterable[Candidate],
    running: Mapping[str, int],
    limits: Limits,
    busy: frozenset[str],
    machines: Sequence[Machine] = (),
    loads: Mapping[str, Load] | None = None,
) -> tuple[Candidate, ...]:
    """Those to lease now, each with its ``node``, in order: more urgent lane first, then first come, at most one for
    each agent.

    ``running`` counts live workers by provider; ``busy`` are agents that have one. One whose provider has no room, or
    that no machine has room for, is passed over and keeps its place: it holds up nobody who asks for something else.
    ``machines``: this one and the nodes, ``loads`` what is taken there; without, all that runs is here.
    """
    live, taken, chosen = Counter(running), set(busy), list[Candidate]()
    machines = machines or (Machine(name=HERE, workers=limits.workers),)
    used = {HERE: Load(workers=live.total())} if loads is None else dict(loads)
    for candidate in sorted(ready, key=lambda one: (one.lane, one.number)):
        if all(used.get(one.name, Load()).workers >= one.workers for one in machines):
            break
        # How many workers may call provider; one that is not known yet has no limit of its own.
        known = limits.each_provider if candidate.provider else None
        most = limits.per_provider.get(candidate.provider, known)
        if candidate.agent in taken or (most is not None and live[candidate.provider] >= most):
            continue
        where = place(candidate.needs, machines, used, candidate.prefer)
        if isinstance(where, Unplaced):
            continue
        taken.add(candidate.agent)
        live[candidate.provider] += 1
        used[where] = used.get(where, Load()).plus(candidate.needs)
        chosen.append(msgspec.structs.replace(candidate, node=where))
    return tuple(chosen)


def homeless(ready: Iterable[Candidate], machines: Sequence[Machine]) -> dict[InstructionId, str]:
    """Those of ``ready`` that no machine there is could take even if nothing ran there, each with the reason."""
    found = ((one.id, place(one.needs, machines, {}, "")) for one in ready if one.needs)
    return {one: where.reason for one, where in found if isinstance(where, Unplaced) and where.reason != FULL}
