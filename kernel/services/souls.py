"""Souls: what agents suggest of themselves, and the versions that people make of it.

The store decides and keeps each version; the file ``soul.yaml`` is written after the commit. A kernel that dies in
between, or a file that cannot be written, loses nothing: the version counts from its commit on, and is written before
the soul is touched again. One change at a time, so that none is made from what another has just replaced.
"""

import logging
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
import trio

from kernel.agents.catalog import Catalog
from kernel.agents.personal_context import PersonalContexts
from kernel.agents.soul import read_soul, soul_path, soul_text, traits_of
from kernel.policy.soul import DEFAULT_TRAIT
from kernel.rule.draft import Author
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, souls
from kernel.store.agents import AgentRecord
from kernel.store.attempts import Identity
from kernel.store.database import Reader
from kernel.store.souls import SoulStanding, Suggestion
from kernel.store.transaction import Transaction
from kernel.store.writer import Writer
from kernel.workflows.instruction_prompt import definition_of, settings_of
from protocol.agent import AgentDefinition
from protocol.agent_layout import SOUL_FILE
from protocol.api.souls import SoulProposal, SoulReport
from protocol.errors import Refused
from protocol.guard import SoulEvolution
from protocol.names import AgentKey

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Souls(msgspec.Struct, eq=False, kw_only=True):
    """The souls of a project's agents."""

    catalog: Catalog
    contexts: PersonalContexts
    reader: Reader
    writer: Writer
    _lock: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def report(self, key: AgentKey, space: str) -> SoulReport:
        """The soul of ``key`` as it is now, seen from ``space``. Raises Refused, BadDefinition."""
        async with self._lock:
            definition, standing = await self._standing(key)
        newest = self.reader.now(souls.newest, key)
        return SoulReport(
            agent=key,
            soul=dict(standing.traits),
            managed=None if standing.body is None or self._record(key).origin != "file" else soul_path(definition),
            version=0 if newest is None else newest.version,
            edited=newest is not None
            and newest.body != (standing.baseline if standing.body is None else standing.body),
            evolution=self.evolution(space),
            proposals=await self.reader.read(souls.proposals, key),
            versions=await self.reader.read(souls.versions, key),
        )

    def evolution(self, space: str) -> SoulEvolution:
        """The fate of suggestions that are made in ``space``."""
        return settings_of(space, self.catalog, self.reader).soul_evolution

    async def suggest(
        self, identity: Identity, author: Author, trait: str, value: str, observation: str
    ) -> SoulProposal:
        """Keep what an agent suggests of its own soul, or take it at once, as ``soul_evolution`` says.

        Raises Refused.
        """
        mode = self.evolution(identity.space)
        if mode == "disabled":
            raise Refused("forbidden", "souls do not change here (guard.soul_evolution)", "go on without it")
        said = Suggestion(trait or DEFAULT_TRAIT, value or observation, observation)
        return await self._change(identity.agent, souls.suggest, said, author, soul_text, at_once=mode == "auto")

    async def approve(self, key: AgentKey, name: str, reason: str) -> SoulProposal:
        """Make a version of what was suggested, as a person. Raises Refused."""

        def job(tx: Transaction, standing: SoulStanding) -> SoulProposal:
            return souls.approve(tx, key, standing, name, reason, soul_text)

        return await self._change(key, job)

    async def reject(self, key: AgentKey, name: str, reason: str) -> SoulProposal:
        """Decide that it is not taken, as a person. Raises Refused."""
        self._record(key)
        return await self.writer.commit(souls.reject, key, name, reason)

    async def roll_back(self, key: AgentKey, version: int, reason: str) -> int:
        """Have the soul say again what ``version`` said, as a person. Returns the new version. Raises Refused."""

        def job(tx: Transaction, standing: SoulStanding) -> int:
            return souls.roll_back(tx, key, standing, version, reason)

        return await self._change(key, job)

    async def _change(
        self,
        key: AgentKey,
        job: Callable[Concatenate[Transaction, SoulStanding, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async with self._lock:
            _, standing = await self._standing(key)
            made = await self.writer.commit(job, standing, *args, **kwargs)
            await self._write(key)
            return made

    def _record(self, key: AgentKey) -> AgentRecord:
        record = self.reader.now(agents.row, key)
        if record is None or record.origin == "inline":
            text = f"there is no agent {key[:60]!r} with a soul of its own"
            raise Refused("unknown_agent", text, "awk ls lists the agents")
        return record

    async def _standing(self, key: AgentKey) -> tuple[AgentDefinition, SoulStanding]:
        await self._write(key)
        record = self._record(key)
        definition = definition_of(key, record, self.catalog)
        baseline = soul_text(definition.soul)
        newest = self.reader.now(souls.newest, key)
        if newest is not None and (not newest.written or record.origin != "file"):
            traits = traits_of(newest.body.encode(), soul_path(definition))
            return definition, SoulStanding(baseline, newest.body, traits)
        file = await trio.to_thread.run_sync(read_soul, self.catalog.root, definition)
        if file is None:
            return definition, SoulStanding(baseline, None, definition.soul)
        return definition, SoulStanding(baseline, file.body, file.traits)

    async def _write(self, key: AgentKey) -> None:
        """Write what is not written yet. Where that cannot be done it is tried again before the next change.

        What an agent without a file became is written once it gets one. What people wrote since it was read becomes a
        version first.
        """
        record = self._record(key)
        if record.origin != "file" or self.reader.now(souls.unwritten, key) is None:
            return
        try:
            place = self.contexts.place(key, record)
            while (wanted := self.reader.now(souls.unwritten, key)) is not None:
                edited = await trio.to_thread.run_sync(self.contexts.write_soul, place, *wanted)
                if edited is None:
                    break
                traits_of(edited.encode(), f"{place.shown}/{SOUL_FILE}")  # half of an edit is waited for
                await self.writer.commit(souls.keep_edit, key, edited)
        except (Refused, BadDefinition) as error:
            logger.warning("soul.unwritten %s: %s", key, error)
            return
        await self.writer.commit(souls.mark_written, key)
