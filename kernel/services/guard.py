"""The guard: asks its model, takes up what it said, and has people, the owner or a vote decide about an agent's tray.

Whatever becomes of a question is one look at its instruction: done, it may fill trays, or a call that waits has its
answer; anything else is the end of it. While a call waits its agent's worker does not count against the limit, so that
a fleet in which everybody waits for the guard has a place for that.
"""

import logging
from collections import Counter
from collections.abc import Callable, Set
from typing import Final

import msgspec
import trio

from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.policy.guard import Extracted, extracted
from kernel.rule.draft import Author
from kernel.services.timers import reconcile
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, memory
from kernel.store.agents import AgentRecord
from kernel.store.attempts import Identity
from kernel.store.feed import Wake
from kernel.store.memory import GuardJob
from kernel.store.transitions.guarding import Question, ask_for_call, give_up, settle
from kernel.store.writer import Log
from protocol.agent_memory import Entry, Source
from protocol.api.souls import TrayReport, TrayRow
from protocol.errors import Refused
from protocol.guard import GuardSettings
from protocol.instruction import ENDED
from protocol.memory_files import Memory
from protocol.names import AgentKey, place_of

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"instruction.ended", "instruction.queued", "memory.proposed"})
FOREVER_SECONDS: Final = float("inf")
LATER_SECONDS: Final = 5.0
"""Before it looks again, where the store takes nothing."""
BY: Final = "guard"
ANSWER_SECONDS: Final = 20.0
"""So long a call waits for the model."""
REST_SECONDS: Final = 60.0
"""So long nobody waits for a guard that did not answer: no key, no money, no provider."""


class Guard(msgspec.Struct, eq=False, kw_only=True):
    """Settles questions to models, and what came of them."""

    contexts: PersonalContexts
    log: Log
    wake: Wake
    settings: Callable[[str], GuardSettings]
    """Returns those that count in a space."""
    answer_seconds: float = ANSWER_SECONDS
    _lock: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _over: dict[int, trio.Event] = {}
    """Questions that calls wait for, by job."""
    _asking: Counter[AgentKey] = msgspec.field(default_factory=Counter)
    _resting: dict[str, float] = {}
    """By place, until when its guard is not waited for."""

    async def run(self) -> None:
        """Settle until cancelled."""
        await reconcile(self.wake, self.run_once)

    async def run_once(self) -> float:
        """Settle every question that is over, or waits for what nobody will see to; write what votes took."""
        try:
            for job in self.log.reader.now(memory.open_jobs):
                if job.state in ENDED or job.state == "waiting":
                    await self._settle(job)
            for one in self.log.reader.now(memory.voted):
                try:
                    await self.decide(one.agent, one.id, approved=True, by=f"vote {one.vote}")
                except (Refused, BadDefinition) as why:  # it is tried again at the next look
                    logger.warning("guard.not_written %s of %s: %s", one.id, one.agent, why)
        except Refused as refused:
            logger.warning("guard.refused %s", refused.text)
            return LATER_SECONDS
        return FOREVER_SECONDS

    async def _settle(self, job: GuardJob) -> None:
        found: tuple[Extracted, ...] = ()
        if job.state == "done" and job.purpose == "extract":
            evidence = memory.evidence_of(job)
            known: dict[AgentKey, tuple[str, ...]] = {}
            for key in evidence.agents.values():
                files = await trio.to_thread.run_sync(self._memory, key, self.log.reader.now(agents.row, key))
                texts = (one.entry.value for one in files.kept)
                known[key] = (*texts, *await self.log.reader.read(memory.proposed, key))
            found = await trio.to_thread.run_sync(extracted, job.text, evidence, known)  # much may be known
        await self.log.writer.commit(settle, job, found)
        if (over := self._over.get(job.id)) is not None:
            over.set()

    def asking(self) -> Set[str]:
        """The agents that wait for a guard, and do nothing else."""
        return self._asking.keys()

    async def ask(self, identity: Identity, settings: GuardSettings, question: Question) -> GuardJob | None:
        """Ask the guard's model while a call of ``identity`` waits. None: there is no answer in time, or ever.

        Raises Refused (stale_attempt). Cancellation: the question goes on, and the same call finds it.
        """
        place = place_of(identity.space)
        if settings.model is None or trio.current_time() < self._resting.get(place, 0.0):
            return None
        self._asking[identity.agent] += 1
        try:
            author = Author(identity.instruction, identity.epoch)
            number = await self.log.writer.commit(ask_for_call, settings, question, author=author)
            job = None if number is None else await self._answered(number)
        finally:
            self._asking[identity.agent] -= 1
            self._asking += Counter()  # drops those that are at none
        if job is None or job.state != "done":
            self._resting[place] = trio.current_time() + REST_SECONDS
            return None
        return job

    async def _answered(self, number: int) -> GuardJob | None:
        over = self._over.setdefault(number, trio.Event())
        try:
            job = self.log.reader.now(memory.job_of, number)
            if job is None or job.settled:
                return job
            with trio.move_on_after(self.answer_seconds):
                await over.wait()
                return self.log.reader.now(memory.job_of, number)
            await self.log.writer.commit(give_up, number)
            return self.log.reader.now(memory.job_of, number)
        finally:
            self._over.pop(number, None)

    def _memory(self, key: AgentKey, record: AgentRecord | None) -> Memory:
        try:
            return self.contexts.memory(self.contexts.place(key, record))
        except (Refused, BadDefinition):
            return Memory((), ())

    async def report(self, key: AgentKey) -> TrayReport:
        """The tray of ``key``. Raises Refused (unknown_agent)."""
        self._check(key)
        return await self.log.reader.read(memory.tray_report, key)

    async def decide(self, key: AgentKey, name: str, *, approved: bool, by: str) -> TrayRow:
        """Take what is proposed into the memory of ``key``, or do not. Raises Refused.

        It is written first: who dies in between finds it in the memory, and the proposal still open.
        """
        self._check(key)
        async with self._lock:
            one = memory.check_open(await self.log.reader.read(memory.find_in_tray, key, name), approved=approved)
            if approved and one.state == "open":
                place = self.contexts.place(key, self.log.reader.now(agents.row, key))
                await trio.to_thread.run_sync(self._keep, place, one)
            return await self.log.writer.commit(memory.decide_in_tray, key, name, approved=approved, by=by)

    def _keep(self, place: ContextPlace, one: TrayRow) -> None:
        source = Source(messages=one.messages, class_=one.trust, by=BY)

        def change(memory: Memory) -> list[tuple[None, Entry]]:
            name, number = one.key, 1
            while (there := memory.find(name)) is not None:
                if there.entry.value == one.value:
                    return []
                number += 1
                name = f"{one.key[:120]}-{number}"  # what is known under that key stays
            return [(None, Entry(name, one.value, source=source, at=one.at))]

        self.contexts.change_memory(place, change)

    def _check(self, key: AgentKey) -> None:
        record = self.log.reader.now(agents.row, key)
        if record is None or record.origin == "inline":
            raise Refused("unknown_agent", f"there is no agent {key[:60]!r} that remembers", "awk ls lists the agents")
