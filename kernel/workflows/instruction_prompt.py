"""The prompt of an instruction, and the current definition of its agent.

The prompt consists of its messages, earlier messages, and the members. The definition is the agent's current file with
the overrides of the workflow (CF18).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec
import trio

from kernel.agents.catalog import Catalog
from kernel.agents.memory_prompt import NOTHING_KNOWN, Choose, Known, Memories, memory_parts
from kernel.agents.prompt import WAITING, AssembledPrompt, assemble
from kernel.agents.skills import RulesFile
from kernel.agents.soul import read_soul, soul_path, traits_of
from kernel.agents.workspace_prompt import UNCLAIMED, PromptContext, TreeContext
from kernel.policy.creation import effective, instance_of
from kernel.policy.tools import Situation, offered_tools
from kernel.source.diagnostics import BadDefinition
from kernel.store import (
    agents,
    documents,
    messages,
    run_outcomes,
    souls,
    task_views,
    tasks,
    trust,
    work_notes,
    workflows,
)
from kernel.store.agents import AgentRecord
from kernel.store.database import Reader
from kernel.store.messages import AnyWork, in_hand
from kernel.store.transitions import worktrees
from protocol.agent import AgentDefinition, scopes_of
from protocol.agent_memory import least
from protocol.documents import DocumentInfo
from protocol.errors import Refused
from protocol.instruction import WaitReason
from protocol.names import is_personal, number_of, place_of, split_instance
from protocol.project import GuardSettings, ProjectDefinition
from protocol.target import flag_of
from protocol.tools import ToolScope
from protocol.workflow import Ref, WorkflowDefinition

_WAITS: Final[Mapping[WaitReason | None, str]] = {
    None: "queued",
    "provider": "waiting for the provider",
    "credentials": "waiting for credentials",
    "quota": "waiting for a quota",
    "approval": "waiting for approval",
    "budget": "waiting for a budget",
    "hops": "stopped by a limit of the workflow",
    "answer": "waiting for an answer",
    "node": "waiting for a node",
    "paused": "paused",
}
"""Reasons why other work of the agent waits, as shown to its model."""


class PromptSource(AnyWork, Protocol):
    """An instruction for which a prompt is built, leased or not."""

    @property
    def instruction(self) -> str:
        """Return the id of the instruction."""
        ...


async def known_for(
    source: PromptSource, definition: AgentDefinition, memories: Memories, reader: Reader, choose: Choose | None = None
) -> Known:
    """Return the agent's memories for ``source``; unreadable parts are skipped and listed."""
    if not definition.memory.budget:
        return Known()
    try:
        place = memories.place(source.agent, reader.now(agents.row, source.agent), definition)
        if place is None:
            return Known()
        asked = reader.now(messages.these, (source.message_seq, *source.joined))
        text = "\n".join(message.text for message in asked)
        here = place_of(source.space)
        known = await trio.to_thread.run_sync(memories.known, place, definition.memory, here, text)
        return known if choose is None else known._replace(found=await choose(text, known.found))
    except Refused as refused:
        return Known(skipped=(refused.text,))


def instruction_prompt(
    source: PromptSource,
    definition: AgentDefinition,
    catalog: Catalog,
    reader: Reader,
    rules: Sequence[RulesFile] = (),
    known: Known = NOTHING_KNOWN,
    project: ProjectDefinition | None = None,
) -> AssembledPrompt:
    """Return the prompt with which an attempt would start now. Raises BadDefinition (``system_file``).

    ``project``: the project's definition, if it was just read.
    """
    message, *joined = reader.now(messages.these, (source.message_seq, *source.joined))
    thread = reader.now(messages.thread, source.space, source.message_seq, definition.context.thin_thread)
    # Messages that the agent is already working on, in other work that this instruction interrupts.
    found = reader.now(in_hand, source.agent, [said.seq for said in thread])
    at_work = {seq: f"{one.instruction}, {_WAITS[one.waits_for]}" for seq, one in found.items()}
    context: PromptContext
    if is_personal(source.space):
        context = PromptContext(name=source.name, space=source.space, in_hand=at_work)
    else:
        here = reader.now(run_outcomes.expected_in, source.space)
        members = tuple(member.name for member in reader.now(agents.members, source.space))
        tree = _tree(source, reader)
        entry: DocumentInfo | None = None
        if here.has_channel:
            with suppress(Refused):  # The run was removed.
                entry = reader.now(documents.read, source.space, None)
        answers = here.exit_from in (None, source.name) and here.schema is not None
        context = PromptContext(
            name=source.name,
            space=place_of(source.space),
            members=members,
            alone=not here.has_channel,
            answer_schema=(here.schema or b"").decode() if answers else "",
            verdict="" if here.verdict is None else here.verdict.id,
            electors=() if here.verdict is None else here.verdict.electors,
            in_hand=at_work,
            document="" if entry is None else entry.file,
            document_owner="" if entry is None else entry.owner or "",
            document_text="" if entry is None else entry.content,
            claimed=_claimed(source, reader),
            unclaimed=reader.now(task_views.unclaimed, source.space, UNCLAIMED + 1) if here.has_channel else (),
            tree=tree,
        )
    tools: set[ToolScope] = {*scopes_of(definition.scopes), "all", *(() if context.tree is None else ("tree",))}
    context = msgspec.structs.replace(
        context,
        tools=offered_tools(
            situation_of(source.space, catalog, reader, project), tools, definition.scopes, definition.tools
        ),
        trusts=reader.now(messages.trust_of_messages, (*thread, message, *joined), source.name),
        waiting=_waiting(source, reader),
        broken_attempts=reader.now(work_notes.broken_attempts, source.instruction),
        handover=reader.now(work_notes.handed_over, source.instruction),
        handover_trust=least(("agent", reader.now(trust.in_space, source.space))),
    )
    if context.alone:
        thread = tuple(said for said in thread if context.name in (said.sender, *said.to))
    memory = memory_parts(definition.memory, known, context.tools)
    return assemble(definition, catalog.system_text(definition), context, thread, message, joined, rules, memory)


def _claimed(source: PromptSource, reader: Reader) -> tuple[str, ...]:
    """Return the tasks that ``source`` has claimed; tasks that it was created for are in its message."""
    found = reader.now(tasks.of_instruction, number_of(source.instruction, "i") or 0)
    return tuple(row.id for row in found if row.state == "claimed" and row.for_name != source.name)


def _waiting(source: PromptSource, reader: Reader) -> tuple[tuple[int, bool], ...]:
    """Return the number of each other message in the inbox, and whether it is marked as urgent."""
    found = reader.now(work_notes.waiting, source.instruction, source.agent, source.space, WAITING)
    return tuple((seq, flag_of(text) == "urgent") for seq, text in found)


def _tree(source: PromptSource, reader: Reader) -> TreeContext | None:
    trees = reader.now(worktrees.in_space, source.space)
    own = next((tree for tree in trees if tree.agent in (source.agent, "")), None)
    if own is None:
        return None
    return TreeContext(
        path=own.cwd,
        branch=own.branch,
        base=own.base,
        shared=own.shared,
        commits=own.commits,
        follows=own.follows,
        note=own.note,
        colleagues=tuple((tree.name, tree.branch, tree.head, tree.ahead) for tree in trees if tree is not own),
    )


_agent: Final = msgspec.json.Decoder(AgentDefinition)
_workflow: Final = msgspec.json.Decoder(WorkflowDefinition)


def definition_for(
    key: str, space: str, catalog: Catalog, reader: Reader, project: ProjectDefinition | None = None
) -> AgentDefinition:
    """Return the definition for the next attempt of agent ``key`` in ``space``.

    An agent's file is read again; if it has become invalid, its last valid version applies. An inline or ephemeral
    agent is read from the store. The soul in ``soul.yaml`` replaces the soul in the agent's file. Raises
    Refused(unknown_agent) if the file was deleted, BadDefinition if it was never valid.
    """
    record = reader.now(agents.row, key)
    definition = definition_of(key, record, catalog, project)
    if record is not None and record.origin == "inline":
        return definition
    definition = _with_managed_soul(key, record, definition, catalog, reader)
    if record is not None and record.origin != "file" and record.definition is not None:
        return definition
    run = None if is_personal(space) else reader.now(workflows.by_space, space)
    source = None if run is None else reader.now(workflows.source, run.id)
    entries = () if source is None else _workflow.decode(source.definition).agents.values()
    ref = next((entry for entry in entries if isinstance(entry, Ref) and entry.ref == key), None)
    return definition if ref is None else effective(definition, ref)


def definition_of(
    key: str, record: AgentRecord | None, catalog: Catalog, project: ProjectDefinition | None = None
) -> AgentDefinition:
    """Return the agent ``key`` as defined in its own file. Raises Refused, BadDefinition as ``definition_for`` does."""
    if record is not None and record.origin != "file" and record.definition is not None:
        return _agent.decode(record.definition)
    group, number = split_instance(key)
    try:
        found = catalog.agent(group, project).definition
        return instance_of(found, number) if number else found  # also if it is surplus and finishes its work
    except BadDefinition:
        if record is None or record.definition is None:
            raise
        return _agent.decode(record.definition)


def _with_managed_soul(
    key: str, record: AgentRecord | None, definition: AgentDefinition, catalog: Catalog, reader: Reader
) -> AgentDefinition:
    """Return ``definition`` with the soul of ``soul.yaml``, or else with the newest stored soul."""
    newest = reader.now(souls.newest, key)
    try:
        if record is None or record.origin == "file":
            file = read_soul(catalog.root, definition) if newest is None or newest.written else None
            if file is not None:
                return msgspec.structs.replace(definition, soul=file.traits)
            if newest is None or newest.written:
                return definition
    except BadDefinition:
        if newest is None:
            raise
    if newest is None:
        return definition
    return msgspec.structs.replace(definition, soul=traits_of(newest.body.encode(), soul_path(definition)))


def situation_of(space: str, catalog: Catalog, reader: Reader, project: ProjectDefinition | None = None) -> Situation:
    """Return the situation of an agent in ``space``, which determines its tools."""
    guarded = settings_of(space, catalog, reader, project) != GuardSettings()
    if is_personal(space) or not reader.now(run_outcomes.expected_in, space).has_channel:
        return Situation(guarded=guarded)
    return Situation(team=True, guarded=guarded, uses=reader.now(run_outcomes.in_use, space))


def settings_of(
    space: str, catalog: Catalog, reader: Reader, project: ProjectDefinition | None = None
) -> GuardSettings:
    """Return the guard settings for ``space``: those of its newest run, or else of the project."""
    run = None if is_personal(space) else reader.now(workflows.latest, space)
    source = None if run is None else reader.now(workflows.source, run.id)
    own = None if source is None else _workflow.decode(source.definition).guard
    return (project or catalog.kept_project()).guard if own is None else own
