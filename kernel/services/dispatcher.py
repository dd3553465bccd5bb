"""Dispatcher: selects ready instructions, leases them and starts attempts; one for all agents.

It is level-triggered: it reads the instructions after each change and before it sleeps, so no
wake-up is lost (fault TF09). It never polls: an idle kernel sleeps until the next ``not_before``.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from functools import partial
from typing import Final

import msgspec
import trio

from kernel.policy.scheduling import HERE, Candidate, Load, Machine, WorkerLimits, choose, loads_of
from kernel.rule.draft import Draft
from kernel.services.attempts import Attempts
from kernel.services.handover import HandedAttempt
from kernel.services.kept_workers import WorkerPlace
from kernel.services.running_attempt import RunningAttempt
from kernel.services.work_places import NodeSearch
from kernel.store import instructions
from kernel.store.database import Reader
from kernel.store.feed import Wake
from kernel.store.idempotency import RequestKey
from kernel.store.transitions.append import Appended
from kernel.store.transitions.lease import some_queued
from protocol.errors import Refused
from protocol.message import Event
from protocol.names import AgentKey, is_personal, split_space
from protocol.project import ProjectLimits

logger = logging.getLogger(__name__)

LONGEST_NAP_SECONDS: Final = 60.0
CANCEL_GRACE_SECONDS: Final = 2.0
ROOM_GRACE_SECONDS: Final = 10.0
"""Time for a CLI to end its child processes and to save its session."""
REFUSED_PAUSE_SECONDS: Final = 1.0
"""Delay before an agent's next lease after a storage failure or a bug."""
PRESSED_NAP_SECONDS: Final = 1.0
"""Interval of checks while memory is short or the project folder is missing, because neither sends a wake-up."""
LOOKED_AT: Final = 1000
"""Maximum agents considered at once if limits per provider apply."""


def leads_to_nothing(event: Event) -> bool:
    """Return whether ``event`` makes no work ready: after done work, the place is still in use."""
    return event.type == "instruction.ended" and event.data["status"] == "done"


def limits_of(limits: ProjectLimits) -> WorkerLimits:
    """Return the worker limits of the project file."""
    if isinstance(limits.per_provider, dict):
        return WorkerLimits(limits.workers, limits.per_provider)
    return WorkerLimits(limits.workers, each_provider=limits.per_provider)


class Dispatcher(msgspec.Struct, eq=False, kw_only=True):
    """Starts attempts within the worker limit, one per agent, and stops attempts of ended work.

    ``pressed`` returns whether memory is too short for another worker. ``asking`` returns the
    agents whose call waits for the guard. ``search`` finds machines; without it, only this machine
    is used. While ``project_fault`` returns a text, no work is leased.
    """

    reader: Reader
    wake: Wake
    attempts: Attempts
    limits: WorkerLimits
    pressed: Callable[[], bool]
    now_ms: Callable[[], int]
    asking: Callable[[], Set[str]] = frozenset
    search: NodeSearch | None = None
    project_fault: Callable[[], str | None] = lambda: None
    _busy: dict[str, WorkerPlace] = {}
    """Places of agents with an attempt, from its selection until its process tree has exited."""
    _less_busy: trio.Event = msgspec.field(default_factory=trio.Event)
    _nursery: trio.Nursery | None = None
    """Open while the dispatcher leases work."""
    _some_wait: bool = False
    """In the last round, ready work may have found no free place."""
    _closed: bool = False
    _held_back: bool = False
    """No work is leased for now, because an upgrade is about to replace the kernel process."""
    _adopted: list[tuple[WorkerPlace, RunningAttempt]] = []
    """Attempts from the previous kernel process that are not yet run."""
    _short_of_memory: bool = False
    running: bool = False
    """True while the dispatcher leases work."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Dispatch until ``drain`` is called and all attempts have ended."""
        async with trio.open_nursery() as nursery:
            await self.dispatch(nursery, task_status=task_status)

    async def dispatch(
        self, nursery: trio.Nursery, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Dispatch until ``drain`` is called; attempts run in ``nursery`` and survive failures here."""
        self.running = True
        self._nursery = nursery
        adopted, self._adopted = self._adopted, []
        for place, attempt in adopted:
            nursery.start_soon(self._attempt, place, attempt.leased.instruction, partial(self.attempts.run, attempt))
        task_status.started()
        while not self._closed:
            self.wake.clear()
            self.run_once(nursery)
            with trio.move_on_after(self.nap_seconds()):
                await self.wake.wait()
        await self._all_left()

    def run_once(self, nursery: trio.Nursery) -> int:
        """Start ready work in ``nursery``, and return the number of started attempts."""
        self._stop_orphaned()
        if self._held_back or self.project_fault() is not None:
            return 0
        machines = self._machines()
        counted, loads = self._counted(everything=len(machines) > 1)
        self._some_wait = True
        if all(loads.get(one.name, Load()).workers >= one.workers for one in machines):
            # Unplaceable work is reported even without a free place.
            if self.search is not None and self.search.is_due():
                self._seek(self.reader.now(instructions.ready, self.now_ms(), LOOKED_AT), machines, nursery)
            return 0
        self._make_room()
        ready = self._ready(len(machines) > 1)
        self._some_wait = any(not one.needs for one in ready)
        self._seek(ready, machines, nursery)
        if not ready:
            return 0
        self._short_of_memory = self._working_here > 0 and self.pressed()
        if self._short_of_memory:  # an agent keeps running, because only ended work frees memory
            machines = tuple(msgspec.structs.replace(one, workers=0) if one.name == HERE else one for one in machines)
        chosen = choose(ready, counted, self.limits, frozenset(self._busy), machines, loads)
        taken = {pick.agent for pick in chosen}
        self._some_wait = any(one.agent not in self._busy and one.agent not in taken and not one.needs for one in ready)
        for pick in chosen:
            place = self._take(pick.agent, pick)
            nursery.start_soon(self._attempt, place, pick.id, partial(self.attempts.lease, pick.id, place))
        return len(chosen)

    def _seek(self, ready: Sequence[Candidate], machines: Sequence[Machine], nursery: trio.Nursery) -> None:
        """Park ready work that no machine could run for a minute; resume work that has one."""
        if self.search is not None and self.search.look(ready, machines):
            nursery.start_soon(self.search.settle)

    def _machines(self) -> tuple[Machine, ...]:
        if self.search is None:
            return (Machine(name=HERE, workers=self.limits.workers),)
        return tuple(
            msgspec.structs.replace(one, workers=self.limits.workers) if one.name == HERE else one
            for one in self.search.machines()
        )

    def _ready(self, nodes: bool) -> tuple[Candidate, ...]:
        """Return ready work, including work behind instructions that may find no place."""
        now_ms = self.now_ms()
        if not nodes and not self.limits.by_provider:
            ready = self.reader.now(instructions.ready, now_ms, self.limits.workers)
            # The first instruction of a group has several rows, which may hide instructions of other agents.
            if not any(one.needs for one in ready) and len({one.id for one in ready}) == len(ready):
                return ready
        return self.reader.now(instructions.ready, now_ms, LOOKED_AT)

    @property
    def _working_here(self) -> int:
        return sum(1 for place in self._busy.values() if place.node == HERE)

    async def append(self, draft: Draft, request: RequestKey | None) -> Appended:
        """Append a message from outside, and lease the work in the same commit if its agent is free.

        Raises Refused, StorageFailed. After a cancellation the message may have been appended, and leased work runs.
        """
        nursery, agent = self._nursery, AgentKey(split_space(draft.space)[1])
        if nursery is None or self._held_back or not is_personal(draft.space) or not self._has_place(agent):
            return await self.attempts.append(draft, request)
        place = self._take(agent, None)
        attempt: RunningAttempt | None = None
        try:
            appended, attempt = await self.attempts.append_and_lease(draft, request, place)
        finally:
            if attempt is None:  # no attempt started; the previous one may still occupy the place
                if place.before is not None and not place.before.left.is_set():
                    self._busy[agent] = place.before
                else:
                    place.leave()
        if attempt is not None:
            nursery.start_soon(self._attempt, place, attempt.leased.instruction, partial(self.attempts.run, attempt))
        return appended

    def _has_place(self, agent: AgentKey) -> bool:
        """Return whether ``agent`` may start now without overtaking a waiting agent."""
        waits = self.wake.is_on or self._some_wait or self.limits.by_provider
        if waits or self.project_fault() is not None:
            return False
        last = self._busy.get(agent)
        if last is not None:
            return last.replied
        here = self._working_here
        return here < self.limits.workers and not (here and self.pressed())

    def _take(self, agent: AgentKey, pick: Candidate | None) -> WorkerPlace:
        place = self._busy[agent] = WorkerPlace(agent, pick, self._busy.get(agent), self._on_left)
        return place

    def _on_left(self, place: WorkerPlace) -> None:
        if self._busy[place.agent] is place:
            del self._busy[place.agent]
            left, self._less_busy = self._less_busy, trio.Event()
            left.set()
            if self._something_queued():
                self.wake.set()

    def _something_queued(self) -> bool:
        # A useless read of all rows would delay the lease of a message that arrives meanwhile.
        try:
            return self.reader.now(some_queued)
        except Exception:
            logger.exception("dispatcher.look_failed")
            return True  # the next round will show the error

    def _counted(self, *, everything: bool) -> tuple[Mapping[str, int], Mapping[str, Load]]:
        """Return the number of busy agents per provider, and the load of each machine.

        Agents whose call waits for a person or the guard count against no worker limit, but keep
        their resources. Without ``everything``, such agents are looked up only if no place is free.
        """
        kept: Set[str] = frozenset()
        if everything or self.limits.by_provider or len(self._busy) >= self.limits.workers:
            kept = self.reader.now(instructions.waiting) | self.asking()
        loads = loads_of((place.node, place.needs) for place in self._busy.values())
        for agent in kept & self._busy.keys():
            node = self._busy[agent].node
            loads[node] = msgspec.structs.replace(loads[node], workers=loads[node].workers - 1)
        return Counter(place.provider for agent, place in self._busy.items() if agent not in kept), loads

    def take_over(self, handed: Sequence[HandedAttempt]) -> None:
        """Register attempts of the previous kernel process; ``dispatch`` runs them first."""
        for one in handed:
            leased = one.leased
            pick = Candidate(leased.instruction, leased.agent, lane=0, number=0, provider=one.provider, needs=one.needs)
            place = self._take(leased.agent, pick)
            self._adopted.append((place, self.attempts.adopt(one, place)))

    def hold_back(self) -> None:
        """Stop leasing until ``go_on``; running attempts continue and messages are stored."""
        self._held_back = True

    def go_on(self) -> None:
        """Resume leasing."""
        self._held_back = False
        self.wake.set()

    def unsettled(self) -> int:
        """Return the number of agents whose attempt is being selected, leased or ended."""
        working = {attempt.leased.agent for attempt in self.attempts.running.values()}
        following = sum(place.before is not None for place in self._busy.values())
        return len(working ^ self._busy.keys()) + following + self.attempts.leasing

    async def drain(self, grace_seconds: float) -> None:
        """Stop leasing, ask all workers to leave, and return when all process trees have exited."""
        self._closed = True
        self._nursery = None
        self.running = False
        self.wake.set()
        self.attempts.stop_all(grace_seconds)
        await self._all_left()

    async def _all_left(self) -> None:
        while self._busy:
            await self._less_busy.wait()

    async def _attempt(self, place: WorkerPlace, what: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run one attempt in ``place``; a failure does not affect the others (promise P9)."""
        try:
            await run()
        except Refused as refused:
            logger.warning("lease.refused %s: %s", what, refused.text)
            await trio.sleep(REFUSED_PAUSE_SECONDS)
        except Exception:
            logger.exception("attempt.lost %s", what)
            await trio.sleep(REFUSED_PAUSE_SECONDS)
        finally:
            try:
                await place.free()
                place.leave()
            finally:
                if place.kept is not None:
                    await self.attempts.kept.watch(place.kept)

    def _stop_orphaned(self) -> None:
        working: list[RunningAttempt] = [
            attempt for attempt in self.attempts.running.values() if not attempt.completing
        ]
        if not working:
            return
        held = self.reader.now(instructions.live)
        for attempt in working:
            state = held.get(attempt.leased.instruction)
            if state is None:
                attempt.stop("cancelled", CANCEL_GRACE_SECONDS)
            elif state == "stopped":
                attempt.stop("stopped", CANCEL_GRACE_SECONDS)

    def _make_room(self) -> None:
        held = [one for one in self.attempts.running.values() if one.deadline.is_paused and not one.completing]
        keeping = self.reader.now(instructions.blocking, self.now_ms()) if held else ()
        for attempt in held:
            if attempt.leased.instruction in keeping:
                attempt.stop("made room", ROOM_GRACE_SECONDS)

    def nap_seconds(self) -> float:
        """Return the seconds until the next ``not_before``, at most a minute."""
        now_ms = self.now_ms()
        due_ms = self.reader.now(instructions.next_due_ms, now_ms)
        looks = self._short_of_memory or self.project_fault() is not None
        longest = PRESSED_NAP_SECONDS if looks else LONGEST_NAP_SECONDS
        sought_ms = None if self.search is None else self.search.due_ms()
        times = [one for one in (due_ms, sought_ms) if one is not None]
        return max(0.0, min((min(times) - now_ms) / 1000, longest)) if times else longest
