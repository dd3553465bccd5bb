"""The guard of agents' memory, with its questions to a model and its trays.

A question to the model is an instruction. Its answer fills trays, about which people, the owner or a vote decide, or
answers a waiting call; any other end has no effect. While a call waits, its agent's worker does not count against the
worker limit, so that the guard always has a place. Quiet conversations and agents with enough new work are found in
rows: no message waits for a search, and a killed kernel loses none.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Final

import msgspec
import trio

from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.agents.soul import soul_text
from kernel.policy.curation import chosen, recall_question
from kernel.policy.guard import AUTO, FULL, KIND_FILES, NAME, Extracted, extracted
from kernel.policy.observing import OBSERVED, observed
from kernel.rule.draft import Author
from kernel.services.souls import Souls
from kernel.services.timers import reconcile
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, memory, souls
from kernel.store.agents import AgentRecord
from kernel.store.attempts import Identity
from kernel.store.decisions import MEMORY, SOUL
from kernel.store.feed import Wake
from kernel.store.memory import GuardJob
from kernel.store.souls import SoulStanding
from kernel.store.transaction import Transaction
from kernel.store.transitions.guarding import (
    GuardQuestion,
    ask_about_work,
    ask_for_call,
    ask_guard,
    end_job,
    give_up,
    settle,
)
from kernel.store.transitions.lease import Leased
from kernel.store.writer import StoreLog
from protocol.agent_memory import SUFFIX, Entry, Source
from protocol.api.souls import TrayReport, TrayRow
from protocol.errors import Refused
from protocol.instruction import ENDED
from protocol.memory_files import Memory, StoredEntry
from protocol.message import Event
from protocol.names import AgentKey, is_personal, personal_space, place_of
from protocol.project import GuardSettings
from protocol.text import encode_json

logger = logging.getLogger(__name__)

WAKING: Final = frozenset({"instruction.ended", "instruction.queued", "memory.proposed"})
HOME: Final = place_of(personal_space(NAME))
LOOK_SECONDS: Final = 60.0
"""Longest interval between two searches: personal work of other agents wakes no guard."""
LATER_SECONDS: Final = 5.0
"""Retry delay if the store refuses commits."""
GATHER_SECONDS: Final = 1.0
"""Shortest interval between two searches for quiet conversations and new work."""
PAUSE_SECONDS: Final = 300.0
"""Time before a failed question or write is repeated."""
FILE_ENTRIES: Final = 200
"""Entries in one file of a kind; further ones go into the next file."""
BY: Final = "guard"
ANSWER_SECONDS: Final = 20.0
"""Time limit for the model's answer to a waiting call."""
REST_SECONDS: Final = 60.0
"""Time during which calls skip a guard that did not answer (no key, no money, no provider)."""


def concerns_no_guard(event: Event) -> bool:
    """Return whether ``event`` is about personal work of another agent, which answers no question and casts no vote."""
    is_work = event.type.startswith("instruction.") and event.space is not None
    return is_work and event.space != HOME and is_personal(event.space or "")


def memory_of(contexts: PersonalContexts, key: AgentKey, record: AgentRecord | None) -> Memory:
    """Return the memory of ``key``; an unreadable one is empty. Blocks: call it in a thread."""
    try:
        return contexts.memory(contexts.place(key, record))
    except (Refused, BadDefinition):
        return Memory((), ())


class MemoryGuard(msgspec.Struct, eq=False, kw_only=True):
    """Settles the questions to guards' models, and decides about proposed memories."""

    contexts: PersonalContexts
    log: StoreLog
    wake: Wake
    souls: Souls
    settings: Callable[[str], GuardSettings]
    """Returns the guard settings of a space."""
    answer_seconds: float = ANSWER_SECONDS
    _lock: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _over: dict[int, trio.Event] = {}
    """Events of questions that calls wait for, by job."""
    _asking: Counter[AgentKey] = msgspec.field(default_factory=Counter)
    _resting: dict[str, float] = {}
    """End of the pause of a guard, by place."""
    _tried: dict[str, int | str] = {}
    """Question by space or agent that is not repeated until something is new, because the guard could not be asked."""
    paused: dict[str, float] = {}
    """End of the pause after a failure, by space of the question or agent of the memory."""
    _look_at: float = 0.0

    async def run(self) -> None:
        """Settle questions until cancelled."""
        await reconcile(self.wake, self.run_once)

    async def run_once(self) -> float:
        """Settle ended questions, write approved entries, ask new questions; return seconds to wait."""
        try:
            for job in self.log.reader.now(memory.open_jobs):
                if job.state in ENDED or job.state == "waiting":
                    await self._settle(job)
            for one in self.log.reader.now(memory.voted):
                if self._pauses(one.agent):
                    continue
                try:
                    by = AUTO.strip("()") if one.vote == AUTO else f"vote {one.vote}"
                    await self.decide(one.agent, one.id, approved=True, by=by)
                except (Refused, BadDefinition) as why:
                    self.paused[one.agent] = trio.current_time() + PAUSE_SECONDS
                    logger.warning("guard.not_written %s of %s: %s", one.id, one.agent, why)
            rest = self._look_at - trio.current_time()
            return rest if rest > 0 else await self._look()
        except Refused as refused:
            logger.warning("guard.refused %s", refused.text)
            return LATER_SECONDS

    def _pauses(self, name: str) -> bool:
        return trio.current_time() < self.paused.get(name, 0.0)

    async def _look(self) -> float:
        """Ask about quiet conversations and agents with new work; return the seconds until the next is due."""
        self._look_at = trio.current_time() + GATHER_SECONDS
        project, reader = self.settings(personal_space(NAME)), self.log.reader
        wait = min(LOOK_SECONDS, project.quiet)
        for space in await reader.read(memory.conversations):
            settings = project if is_personal(space) else self.settings(space)
            if settings.model is None or not settings.auto_store or self._pauses(space):
                continue
            due_ms = reader.now(memory.question_due_ms, space=space, quiet_ms=int(settings.quiet * 1000), full=FULL)
            if due_ms is None or self._tried.get(space) == due_ms:
                continue
            if (left := (due_ms - self.log.now_ms()) / 1000) > 0:
                wait = min(wait, left)
            elif not await self.log.writer.commit(ask_guard, space, settings):
                self._tried[space] = due_ms
        if project.model is not None and project.observe and project.soul_evolution != "disabled":
            for agent, numbers in (await reader.read(memory.unobserved, observed=OBSERVED)).items():
                if self._tried.get(agent) != numbers:
                    ask = partial(ask_about_work, agent=agent, numbers=numbers, settings=project)
                    await self._change_soul(agent, ask)
                    self._tried[agent] = numbers
        return wait

    async def _change_soul(self, agent: AgentKey, job: Callable[[Transaction, SoulStanding], None]) -> bool:
        """Commit ``job``; return False if ``agent`` has no valid soul. Raises Refused: the store refuses commits."""
        try:
            await self.souls.change(agent, job)
        except (Refused, BadDefinition) as why:
            if not isinstance(why, BadDefinition) and why.code != "unknown_agent":
                raise
            logger.warning("guard.no_soul %s: %s", agent, why)
            return False
        return True

    async def _observed(self, job: GuardJob) -> bool:
        """Store the suggestions of a question about an agent's work; return False if it has no valid soul."""
        evidence = memory.evidence_of(job)
        (agent,) = evidence.agents.values()
        work = self.log.reader.now(memory.work_shown, encode_json(tuple(evidence.classes)).decode())
        known = [one.value for one in await self.log.reader.read(SOUL.of_owner, agent)]
        text_of = soul_text if self.souls.evolution(job.space) == "auto" else None

        def store(tx: Transaction, standing: SoulStanding) -> None:
            if end_job(tx, job):
                found = observed(job.text, work, standing.traits, known)
                souls.observe(tx, agent, standing, found, job.instruction, text_of)

        return await self._change_soul(agent, store)

    async def _settle(self, job: GuardJob) -> None:
        found: tuple[Extracted, ...] = ()
        if job.state == "done" and job.purpose == "observe" and await self._observed(job):
            return
        if job.state == "done" and job.purpose == "extract":
            evidence = memory.evidence_of(job)
            known: dict[AgentKey, tuple[str, ...]] = {}
            for key in evidence.agents.values():
                row = self.log.reader.now(agents.row, key)
                files = await trio.to_thread.run_sync(memory_of, self.contexts, key, row)
                texts = (one.entry.value for one in files.kept)
                known[key] = (*texts, *await self.log.reader.read(memory.proposed, key))
            found = await trio.to_thread.run_sync(extracted, job.text, evidence, known)  # slow if much is known
        elif job.purpose == "extract":
            self.paused[job.space] = trio.current_time() + PAUSE_SECONDS
        await self.log.writer.commit(settle, job, found, self.settings(job.space))
        if (over := self._over.get(job.id)) is not None:
            over.set()

    def asking(self) -> Set[str]:
        """Return the agents whose call waits for a guard."""
        return self._asking.keys()

    async def ask(
        self, identity: Identity | Leased, settings: GuardSettings, question: GuardQuestion
    ) -> GuardJob | None:
        """Ask the guard's model while ``identity`` waits, a call or a start; return None without an answer in time.

        Raises Refused (stale_attempt). After a cancellation the question remains, and a repeated call finds it.
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
            self._asking += Counter()  # drop zero counts
        if job is None or job.state != "done":
            self._resting[place] = trio.current_time() + REST_SECONDS
            return None
        return job

    async def relevant(
        self,
        leased: Leased,
        stopped: AbstractContextManager[object],
        guard: GuardSettings,
        work: str,
        found: Sequence[StoredEntry],
    ) -> Sequence[StoredEntry]:
        """Return the entries of ``found`` that the guard's model chooses for ``work``; all without a valid answer."""
        if not guard.llm_recall or not found[1:]:
            return found
        entries = [one.entry for one in found]
        with stopped, suppress(Refused):
            text = recall_question(work, entries)
            call = f"recall/{leased.instruction}/{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"
            job = await self.ask(leased, guard, GuardQuestion(purpose="ask", text=text, call=call))
            return [found[place] for place in chosen(None if job is None else job.text, entries)]
        return found

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

    async def report(self, key: AgentKey) -> TrayReport:
        """Return the tray of the agent with ``key``. Raises Refused (unknown_agent)."""
        self._check(key)
        return await self.log.reader.read(memory.tray_report, key)

    async def decide(self, key: AgentKey, name: str, *, approved: bool, by: str) -> TrayRow:
        """Approve or reject the entry ``name`` in the tray of agent ``key``. Raises Refused.

        The entry is written before the commit: after a crash in between, it is in the memory and
        the proposal is still open.
        """
        self._check(key)
        async with self._lock:
            one = await self.log.reader.read(MEMORY.find, key, name)
            if memory.check_open(one, approved=approved) and approved:
                place = self.contexts.place(key, self.log.reader.now(agents.row, key))
                await trio.to_thread.run_sync(self._keep, place, one)
            return await self.log.writer.commit(memory.decide_in_tray, key, name, approved=approved, by=by)

    def _keep(self, place: ContextPlace, one: TrayRow) -> None:
        source = Source(messages=one.messages, class_=one.trust, by=BY)

        def change(memory: Memory) -> list[tuple[StoredEntry, Entry]]:
            name, number = one.key, 1
            while (there := memory.find(name)) is not None:
                if there.entry.value == one.value:
                    return []
                number += 1
                name = f"{one.key[:120]}-{number}"  # keep the existing entry of that key
            file = KIND_FILES[one.kind]
            full = sum(each.file.startswith(file) for each in memory.kept) // FILE_ENTRIES
            new = Entry(name, one.value, source=source, at=one.at)
            # An old entry without a place in the file puts the new one into that file.
            return [(StoredEntry(new, f"{file}-{full + 1}{SUFFIX}" if full else f"{file}{SUFFIX}"), new)]

        self.contexts.change_memory(place, change)

    def _check(self, key: AgentKey) -> None:
        record = self.log.reader.now(agents.row, key)
        if record is None or record.origin == "inline":
            text = f"agent {key[:60]!r} not found, or without a memory"
            raise Refused("unknown_agent", text, "list agents: awk agent list")
