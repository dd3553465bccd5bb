"""Selects the instructions to lease next, and the lane of preempted ones (promise P11). Pure.

Only age, preemption or a person raises the priority of an instruction; its text never does.

An attempt runs on the kernel's machine or on a node. An agent without requirements runs on the kernel's machine. An
agent that requires labels runs only on a node with these labels. An agent that requires only memory or GPUs runs on
the kernel's machine if they are free, else on any node that has them: its files are committed and can be transferred,
but the kernel's machine is nearest. The node that the agent used last is preferred, because its working tree is there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from protocol.instruction import LANES
from protocol.limits import PlaceNeeds
from protocol.names import AgentKey, InstructionId
from protocol.node import LEASE_SECONDS, MARGIN_SECONDS

HERE: Final = ""
"""Name of the kernel's own machine."""
FENCE_SECONDS: Final = LEASE_SECONDS + MARGIN_SECONDS
"""Longest time that a node may have processes from a previous kernel: its lease plus a margin."""
FULL: Final = "all suitable machines are busy"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Machine that can run attempts, with its total resources; unknown resources count as 0."""

    name: str
    workers: int
    labels: frozenset[str] = frozenset()
    connected: bool = True
    draining: bool = False
    memory_bytes: int = 0
    gpus: int = 0

    def lacks(self, needs: PlaceNeeds) -> str | None:
        """Return why the machine cannot satisfy ``needs`` at present, even when idle; None if it can."""
        missing = [label for label in needs.labels if label not in self.labels]
        lacks = (
            ("is not a node", self.name == HERE and bool(needs.labels)),
            (f"has no label {missing[0] if missing else ''}", bool(missing)),
            ("is not connected", not self.connected),
            ("is being drained", self.draining),
            ("allows no workers", self.workers < 1),
            (f"has {self.memory_bytes // 2**20} MiB of memory", (needs.memory or 0) > self.memory_bytes),
            (f"has {self.gpus} GPUs", needs.gpus > self.gpus),
        )
        return next((why for why, so in lacks if so), None)


class Load(msgspec.Struct, frozen=True):
    """Resources of a machine that its attempts use."""

    workers: int = 0
    memory_bytes: int = 0
    gpus: int = 0

    def plus(self, needs: PlaceNeeds) -> "Load":
        """Return the load with one more attempt."""
        return Load(self.workers + 1, self.memory_bytes + (needs.memory or 0), self.gpus + needs.gpus)

    def leaves_room(self, machine: Machine, needs: PlaceNeeds) -> bool:
        """Return whether an attempt with ``needs`` fits on ``machine`` beside this load."""
        if self.workers >= machine.workers:
            return False
        if needs.memory and self.memory_bytes + needs.memory > machine.memory_bytes:
            return False
        return not needs.gpus or self.gpus + needs.gpus <= machine.gpus


class Unplaced(msgspec.Struct, frozen=True):
    """Reason why no machine takes an attempt; FULL if only the end of other attempts is missing."""

    reason: str


def loads_of(running: Iterable[tuple[str, PlaceNeeds]]) -> dict[str, Load]:
    """Return the load of each machine by name; ``running`` has the machine and needs of each worker."""
    loads: dict[str, Load] = {}
    for name, needs in running:
        loads[name] = loads.get(name, Load()).plus(needs)
    return loads


def place(
    needs: PlaceNeeds, nodes: Iterable[Machine], running: Mapping[str, Load], prefer: str = HERE
) -> str | Unplaced:
    """Return the name of the machine (HERE: the kernel's own) for an attempt, or the reason why there is none.

    ``nodes`` are all machines including this one; ``running`` is the load of each.
    """
    fits: list[Machine] = []
    reasons: list[str] = []
    for node in nodes:
        if not needs and node.name != HERE:
            continue
        lacks = node.lacks(needs)
        if lacks is None:
            fits.append(node)
        elif node.name != HERE or not needs.labels:
            reasons.append(f"{node.name or 'this machine'} {lacks}")
    free = [one for one in fits if running.get(one.name, Load()).leaves_room(one, needs)]
    if not free:
        return Unplaced(FULL if fits else "; ".join(sorted(reasons)[:4]) or "no nodes are configured")

    def order(one: Machine) -> tuple[bool, bool, float, str]:
        away = prefer not in ("", one.name)
        return away, one.name != HERE, running.get(one.name, Load()).workers / one.workers, one.name

    return min(free, key=order).name


PREEMPTIONS: Final = 3
"""Preemptions after which a background instruction moves to the normal lane."""

STARVATION_MS: Final = 300_000

_NORMAL: Final = LANES.index("normal")


def lane_after(lane: int, preempted: int) -> int:
    """Return the lane (index into LANES) of an instruction after ``preempted`` preemptions."""
    return min(lane, _NORMAL) if preempted >= PREEMPTIONS else lane


def may_yield(promoted: bool, steps_in_attempt: int) -> bool:
    """Return whether an attempt that has just stored an entry may be preempted.

    The entry is progress that the preemption does not lose. A ``promoted`` instruction, which was
    preempted often, completes a whole step (a reply) first.
    """
    return not promoted or steps_in_attempt >= 1


class Candidate(msgspec.Struct, frozen=True):
    """Instruction that could be leased; ``lane`` is an index into LANES, ``number`` the order of arrival.

    ``provider`` is the provider whose limit counts its worker; "" if unknown, which no limit covers.
    """

    id: InstructionId
    agent: AgentKey
    lane: int
    number: int
    provider: str = ""
    needs: PlaceNeeds = PlaceNeeds()
    prefer: str = ""
    """Last node of its agent."""
    node: str = HERE
    """Machine on which it will run, after the choice."""


class WorkerLimits(msgspec.Struct, frozen=True):
    """Limits of concurrent workers: on this machine, and per provider on all machines.

    Providers that are not named use ``each_provider``.
    """

    workers: int
    per_provider: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    each_provider: int | None = None

    @property
    def by_provider(self) -> bool:
        """Return whether a provider has a limit, so that instructions may start out of order."""
        return bool(self.per_provider) or self.each_provider is not None


def choose(
    ready: Iterable[Candidate],
    running: Mapping[str, int],
    limits: WorkerLimits,
    busy: frozenset[str],
    machines: Sequence[Machine] = (),
    loads: Mapping[str, Load] | None = None,
) -> tuple[Candidate, ...]:
    """Return the instructions to lease now with their ``node``, at most one per agent.

    An instruction of a group is in ``ready`` once for each free instance; the first free one takes it.
    The order is by lane, then by arrival. ``running`` counts live workers by provider; ``busy`` are agents with a live
    worker. An instruction whose provider or machine is full is skipped and keeps its position, without blocking
    others. ``machines`` includes this one; ``loads`` are their loads, by default all running workers on this machine.
    """
    live, taken, begun, chosen = Counter(running), set(busy), set[str](), list[Candidate]()
    machines = machines or (Machine(name=HERE, workers=limits.workers),)
    used = {HERE: Load(workers=live.total())} if loads is None else dict(loads)
    for candidate in sorted(ready, key=lambda one: (one.lane, one.number)):
        if all(used.get(one.name, Load()).workers >= one.workers for one in machines):
            break
        # An unknown provider has no limit.
        known = limits.each_provider if candidate.provider else None
        most = limits.per_provider.get(candidate.provider, known)
        if candidate.agent in taken or candidate.id in begun or (most is not None and live[candidate.provider] >= most):
            continue
        where = place(candidate.needs, machines, used, candidate.prefer)
        if isinstance(where, Unplaced):
            continue
        taken.add(candidate.agent)
        begun.add(candidate.id)
        live[candidate.provider] += 1
        used[where] = used.get(where, Load()).plus(candidate.needs)
        chosen.append(msgspec.structs.replace(candidate, node=where))
    return tuple(chosen)


def homeless(ready: Iterable[Candidate], machines: Sequence[Machine]) -> dict[InstructionId, str]:
    """Return the instructions of ``ready`` that no machine could run even when idle, with the reasons."""
    found = ((one.id, place(one.needs, machines, {}, "")) for one in ready if one.needs)
    return {one: where.reason for one, where in found if isinstance(where, Unplaced) and where.reason != FULL}
