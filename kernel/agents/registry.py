"""Makes the agents of ``.agents/`` known to the store: a name must be there before anything can be sent to it."""

import logging

import msgspec

from kernel.agents.catalog import Catalog, Survey
from kernel.store import agents
from kernel.store.commits.roster import AgentSpec, put_agents, remove_agent
from kernel.store.reader import Reader
from kernel.store.writer import Writer
from protocol.errors import Refused
from protocol.names import AgentKey

logger = logging.getLogger(__name__)


async def register(catalog: Catalog, writer: Writer, reader: Reader) -> Survey:
    """Bring the store up to date with the files: new and edited agents in, deleted ones without work out.

    A file that is wrong leaves what was known of its agent. Raises BadDefinition only for the project file.
    """
    survey = catalog.survey()
    specs = [
        AgentSpec(
            key=AgentKey(loaded.definition.name),
            origin="file",
            file=loaded.path,
            definition=msgspec.json.encode(loaded.definition),
        )
        for loaded in survey.loaded
    ]
    await writer.commit(put_agents, specs)
    names = frozenset(catalog.names())
    for record in reader.now(agents.all):
        if record.origin == "file" and record.key not in names:
            await _forget(record.key, writer)
    return survey


async def _forget(key: AgentKey, writer: Writer) -> None:
    try:
        await writer.commit(remove_agent, key)
    except Refused as refused:
        logger.info("agent.kept %s: %s", key, refused.text)
