"""Makes the agents of ``.agents/`` known to the store: a name must be there before anything can be sent to it."""

import logging
from typing import Literal

import msgspec
import trio

from kernel.agents.catalog import AgentScan, Catalog, LoadedAgent
from kernel.store import agents
from kernel.store.agents import AgentSpec, put_agents, remove_agent
from kernel.store.reader import Reader
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.names import AgentKey

logger = logging.getLogger(__name__)

Known = Literal["same", "changed", "gone"]
"""How what was known of an agent compares with its file."""


async def register(
    catalog: Catalog, writer: Writer, reader: Reader, spared: frozenset[AgentKey] = frozenset()
) -> AgentScan:
    """Bring the store up to date with the files: new and edited agents in, deleted ones without work out.

    A file that is wrong leaves what was known of its agent, as do those of ``spared``. Raises BadDefinition only for
    the project file.
    """
    survey = await update(catalog, writer, spared)
    names = frozenset(catalog.names())
    for record in reader.now(agents.all):
        if record.origin == "file" and record.key not in names:
            await _forget(record.key, writer)
    return survey


async def update(catalog: Catalog, writer: Writer, spared: frozenset[AgentKey] = frozenset()) -> AgentScan:
    """As ``register``, but nobody is forgotten: a file that is not there may be in the middle of being written."""
    survey = await trio.to_thread.run_sync(catalog.survey)
    specs = [file_spec(loaded) for loaded in survey.loaded]
    await writer.commit(put_agents, [spec for spec in specs if spec.key not in spared])
    return survey


async def refresh(key: AgentKey, catalog: Catalog, writer: Writer, reader: Reader) -> Known:
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


async def _forget(key: AgentKey, writer: Writer) -> None:
    try:
        await writer.commit(remove_agent, key)
    except Refused as refused:
        logger.info("agent.kept %s: %s", key, refused.text)
