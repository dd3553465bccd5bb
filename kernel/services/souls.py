"""Souls of agents: their versions, and the suggestions to change them.

The store decides about each version of a soul and stores it; the file ``soul.yaml`` is written after the commit. After
a crash or a write error nothing is lost: the version is valid from its commit, and the file is written before the next
change. Changes are serialized, so that none is based on a replaced version.
"""

import logging
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
import trio

from kernel.agents.catalog import Catalog
from kernel.agents.personal_context import PersonalContexts
from kernel.agents.soul import read_soul, soul_path, soul_text, traits_of
from kernel.policy.guard import DEFAULT_TRAIT
from kernel.policy.observing import Suggestion
from kernel.rule.draft import Author
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, souls
from kernel.store.agents import AgentRecord
from kernel.store.attempts import Identity
from kernel.store.database import Reader
from kernel.store.decisions import SOUL
from kernel.store.souls import SoulStanding
from kernel.store.transaction import Transaction
from kernel.store.writer import Writer
from kernel.workflows.instruction_prompt import definition_of, settings_of
from protocol.agent import AgentDefinition
from protocol.agent_layout import SOUL_FILE
from protocol.api.souls import SoulProposal, SoulReport
from protocol.errors import Refused
from protocol.names import AgentKey
from protocol.project import SoulEvolution

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Souls(msgspec.Struct, eq=False, kw_only=True):
    """Souls of a project's agents."""

    catalog: Catalog
    contexts: PersonalContexts
    reader: Reader
    writer: Writer
    _lock: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def report(self, key: AgentKey, space: str) -> SoulReport:
        """Return an agent's soul and how ``space`` decides on it. Raises Refused, BadDefinition."""
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
            proposals=await self.reader.read(SOUL.of_owner, key),
            versions=await self.reader.read(souls.versions, key),
        )

    def evolution(self, space: str) -> SoulEvolution:
        """Return how suggestions in ``space`` are decided."""
        return settings_of(space, self.catalog, self.reader).soul_evolution

    async def suggest(
        self, identity: Identity, author: Author, trait: str, value: str, observation: str
    ) -> SoulProposal:
        """Store an agent's suggestion for its own soul; apply it if ``soul_evolution`` is ``auto``. Raises Refused."""
        mode = self.evolution(identity.space)
        if mode == "disabled":
            raise Refused("forbidden", "soul changes are disabled (guard.soul_evolution)", "continue without it")
        said = Suggestion(trait or DEFAULT_TRAIT, value or observation, observation)
        return await self.change(identity.agent, souls.suggest, said, author, soul_text, at_once=mode == "auto")

    async def approve(self, key: AgentKey, name: str, reason: str) -> SoulProposal:
        """Approve a suggestion as a person, creating a version. Raises Refused."""
        return await self.change(key, souls.approve, key, name, reason, soul_text)

    async def reject(self, key: AgentKey, name: str, reason: str) -> SoulProposal:
        """Reject a suggestion as a person. Raises Refused."""
        self._record(key)
        return await self.writer.commit(souls.reject, key, name, reason)

    async def roll_back(self, key: AgentKey, version: int, reason: str) -> int:
        """Restore the soul of ``version`` as a person, and return the new version. Raises Refused."""
        return await self.change(key, souls.roll_back, key, version, reason)

    async def change(
        self,
        key: AgentKey,
        job: Callable[Concatenate[Transaction, SoulStanding, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Commit ``job`` with the current soul of agent ``key``, and write a new version. Raises Refused."""
        async with self._lock:
            _, standing = await self._standing(key)
            made = await self.writer.commit(job, standing, *args, **kwargs)
            await self._write(key)
            return made

    def _record(self, key: AgentKey) -> AgentRecord:
        record = self.reader.now(agents.row, key)
        if record is None or record.origin == "inline":
            text = f"agent {key[:60]!r} not found, or without a soul"
            raise Refused("unknown_agent", text, "list agents: awk agent list")
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
        """Write new versions of a soul to ``soul.yaml``; the next change retries after a failure.

        An agent without a file gets ``soul.yaml`` together with its file. Edits of ``soul.yaml`` by
        people are stored as a version first.
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
                # An incomplete edit raises BadDefinition, and the next change retries.
                traits_of(edited.encode(), f"{place.shown}/{SOUL_FILE}")
                await self.writer.commit(souls.keep_edit, key, edited)
        except (Refused, BadDefinition) as error:
            logger.warning("soul.unwritten %s: %s", key, error)
            return
        await self.writer.commit(souls.mark_written, key)
