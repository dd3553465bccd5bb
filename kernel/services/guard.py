"""The guard: takes up what its model said of a run, and has people, or its owner, decide about an agent's tray.

Whatever becomes of a question is one look at its instruction: done, it may fill trays; anything else is the end of it.
"""

import logging
from typing import Final

import trio

from kernel.agents.personal_context import PersonalContexts
from kernel.policy.guard import Extracted, extracted
from kernel.services.timers import reconcile
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, tray
from kernel.store.feed import Wake
from kernel.store.reader import Reader
from kernel.store.transitions.guarding import settle
from kernel.store.tray import GuardJob
from kernel.store.writer import Writer
from protocol.agent_memory import Entry, Source
from protocol.api.tray import TrayReport, TrayRow
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.memory_files import Memory
from protocol.names import AgentKey

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"instruction.ended", "instruction.queued"})
FOREVER_SECONDS: Final = float("inf")
LATER_SECONDS: Final = 5.0
"""Before it looks again, where the store takes nothing."""
BY: Final = "guard"


class Guard:
    """Settles questions to models, and what came of them."""

    def __init__(self, *, contexts: PersonalContexts, reader: Reader, writer: Writer, wake: Wake) -> None:
        self._contexts = contexts
        self._reader = reader
        self._writer = writer
        self._wake = wake
        self._lock = trio.Lock()

    async def run(self) -> None:
        """Settle until cancelled."""
        await reconcile(self._wake, self.run_once)

    async def run_once(self) -> float:
        """Settle every question that is over, or waits for what nobody will see to."""
        try:
            for job in self._reader.now(tray.open_jobs):
                if job.state in ENDED or job.state == "waiting":
                    await self._settle(job)
        except Refused as refused:
            logger.warning("guard.refused %s", refused.text)
            return LATER_SECONDS
        return FOREVER_SECONDS

    async def _settle(self, job: GuardJob) -> None:
        found: tuple[Extracted, ...] = ()
        if job.state == "done":
            evidence = tray.evidence_of(job)
            known: dict[AgentKey, tuple[str, ...]] = {}
            for key in evidence.agents.values():
                memory = await trio.to_thread.run_sync(self._memory, key)
                texts = (one.entry.value for one in memory.kept)
                known[key] = (*texts, *await self._reader.read(tray.proposed, key))
            found = extracted(job.text, evidence, known)
        await self._writer.commit(settle, job, found)

    def _memory(self, key: AgentKey) -> Memory:
        try:
            return self._contexts.memory(self._contexts.place(key, self._reader.now(agents.row, key)))
        except (Refused, BadDefinition):
            return Memory((), ())

    async def report(self, key: AgentKey) -> TrayReport:
        """The tray of ``key``. Raises Refused (unknown_agent)."""
        self._check(key)
        return await self._reader.read(tray.report, key)

    async def decide(self, key: AgentKey, name: str, *, approved: bool, by: str) -> TrayRow:
        """Take what is proposed into the memory of ``key``, or do not. Raises Refused.

        It is written first: who dies in between finds it in the memory, and the proposal still open.
        """
        self._check(key)
        async with self._lock:
            one = tray.check_open(await self._reader.read(tray.find, key, name), approved=approved)
            if approved and one.state == "open":
                await trio.to_thread.run_sync(self._keep, key, one)
            return await self._writer.commit(tray.decide, key, name, approved=approved, by=by)

    def _keep(self, key: AgentKey, one: TrayRow) -> None:
        source = Source(messages=one.messages, class_=one.trust, by=BY)
        place = self._contexts.place(key, self._reader.now(agents.row, key))

        def change(memory: Memory) -> list[tuple[None, Entry]]:
            name, number = one.key, 1
            while (there := memory.find(name)) is not None:
                if there.entry.value == one.value:
                    return []
                number += 1
                name = f"{one.key[:120]}-{number}"  # what is known under that key stays
            return [(None, Entry(name, one.value, source=source, at=one.at))]

        self._contexts.change_memory(place, change)

    def _check(self, key: AgentKey) -> None:
        record = self._reader.now(agents.row, key)
        if record is None or record.origin == "inline":
            raise Refused("unknown_agent", f"there is no agent {key[:60]!r} that remembers", "awk ls lists the agents")
