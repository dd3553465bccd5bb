"""Members of a workflow: refs and inline agents as specs for the rule, and the definition that each works by there.

That is its file as it stands now, with what the workflow overrides (CF18).
"""

from typing import Final

import msgspec

from kernel.agents.catalog import Catalog
from kernel.rule.draft import MemberSpec
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, workflows
from kernel.store.reader import Reader
from protocol.agent import AgentDefinition
from protocol.names import AgentKey, inline_key, is_personal
from protocol.workflow import Ref, WorkflowDefinition

_OVERRIDES = (
    "model",
    "backend",
    "provider",
    "max_tokens",
    "max_steps",
    "effort",
    "thinking",
    "temperature",
    "timeouts",
    "budget",
    "approval",
    "read_only",
    "schedule",
    "mock",
)


class Member(msgspec.Struct, frozen=True):
    """One member with its definition as it is now: overrides applied.

    ``ref`` and ``base``, what the agent's own file says, are None for an inline agent.
    """

    name: str
    definition: AgentDefinition
    ref: Ref | None = None
    base: AgentDefinition | None = None


def effective(definition: AgentDefinition, ref: Ref) -> AgentDefinition:
    """``definition`` with what ``ref`` overrides. Everything else, the soul above all, stays the agent's own."""
    changes = {key: getattr(ref, key) for key in _OVERRIDES if getattr(ref, key) is not None}
    if ref.prompt is not None:
        changes["prompt"] = msgspec.structs.replace(definition.prompt, append=ref.prompt.append)
    return msgspec.structs.replace(definition, **changes)


def specs(members: tuple[Member, ...], space: str) -> tuple[MemberSpec, ...]:
    """The facts that the rule needs of ``members`` in ``space``. An inline agent's definition goes with it."""
    found: list[MemberSpec] = []
    for one in members:
        if one.ref is not None:
            own = None if one.base is None else msgspec.json.encode(one.base)
            found.append(MemberSpec(name=one.name, key=AgentKey(one.ref.ref), origin="file", definition=own))
        else:
            own, key = msgspec.json.encode(one.definition), inline_key(one.name, space)
            found.append(MemberSpec(name=one.name, key=key, origin="inline", definition=own))
    return tuple(found)


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
