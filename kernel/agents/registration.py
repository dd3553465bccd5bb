"""Makes the agents of ``.agents/`` known to the store: a name must be there before anything can be sent to it."""

import logging
from collections.abc import Collection
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
"""How what was known of an agent compares with its file."""


AT_ONCE: Final = 500
"""Agents in one commit: thousands of them must not keep a message from its own for long."""


async def register(catalog: Catalog, writer: CommitWriter, reader: Reader, seconds: float | None = None) -> AgentScan:
    """Bring the store up to date with the files: new and edited agents in, deleted ones without work out.

    A file that is wrong leaves what was known of its agent. After so many seconds it leaves off, and forgets nobody.
    Raises BadDefinition only for the project file.
    """
    survey = await trio.to_thread.run_sync(catalog.survey, seconds)
    await take_over(survey, writer, reader, over=await made_at_run_time(reader))
    if survey.whole:
        await forget(catalog, writer, reader)
    return survey


async def made_at_run_time(reader: Reader) -> frozenset[str]:
    """The agents that have no file, as far as is known: at a start those of a kernel that died."""
    return frozenset(one.key for one in await reader.read(agents.all) if one.origin == "ephemeral")


async def take_over(
    survey: AgentScan, writer: CommitWriter, reader: Reader, *, over: Collection[str] = frozenset()
) -> None:
    """Store those definitions of ``survey`` that are not what is stored. Nobody is forgotten.

    An agent made at run time stays what it is unless it is one of ``over``: whoever writes a file of its name says
    what becomes of it, and a kernel that died cannot be asked.
    """
    specs = await reader.read(agents.not_stored, map(file_spec, survey.loaded), over=over)
    for start in range(0, len(specs), AT_ONCE):
        await writer.commit(put_agents, specs[start : start + AT_ONCE])


async def gone(catalog: Catalog, reader: Reader) -> tuple[AgentKey, ...]:
    """The agents that are known from files which are not there."""
    names = frozenset(await trio.to_thread.run_sync(catalog.names))
    stored = await reader.read(agents.all)
    return tuple(one.key for one in stored if one.origin == "file" and one.key not in names)


async def settle_contexts(contexts: PersonalContexts, reader: Reader) -> None:
    """Give what agents without a file kept to those that have got one, and remove it where they are gone.

    Raises nothing: what cannot be moved stays, and is told.
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
    """Forget the agents whose files are gone and who have no work."""
    for key in await gone(catalog, reader):
        await _forget(key, writer)


async def refresh(key: AgentKey, catalog: Catalog, writer: CommitWriter, reader: Reader) -> Known:
    """Bring what is known of one agent up to date with its file, if it has one.

    Raises BadDefinition where the file is wrong.
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
    """The agent's row for the store, for one that has a file."""
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
