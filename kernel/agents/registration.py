"""Registration of the agents of ``.agents/`` in the store: a message can only be sent to a registered name."""

import logging
from collections.abc import Collection, Iterable
from typing import Final, Literal

import msgspec
import trio

from kernel.agents.catalog import AgentScan, Catalog, LoadedAgent
from kernel.agents.personal_context import PersonalContexts
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents
from kernel.store.agents import AgentSpec, put_agents, remove_agent
from kernel.store.database import Reader
from kernel.store.writer import CommitWriter
from protocol.errors import Refused
from protocol.names import AgentKey

logger = logging.getLogger(__name__)

Known = Literal["same", "changed", "gone"]
"""Result of comparing a stored agent with its file."""


AT_ONCE: Final = 500
"""Agents per commit, so that thousands of them do not delay the commit of a message for long."""


async def register(catalog: Catalog, writer: CommitWriter, reader: Reader, seconds: float | None = None) -> AgentScan:
    """Synchronize the store with the files: add new and edited agents, remove deleted ones without work.

    An invalid file leaves its stored agent unchanged. After ``seconds`` the scan stops, and no agent is removed. Raises
    BadDefinition only for the project file.
    """
    survey = await trio.to_thread.run_sync(catalog.survey, seconds)
    await take_over(survey.loaded, writer, reader, over=await made_at_run_time(reader))
    if survey.whole:
        await forget(catalog, writer, reader)
    return survey


async def made_at_run_time(reader: Reader) -> frozenset[str]:
    """Return the agents without a file. At a kernel's start, all are left by a crashed kernel."""
    return frozenset(one.key for one in await reader.read(agents.all) if one.origin == "ephemeral")


async def take_over(
    loaded: Iterable[LoadedAgent], writer: CommitWriter, reader: Reader, *, over: Collection[str] = frozenset()
) -> None:
    """Store the definitions of ``loaded`` that differ from the stored ones. No agent is removed.

    A file replaces an agent created at run time only if this agent is one of ``over`` (left by a
    crashed kernel). Other agents created at run time keep their names.
    """
    specs = await reader.read(agents.not_stored, map(file_spec, loaded), over=over)
    for start in range(0, len(specs), AT_ONCE):
        await writer.commit(put_agents, specs[start : start + AT_ONCE])


async def gone(catalog: Catalog, reader: Reader) -> tuple[AgentKey, ...]:
    """Return the agents that were registered from files which no longer exist."""
    names = frozenset(await trio.to_thread.run_sync(catalog.names))
    stored = await reader.read(agents.all)
    lost = (one.key for one in stored if one.origin == "file" and one.key not in names)
    return tuple(key for key in lost if not catalog.defines(key))  # an instance is defined by its group


async def settle_contexts(contexts: PersonalContexts, reader: Reader) -> None:
    """Move contexts of agents with new files into the project; delete removed agents' contexts.

    Raises nothing: contexts that cannot be moved remain, and are logged.
    """
    for key in await trio.to_thread.run_sync(contexts.kept_for):
        record = reader.now(agents.row, key)
        try:
            if record is None:
                await trio.to_thread.run_sync(contexts.forget, key)
            elif record.origin == "file":
                await trio.to_thread.run_sync(contexts.move, contexts.place_in_state(key), contexts.place(key, record))
        except (Refused, BadDefinition) as error:
            logger.warning("context.not_moved %s: %s", key, error)


async def forget(catalog: Catalog, writer: CommitWriter, reader: Reader) -> None:
    """Remove the agents whose files are deleted and that have no work."""
    for key in await gone(catalog, reader):
        await _forget(key, writer)


async def refresh(key: AgentKey, catalog: Catalog, writer: CommitWriter, reader: Reader) -> Known:
    """Synchronize one stored agent with its file, if any; return what happened to the stored agent.

    Raises BadDefinition if the file is invalid.
    """
    record = reader.now(agents.row, key)
    if record is None:
        return "gone"
    if record.origin != "file":
        return "same"
    try:
        spec = file_spec(catalog.agent(key))
    except Refused as refused:
        if refused.code != "unknown_agent":
            raise
        await _forget(key, writer)
        return "gone"
    if spec.definition == record.definition:
        return "same"
    await writer.commit(put_agents, [spec])
    return "changed"


def file_spec(loaded: LoadedAgent) -> AgentSpec:
    """Return the stored row of an agent with a file."""
    return AgentSpec(
        key=AgentKey(loaded.definition.name),
        origin="file",
        file=loaded.path,
        definition=msgspec.json.encode(loaded.definition),
    )


async def _forget(key: AgentKey, writer: CommitWriter) -> None:
    try:
        await writer.commit(remove_agent, key)
    except Refused as refused:
        logger.info("agent.kept %s: %s", key, refused.text)
