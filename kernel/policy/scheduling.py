"""The choice of the instructions to lease next, and the lane of those that were preempted (promise P11). Pure.

Only age and preemption raise an instruction, or a person: never its text.

The machine that an attempt runs on is the kernel's own, a node, or none for now. An agent that asks for nothing runs
here. One that asks for labels runs on a node that has them all and nowhere else. One that asks for memory or GPUs alone
stays here where this machine has them free, else it goes to any node that has them: what it was given is committed and
travels, but nothing is nearer than here. A node that worked for the agent before comes first, wherever it has room: the
agent's tree is there.
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
"""The name of the kernel's own machine."""
FENCE_SECONDS: Final = LEASE_SECONDS + MARGIN_SECONDS
"""The longest for which a node may have processes that a kernel before this one gave it: its lease, and a second."""
FULL: Final = "every machine that has what it needs is at work"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that work may be given to: what it has in all. Where that is not known it has none of it."""

    name: str
    workers: int
    labels: frozenset[str] = frozenset()
    connected: bool = True
    draining: bool = False
    memory_bytes: int = 0
    gpus: int = 0

    def lacks(self, needs: PlaceNeeds) -> str | None:
        """Return what keeps it from ever taking who needs this, as it is now; None: nothing does."""
        missing = [label for label in needs.labels if label not in self.labels]
        lacks = (
            ("is no node", self.name == HERE and bool(needs.labels)),
            (f"has no label {missing[0] if missing else ''}", bool(missing)),
            ("is not connected", not self.connected),
            ("is being drained", self.draining),
            ("takes no workers", self.workers < 1),
            (f"has {self.memory_bytes // 2**20} MiB of memory", (needs.memory or 0) > self.memory_bytes),
            (f"has {self.gpus} GPUs", needs.gpus > self.gpus),
        )
        return next((why for why, so in lacks if so), None)


class Load(msgspec.Struct, frozen=True):
    """The part of a machine that is taken by all that runs there."""

    workers: int = 0
    memory_bytes: int = 0
    gpus: int = 0

    def plus(self, needs: PlaceNeeds) -> "Load":
        """The same with one more."""
        return Load(self.workers + 1, self.memory_bytes + (needs.memory or 0), self.gpus + needs.gpus)

    def leaves_room(self, machine: Machine, needs: PlaceNeeds) -> bool:
        """Return whether one more fits on ``machine`` beside this."""
        if self.workers >= machine.workers:
            return False
        if needs.memory and self.memory_bytes + needs.memory > machine.memory_bytes:
            return False
        return not needs.gpus or self.gpus + needs.gpus <= machine.gpus


class Unplaced(msgspec.Struct, frozen=True):
    """Nowhere for now. ``reason`` is FULL where it only has to wait for others to leave."""

    reason: str


def loads_of(running: Iterable[tuple[str, PlaceNeeds]]) -> dict[str, Load]:
    """Return what is taken of each machine, by its name: ``running`` is where each worker is and what it needs."""
    loads: dict[str, Load] = {}
    for name, needs in running:
        loads[name] = loads.get(name, Load()).plus(needs)
    return loads


def place(
    needs: PlaceNeeds, nodes: Iterable[Machine], running: Mapping[str, Load], prefer: str = HERE
) -> str | Unplaced:
    """Return the name of the machine (HERE: the kernel's own) for one more who ``needs`` this, or why there is none.

    ``nodes`` are all machines, this one too; ``running`` is what is taken of each.
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
        return Unplaced(FULL if fits else "; ".join(sorted(reasons)[:4]) or "there are no nodes")

    def order(one: Machine) -> tuple[bool, bool, float, str]:
        away = prefer not in ("", one.name)
        return away, one.name != HERE, running.get(one.name, Load()).workers / one.workers, one.name

    return min(free, key=order).name


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


class WorkerLimits(msgspec.Struct, frozen=True):
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
    limits: WorkerLimits,
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
