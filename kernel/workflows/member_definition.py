"""The definition of an agent where it works now: its file as it stands, with what the workflow overrides (CF18)."""

from typing import Final

import msgspec

from kernel.agents.catalog import Catalog
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, workflows
from kernel.store.reader import Reader
from kernel.workflows.members import effective
from protocol.agent import AgentDefinition
from protocol.names import is_personal
from protocol.workflow import Ref, WorkflowDefinition

_agent: Final = msgspec.json.Decoder(AgentDefinition)
_workflow: Final = msgspec.json.Decoder(WorkflowDefinition)


def definition_for(key: str, space: str, catalog: Catalog, reader: Reader) -> AgentDefinition:
    """The definition that the next attempt of agent ``key`` in ``space`` runs on.

    An agent with a file is read anew; where that became wrong, what it said before stays in effect. An inline or
    ephemeral one is what the store keeps. Raises Refused(unknown_agent) where the file is gone, BadDefinition where it
    is wrong and never was right.
    """
    record = reader.now(agents.row, key)
    if record is not None and record.origin != "file" and record.definition is not None:
        return _agent.decode(record.definition)
    try:
        definition = catalog.agent(key).definition
    except BadDefinition:
        if record is None or record.definition is None:
            raise
        definition = _agent.decode(record.definition)
    run = None if is_personal(space) else reader.now(workflows.by_space, space)
    source = None if run is None else reader.now(workflows.source, run.id)
    entries = () if source is None else _workflow.decode(source.definition).agents.values()
    ref = next((entry for entry in entries if isinstance(entry, Ref) and entry.ref == key), None)
    return definition if ref is None else effective(definition, ref)
