"""Operations on agents: definitions, control (stop, pause, reset), and the process table."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import trio

from kernel.agents.catalog import AgentScan, agent_from_request
from kernel.agents.environment import sandbox_state
from kernel.agents.registration import file_spec
from kernel.operations.answers import Response, json_reply
from kernel.operations.context import MemoryAccess, ProcessControl, ProjectFiles, StoreAccess, agent_key
from kernel.operations.operation import OfAgent, ToolFront, Wait, operation
from kernel.source.diagnostics import place_text
from kernel.store import agents
from kernel.store.agents import AgentProcess, AgentRecord, AgentSpec
from kernel.store.transaction import Transaction
from kernel.store.transitions import steering
from kernel.store.transitions.clear import delete_agent
from kernel.workflows.load import definitions as definitions_now
from protocol.agent import AgentDefinition
from protocol.api.agents import (
    AgentChanged,
    AgentInfo,
    AgentList,
    AgentMade,
    AgentRequest,
    AgentRow,
    AgentSettings,
    as_written,
)
from protocol.errors import Refused, accepted
from protocol.names import DEFAULT_TAG, AgentKey, InstructionId, check_name, group_of, place_of, split_space


class AgentPatch(AgentSettings, frozen=True, kw_only=True):
    """PATCH /agents/:name, for agents created at run time. Omitted fields keep their values."""

    name: str
    model: str | None = None


class AgentRename(OfAgent, frozen=True, kw_only=True):
    """POST /agents/:name/rename: turn an agent created at run time into ``to``, an agent with a file."""

    to: str


class StopAgentRequest(OfAgent, frozen=True, kw_only=True):
    """Agent to stop."""

    wait: Wait = True


async def list_agents(store: StoreAccess, files: ProjectFiles) -> AgentList:
    """List all agents with their states.

    Includes agents of files, agents created at run time, and agents of running workflows.
    """
    table = await store.reader.read(agents.ps, store.now_ms())
    states = {process.key: process.shown.state for process in table}
    records = await store.reader.read(agents.all)
    definitions = await files.definitions()
    if definitions is None:
        definitions = await trio.to_thread.run_sync(definitions_now, files.catalog)
    survey = definitions.scan
    if survey is None:  # While the project file is invalid, no agent file takes effect.
        broken = tuple((record.key, definitions.errors) for record in records if record.origin == "file")
        survey = AgentScan((), definitions.errors, broken)

    def rows() -> Iterator[AgentRow]:
        for loaded in survey.loaded:
            yield _row(loaded.definition, loaded.path, states.get(AgentKey(loaded.definition.name), "idle"))
        # The last valid content of a file stays in effect. An agent without earlier valid content is in state error.
        kept = {record.key: record for record in records if record.origin == "file" and record.definition is not None}
        for name, errors in survey.broken:
            old = kept.get(AgentKey(name))
            yield AgentRow(
                name=name,
                model="" if old is None else old.model,
                backend="" if old is None else old.backend,
                file=errors[0].path if old is None else old.file,
                ephemeral=False,
                state="error" if old is None else states.get(old.key, "idle"),
                error=place_text(errors),
            )
        for record in records:
            if record.origin == "ephemeral":
                yield _row(_definition(record), None, states.get(record.key, "idle"))
        # Inline agents of running workflows are named by their target.
        for process in table:
            name, at, space = process.key.partition("@")
            if at:
                workflow, tag = split_space(place := place_of(space))
                yield AgentRow(
                    name=f"{name}@{workflow}" if tag == DEFAULT_TAG else f"{name}@{place}",
                    model=process.shown.model,
                    backend=process.shown.backend,
                    file=None,
                    ephemeral=False,
                    state=process.shown.state,
                    source="workflow",
                )

    return AgentList(agents=tuple(sorted(rows(), key=lambda row: row.name)))


def _row(definition: AgentDefinition, file: str | None, state: str) -> AgentRow:
    return AgentRow(**_summary(definition, file, state), source="file" if file is not None else "ephemeral")


def _summary(definition: AgentDefinition, file: str | None, state: str) -> dict[str, Any]:
    return {
        "name": definition.name,
        "model": ", ".join(definition.models),
        "backend": definition.backend,
        "file": file,
        "ephemeral": file is None,
        "state": state,
    }


async def show_agent(asked: OfAgent, store: StoreAccess, files: ProjectFiles) -> AgentInfo:
    """Return one agent: its definition, state and workspaces."""
    name = asked.name
    record = store.reader.now(agents.row, name)
    spaces = store.reader.now(agents.workspaces, AgentKey(name))
    looks = await store.reader.read(agents.process, name, store.now_ms())
    if record is not None and record.origin == "ephemeral":
        return _info(files, looks, _definition(record), None, spaces)
    loaded = files.catalog.agent(name)
    return _info(files, looks, loaded.definition, loaded.path, spaces)


def _info(
    files: ProjectFiles,
    looks: AgentProcess | None,
    definition: AgentDefinition,
    file: str | None,
    workspaces: tuple[str, ...] = (),
) -> AgentInfo:
    return AgentInfo(
        **_summary(definition, file, "idle" if looks is None else looks.shown.state),
        reason=None if looks is None else looks.shown.reason,
        until=None if looks is None else looks.shown.until,
        definition=as_written(definition),
        workspaces=workspaces,
        sandbox=sandbox_state(definition, files.environ),
    )


async def create_agent(asked: AgentRequest, store: StoreAccess, files: ProjectFiles) -> AgentMade:
    """Create an agent that exists until the kernel stops. Without a name, the kernel chooses one."""
    if asked.name is None:
        taken = {*files.catalog.names(), *(record.key for record in store.reader.now(agents.all))}
        name = next(name for name in (f"agent-{n}" for n in itertools.count(1)) if name not in taken)
    else:
        name = accepted(check_name, asked.name)
        if files.catalog.defines(name):
            raise _taken(name)
    definition = agent_from_request(asked, name, files.catalog.project())

    def make(tx: Transaction) -> AgentMade:
        if agents.row(tx.conn, name) is not None:
            raise _taken(name)
        agents.put_agent(tx, _spec(definition))
        return AgentMade(**_summary(definition, None, "idle"))

    return await store.writer.commit(make)


def _taken(name: str) -> Refused:
    return Refused("already_exists", f"agent {name} already exists", "choose another name")


async def update_agent(asked: AgentPatch, store: StoreAccess, files: ProjectFiles) -> AgentInfo:
    """Change an agent that was created at run time. Given fields replace the old values."""
    record = _ephemeral(store, files, asked.name)
    old = _definition(record)
    request = AgentRequest(
        model=asked.model if asked.model is not None else old.model,
        backend=asked.backend or old.backend,
        system=asked.system if asked.system is not None else old.prompt.system,
        mock=asked.mock if asked.mock is not None else msgspec.to_builtins(old.mock) or None,
        provider=asked.provider if asked.provider is not None else msgspec.to_builtins(old.provider),
    )
    definition = agent_from_request(request, record.name, files.catalog.project())
    await store.writer.commit(agents.put_agent, _spec(definition))
    return _info(files, await store.reader.read(agents.process, record.key, store.now_ms()), definition, None)


async def rename_agent(asked: AgentRename, store: StoreAccess, files: ProjectFiles, memory: MemoryAccess) -> Response:
    """Turn an agent created at run time into an agent with a file, and keep its conversation."""
    record = _ephemeral(store, files, asked.name)
    spec = file_spec(files.catalog.agent(asked.to))
    await store.writer.commit(steering.rename, record.key, spec)
    await _promote_context(files, record, spec.key)
    await store.homes.forget(record.key, None)
    await memory.history.reindex(record.key)
    await store.mirror.redo()
    return json_reply({"renamed": record.key, "to": spec.key})


async def remove_agent(asked: OfAgent, store: StoreAccess, files: ProjectFiles, memory: MemoryAccess) -> Response:
    """Delete an idle agent with its conversation.

    Refused for an agent with a file. An agent created at run time whose name now has a file is kept, and uses the file.
    """
    name = asked.name
    in_files = files.catalog.defines(name)
    record = store.reader.now(agents.row, name)
    if record is not None and record.origin == "ephemeral" and in_files:
        await store.writer.commit(agents.put_agent, file_spec(files.catalog.agent(name)))
        await _promote_context(files, record, name)
        return json_reply({"deleted": name})
    # The agent has no file, or was created at run time. Else Refused: unknown_agent, conflict.
    gone = (record is None or record.origin == "file") and not in_files
    key = AgentKey(name) if gone else _ephemeral(store, files, name).key
    await store.writer.commit(delete_agent, key)
    if record is not None and not gone:
        await trio.to_thread.run_sync(files.contexts.forget, key)
    await store.homes.forget(key, None)
    await memory.history.redo()
    await store.mirror.redo()
    return json_reply({"deleted": key})


async def _promote_context(files: ProjectFiles, record: AgentRecord, name: str) -> None:
    source, target = files.contexts.place(record.key, record), files.contexts.place(name, None)
    await trio.to_thread.run_sync(files.contexts.move, source, target)


def _definition(record: AgentRecord) -> AgentDefinition:
    if record.definition is None:
        return AgentDefinition(name=record.name, model=record.model)
    return msgspec.json.decode(record.definition, type=AgentDefinition)


def _spec(definition: AgentDefinition) -> AgentSpec:
    return AgentSpec(key=AgentKey(definition.name), origin="ephemeral", definition=msgspec.json.encode(definition))


def _ephemeral(store: StoreAccess, files: ProjectFiles, name: str) -> AgentRecord:
    """Return an agent that was created at run time. Raises Refused: unknown_agent, conflict."""
    record = store.reader.now(agents.row, name)
    if record is not None and record.origin == "ephemeral":
        return record
    raise Refused(
        "conflict", f"agent {name} is defined in {files.catalog.agent(name).path}", "edit or delete that file"
    )


Change = Callable[[Transaction, AgentKey], tuple[InstructionId, ...] | None]


async def reset_agent(asked: OfAgent, store: StoreAccess, files: ProjectFiles) -> AgentChanged:
    """Re-enable an agent in any state, such as one that was stopped after repeated failures."""
    return await _change(asked, store, files, steering.reset_agent)


async def stop_agent(
    asked: StopAgentRequest, store: StoreAccess, files: ProjectFiles, processes: ProcessControl
) -> AgentChanged:
    """Stop an agent. It receives no work until it is resumed or reset, and its running work is cancelled.

    The answer is sent when all its processes have exited, with ``?wait=false`` immediately.
    """
    answer = await _change(asked, store, files, steering.stop_agent)
    if asked.wait:
        key = agent_key(store, asked.name)
        await processes.attempts.until_gone(lambda leased: key in (leased.agent, group_of(leased.agent)))
    return answer


async def restart_agent(
    asked: OfAgent, store: StoreAccess, files: ProjectFiles, processes: ProcessControl
) -> AgentChanged:
    """Reset an agent and continue its current work in a new worker, after its last entry."""
    answer = await _change(asked, store, files, steering.reset_agent)
    processes.attempts.interrupt(agent_key(store, asked.name))
    return answer


async def pause_agent(asked: OfAgent, store: StoreAccess, files: ProjectFiles) -> AgentChanged:
    """Pause an agent. It receives no new work; running work yields after its next entry."""
    return await _change(asked, store, files, steering.pause_agent)


async def resume_agent(asked: OfAgent, store: StoreAccess, files: ProjectFiles) -> AgentChanged:
    """Resume an agent that is paused, stopped, or waiting for a provider or a key. Closed models are asked again."""
    return await _change(asked, store, files, steering.resume_agent)


async def continue_agent(asked: OfAgent, store: StoreAccess, files: ProjectFiles) -> AgentChanged:
    """Renew the budget of an agent that has reached its limit."""
    return await _change(asked, store, files, steering.continue_agent)


async def _change(asked: OfAgent, store: StoreAccess, files: ProjectFiles, change: Change) -> AgentChanged:
    key = agent_key(store, asked.name)
    if store.reader.now(agents.row, key) is None:
        # The file may be newer than the last scan. Raises Refused (unknown_agent), BadDefinition.
        loaded = files.catalog.agent(key)
        definition = msgspec.json.encode(loaded.definition)
        spec = AgentSpec(key=AgentKey(key), origin="file", file=loaded.path, definition=definition)
        await store.writer.commit(agents.put_agents, [spec])

    def make(tx: Transaction) -> AgentChanged:
        freed = change(tx, key) or ()
        # Show the decision immediately: running work may yield only after its next entry.
        record, looks = agents.row(tx.conn, key), agents.process(tx.conn, key, tx.now_ms)
        assert record is not None, key
        assert looks is not None, key
        decided = record.state != "active"
        return AgentChanged(
            name=record.name,
            space=None if record.home_space is None else place_of(record.home_space),
            state=looks.shown.state if record.state == "active" else record.state,
            reason=record.reason if decided else looks.shown.reason,
            until=None if decided else looks.shown.until,
            instructions=freed,
        )

    return await store.writer.commit(make)


AGENT = "/agents/<name>"
OPERATIONS = (
    operation(list_agents, "GET /agents", manage=ToolFront("agents_list")),
    operation(create_agent, "POST /agents", status=201, scope="admin"),
    operation(show_agent, f"GET {AGENT}", manage=ToolFront("agents_info")),
    operation(update_agent, f"PATCH {AGENT}", body_optional=False, scope="admin"),
    operation(remove_agent, f"DELETE {AGENT}", answers=AgentRow, scope="admin"),
    operation(rename_agent, f"POST {AGENT}/rename", answers=AgentRow, scope="admin"),
    operation(reset_agent, f"POST {AGENT}/reset"),
    operation(pause_agent, f"POST {AGENT}/pause"),
    operation(resume_agent, f"POST {AGENT}/resume"),
    operation(stop_agent, f"POST {AGENT}/stop?wait", waits=True),
    operation(restart_agent, f"POST {AGENT}/restart"),
    operation(continue_agent, f"POST {AGENT}/continue", scope="approve"),
)
