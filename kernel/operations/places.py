"""Spaces and agents as people name them: looked up, and refused with a suggestion."""

import apsw

from kernel.agents.personal_context import ContextPlace
from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.source.diagnostics import BadDefinition, suggest
from kernel.store import agents, messages, workflows
from kernel.store.agents import AgentRecord
from kernel.store.attempts import Identity
from kernel.store.workflows import WorkflowRecord
from kernel.workflows.find import workflow_names
from kernel.workflows.instruction_prompt import definition_for
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.names import (
    DEFAULT_TAG,
    AgentKey,
    SpaceId,
    base_space,
    inline_key,
    is_below,
    is_personal,
    number_of,
    split_space,
)


def not_running(store: StoreAccess, files: ProjectFiles, space: str, what: str = "") -> Refused:
    """The refusal of a ``space`` without a workflow that runs, with the command that starts it.

    Of a name that nobody knows it suggests the nearest, or those there are.
    ``what`` is said in place of that it does not run.
    """
    if is_below(space):
        hint = "awk space list shows those that agents opened"
        return Refused("workflow_not_running", f"the space {space[:100]} is closed, or was never opened", hint)
    name, tag = split_space(space)
    text = what or f"workflow {space[:100]} is not running"
    names = workflow_names(files.catalog, files.catalog.kept_project())
    before = store.reader.now(workflows.newest_at, space)
    start = name if name in names else before and before.file  # it was started from a path, or from elsewhere
    if start is None:
        known = {*names, *(record.name for record in store.reader.now(workflows.running))}
        text = f"{text}, and there is no workflow {name[:60]!r}"
        return Refused("workflow_not_running", text, suggest(name, known, what="workflows here"))
    flag = "" if tag == DEFAULT_TAG else f" --tag {tag[:64]}"
    return Refused("workflow_not_running", text, f"start it: awk start {start}{flag}")


def known_space(store: StoreAccess, files: ProjectFiles, text: str) -> SpaceId:
    """The space ``text`` names, if it is there now or was: of a workflow that of its newest run. Raises Refused."""
    name, tag = split_space(text)
    place = SpaceId(f"{name}:{tag}")
    if is_personal(place):
        if store.reader.now(agents.row, tag) is None and not any(
            not message.cleared for message in store.reader.now(messages.channel, place, 1)
        ):
            raise Refused("unknown_agent", f"there is no agent {tag[:60]!r}", hint="awk ls lists the agents")
        return place
    found = store.reader.now(workflows.space_at, place)
    if found is None and is_below(place):
        raise Refused("not_found", f"there was never a space {place[:100]!r}", "awk space list shows those there are")
    if found is None:
        raise not_running(store, files, place, f"nothing was ever started as {place[:100]!r}")
    return found


def space_of(store: StoreAccess, text: str) -> SpaceId:
    """The space ``text`` names, whether there was ever one or not: of a workflow that of its newest run."""
    place = SpaceId(":".join(split_space(text)))
    found = None if is_personal(place) else store.reader.now(workflows.space_at, place)
    return found or place


def agent_key(store: StoreAccess, text: str) -> AgentKey:
    """The key of the agent that people call ``text``: ``bob@review:main`` is the one in the newest run there."""
    name, at, place = text.partition("@")
    return inline_key(name, space_of(store, place)) if at else AgentKey(text)


def context_of(store: StoreAccess, files: ProjectFiles, key: AgentKey) -> ContextPlace:
    """The place of what an agent keeps."""
    return files.contexts.place(key, store.reader.now(agents.row, key))


def run_asked(conn: apsw.Connection, asked: str) -> WorkflowRecord:
    """The run ``asked``: ``r12``, or of ``review:main`` the newest. Raises Refused (not_found)."""
    number = number_of(asked, "r")
    place = ":".join(split_space(asked))
    record = workflows.newest_at(conn, place) if number is None else workflows.by_id(conn, number)
    if record is None:
        raise unknown_run(asked)
    return record


def unknown_run(asked: str) -> Refused:
    """Return the refusal of a run that does not exist."""
    hint = "awk runs lists those that are kept; they are called like r12, the last one of a workflow like review:main"
    return Refused("not_found", f"there is no run {asked[:100]!r}", hint)


def run_at(store: StoreAccess, files: ProjectFiles, text: str, asked: str | None) -> WorkflowRecord:
    """The run ``asked`` (r12) of those at the space ``text``; None: the newest there. Raises Refused."""
    place = base_space(":".join(split_space(text)))
    if asked is None:
        record = store.reader.now(workflows.newest_at, place)
        if record is None:
            raise not_running(store, files, place, f"nothing was ever started as {place[:100]!r}")
        return record
    record = store.reader.now(workflows.by_id, number_of(asked, "r") or 0)
    if record is None:
        raise unknown_run(asked)
    if record.place != place:
        raise Refused("not_found", f"{asked} is no run of {place[:100]}: it is one of {record.place}")
    return record


def own_definition(identity: Identity, store: StoreAccess, files: ProjectFiles) -> AgentDefinition:
    """Return the definition of the agent of an attempt; the default where its file is gone."""
    try:
        return definition_for(identity.agent, identity.space, files.catalog, store.reader)
    except (Refused, BadDefinition):
        return AgentDefinition(name=identity.name)


def check_known(store: StoreAccess, files: ProjectFiles, name: str) -> AgentRecord | None:
    """The agent, or None where only its file is there yet. Raises Refused (unknown_agent)."""
    record = store.reader.now(agents.row, name)
    if record is None:
        files.catalog.agent(name)
    return record
