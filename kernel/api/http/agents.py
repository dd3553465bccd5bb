"""Agents: those of the project's files, which are edited there, and those made at run time, which are edited here.

What people do to an agent's work: hold it back, let it go on, begin it anew. Agents are named by their keys.

The process table: agents as the store knows them, with what their workers use right now.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import trio

from kernel.agents.catalog import AgentScan, Catalog, agent_from_request
from kernel.agents.registration import file_spec
from kernel.agents.sandbox import sandbox_state
from kernel.api.context import AttemptActivity, Services
from kernel.api.http.route import Request, once, page_of
from kernel.api.http.spaces import agent_key, space_of
from kernel.api.http.trust_notice import untrusted_notice
from kernel.api.resource_usage import ResourceUsage
from kernel.api.responses import Response, json_reply
from kernel.source.diagnostics import BadDefinition, place_text
from kernel.store import agents, instruction_views, messages
from kernel.store.agents import AgentRecord, AgentSpec, Process, put_agent, put_agents
from kernel.store.transaction import Transaction
from kernel.store.transitions import steering
from kernel.store.transitions.clear import delete_agent
from kernel.store.transitions.steering import rename
from protocol.agent import AgentDefinition
from protocol.api.agents import (
    AgentChanged,
    AgentInfo,
    AgentList,
    AgentMade,
    AgentPatch,
    AgentRename,
    AgentRequest,
    AgentRow,
    as_written,
)
from protocol.api.instructions import QueueReport
from protocol.api.messages import Inbox
from protocol.api.problem import FileError
from protocol.api.processes import Ps, PsRow
from protocol.api.worktrees import DiffStat
from protocol.errors import Refused
from protocol.names import (
    DEFAULT_TAG,
    AgentKey,
    InstructionId,
    NameRejected,
    check_name,
    name_of,
    place_of,
    split_space,
)

_decoder = msgspec.json.Decoder(AgentDefinition)


async def list_(services: Services, _call: Request[None]) -> AgentList:
    """GET /agents: what the files say now, the agents made at run time, and those of running workflows."""
    processes = await services.reader.read(agents.ps, services.now_ms())
    states = {process.key: process.shown.state for process in processes}
    records = services.reader.now(agents.all)
    try:
        survey = await trio.to_thread.run_sync(services.catalog.survey)
    except BadDefinition as error:  # of the project file: as long as that is wrong, no agent's file is taken over
        broken = tuple((record.key, error.errors) for record in records if record.origin == "file")
        survey = AgentScan((), error.errors, broken)
    rows = [
        *_file_rows(survey, states),
        *_broken_rows(survey, records, states),
        *_ephemeral_rows(records, states),
        *_workflow_rows(processes),
    ]
    return AgentList(agents=tuple(sorted(rows, key=lambda row: row.name)))


async def show(services: Services, call: Request[None]) -> AgentInfo:
    """GET /agents/:name: as it is shown in the list, and its definition."""
    name = call.args["name"]
    record = services.reader.now(agents.row, name)
    spaces = services.reader.now(agents.workspaces, AgentKey(name))
    looks = await services.reader.read(agents.process, name, services.now_ms())
    if record is not None and record.origin == "ephemeral":
        return _info(services, looks, _definition(record), None, spaces)
    loaded = services.catalog.agent(name)
    return _info(services, looks, loaded.definition, loaded.path, spaces)


async def create(services: Services, call: Request[AgentRequest]) -> Response:
    """POST /agents: an agent that lives until a clean stop. Without a name it gets one."""
    request = call.body
    name = _free_name(services, request.name)
    definition = agent_from_request(request, name, services.catalog.project())
    made = AgentMade(
        name=definition.name,
        model=definition.model,
        backend=definition.backend,
        file=None,
        ephemeral=True,
        state="idle",
    )

    def make(tx: Transaction) -> AgentMade:
        if agents.row(tx.conn, name) is not None:
            raise _taken(name)
        put_agent(tx, _spec(definition))
        return made

    return Response(201, await services.writer.commit(once, call.request_key, make, status=201))


async def update(services: Services, call: Request[AgentPatch]) -> AgentInfo:
    """PATCH /agents/:name: an agent made at run time. What was given replaces what was."""
    record = _ephemeral(services, call.args["name"])
    old = _definition(record)
    patch = call.body
    request = AgentRequest(
        model=patch.model if patch.model is not None else old.model,
        backend=patch.backend or old.backend,
        system=patch.system if patch.system is not None else old.prompt.system,
        mock=patch.mock if patch.mock is not None else msgspec.to_builtins(old.mock) or None,
        provider=patch.provider if patch.provider is not None else msgspec.to_builtins(old.provider),
    )
    definition = agent_from_request(request, record.name, services.catalog.project())
    await services.writer.commit(put_agent, _spec(definition))
    looks = await services.reader.read(agents.process, record.key, services.now_ms())
    return _info(services, looks, definition, None)


async def become(services: Services, call: Request[AgentRename]) -> Response:
    """POST /agents/:name/rename {to}: an agent made at run time becomes the one of a file, with what was said to it."""
    record = _ephemeral(services, call.args["name"])
    spec = file_spec(services.catalog.agent(call.body.to))
    await services.writer.commit(rename, record.key, spec)
    await services.forget_homes(record.key, None)
    await services.mirror_redo()
    return json_reply({"renamed": record.key, "to": spec.key})


async def delete(services: Services, call: Request[None]) -> Response:
    """DELETE /agents/:name: an agent that has nothing to do, and what was said to it.

    One made at run time, or one whose file is gone: files are deleted by whoever edits them. One made at run time that
    has a file of its name by now becomes the agent of that file; its queue stays, and what was said to it.
    """
    name = call.args["name"]
    record = services.reader.now(agents.row, name)
    if record is not None and record.origin == "ephemeral" and name in services.catalog.names():
        await services.writer.commit(put_agent, file_spec(services.catalog.agent(name)))
        return json_reply({"deleted": name})
    # The key of an agent without a file, or of one that was known once. Raises Refused: unknown_agent, conflict.
    key: AgentKey
    record = services.reader.now(agents.row, name)
    if (record is None or record.origin == "file") and name not in services.catalog.names():
        key = AgentKey(name)
    else:
        key = _ephemeral(services, name).key
    await services.writer.commit(delete_agent, key)
    await services.forget_homes(key, None)
    await services.mirror_redo()
    return json_reply({"deleted": key})


async def queue(services: Services, call: Request[None]) -> QueueReport:
    """GET /agents/:name/queue: what it does and what waits for it."""
    name = agent_key(services, call.args["name"])
    check_known(services, name)
    return await services.reader.read(instruction_views.queue, name, services.now_ms(), page_of(call, "after", "i"))


async def inbox(services: Services, call: Request[None]) -> Inbox:
    """GET /agents/:name/inbox?space=: what it has not handled there; without a space, in the one it lives in."""
    name = agent_key(services, call.args["name"])
    record = check_known(services, name)
    home = record.home_space if record is not None and record.home_space else f"dm:{name}"
    asked = call.query.get("space")
    space = home if asked is None else space_of(services, asked)
    page = page_of(call, "after", "m", default=messages.DELIVERIES_LIMIT)
    found = await services.reader.read(messages.inbox, name, space, page.limit + 1, page.after or 0)
    rows, following = page.cut(found, lambda row: row.message_id)
    total = services.reader.now(messages.count, name, space)
    return Inbox(agent=name_of(name), space=place_of(space), deliveries=rows, total=total, next=following)


def check_known(services: Services, name: str) -> AgentRecord | None:
    """The agent, or None where only its file is there yet. Raises Refused (unknown_agent)."""
    record = services.reader.now(agents.row, name)
    if record is None:
        services.catalog.agent(name)
    return record


def _file_rows(survey: AgentScan, states: Mapping[AgentKey, str]) -> Iterator[AgentRow]:
    for loaded in survey.loaded:
        name = loaded.definition.name
        yield _row(loaded.definition, loaded.path, states.get(AgentKey(name), "idle"))


def _broken_rows(
    survey: AgentScan, records: Iterable[AgentRecord], states: Mapping[AgentKey, str]
) -> Iterator[AgentRow]:
    """What a file said when it was right last counts; only an agent that never had such a file is in error by it."""
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


def _ephemeral_rows(records: Iterable[AgentRecord], states: Mapping[AgentKey, str]) -> Iterator[AgentRow]:
    for record in records:
        if record.origin == "ephemeral":
            yield _row(_definition(record), None, states.get(record.key, "idle"))


def _workflow_rows(processes: Iterable[Process]) -> Iterator[AgentRow]:
    """The agents that are defined inside workflows which run; those have no other name than their target."""
    for process in processes:
        name, at, space = process.key.partition("@")
        if at:
            place = place_of(space)
            workflow, tag = split_space(place)
            yield AgentRow(
                name=f"{name}@{workflow}" if tag == DEFAULT_TAG else f"{name}@{place}",
                model=process.shown.model,
                backend=process.shown.backend,
                file=None,
                ephemeral=False,
                state=process.shown.state,
                source="workflow",
            )


def _row(definition: AgentDefinition, file: str | None, state: str) -> AgentRow:
    return AgentRow(
        name=definition.name,
        model=definition.model,
        backend=definition.backend,
        file=file,
        ephemeral=file is None,
        state=state,
        source="file" if file is not None else "ephemeral",
    )


def _info(
    services: Services,
    looks: Process | None,
    definition: AgentDefinition,
    file: str | None,
    workspaces: tuple[str, ...] = (),
) -> AgentInfo:
    return AgentInfo(
        name=definition.name,
        model=definition.model,
        backend=definition.backend,
        file=file,
        ephemeral=file is None,
        state="idle" if looks is None else looks.shown.state,
        reason=None if looks is None else looks.shown.reason,
        until=None if looks is None else looks.shown.until,
        definition=as_written(definition),
        workspaces=workspaces,
        sandbox=sandbox_state(definition, services.environ),
    )


def _definition(record: AgentRecord) -> AgentDefinition:
    if record.definition is None:
        return AgentDefinition(name=record.name, model=record.model)
    return _decoder.decode(record.definition)


def _spec(definition: AgentDefinition) -> AgentSpec:
    return AgentSpec(key=AgentKey(definition.name), origin="ephemeral", definition=msgspec.json.encode(definition))


def _ephemeral(services: Services, name: str) -> AgentRecord:
    """The agent, if it was made at run time. Raises Refused: unknown_agent, conflict."""
    record = services.reader.now(agents.row, name)
    if record is not None and record.origin == "ephemeral":
        return record
    raise Refused("conflict", f"{name} is defined in {services.catalog.agent(name).path}", "edit or delete that file")


def _free_name(services: Services, asked: str | None) -> str:
    taken = {*services.catalog.names(), *(record.key for record in services.reader.now(agents.all))}
    if asked is None:
        return next(name for name in (f"agent-{n}" for n in itertools.count(1)) if name not in taken)
    try:
        name = check_name(asked)
    except NameRejected as error:
        raise Refused("bad_request", str(error)) from error
    if name in services.catalog.names():
        raise _taken(name)
    return name


def _taken(name: str) -> Refused:
    return Refused("already_exists", f"there is an agent {name} already", hint="take another name")


Change = Callable[[Transaction, AgentKey], tuple[InstructionId, ...] | None]


async def reset(services: Services, call: Request[None]) -> Response:
    """POST /agents/:name/reset: give it work again at once, whatever state it was in."""
    return await _change(services, call, steering.reset_agent)


async def stop(services: Services, call: Request[None]) -> Response:
    """POST /agents/:name/stop: no work until it is resumed or reset; the dispatcher ends what it does."""
    return await _change(services, call, steering.stop_agent)


async def restart(services: Services, call: Request[None]) -> Response:
    """POST /agents/:name/restart: as reset, and what it does goes on in a new worker, after its last entry.

    Asked once more with the same key, it leaves alone what the agent does by then.
    """
    begun = False

    def reset_now(tx: Transaction, key: AgentKey) -> tuple[InstructionId, ...]:
        nonlocal begun
        begun = True
        return steering.reset_agent(tx, key)

    answer = await _change(services, call, reset_now)
    if begun:
        services.interrupt(agent_key(services, call.args["name"]))
    return answer


async def pause(services: Services, call: Request[None]) -> Response:
    """POST /agents/:name/pause: no new work; what runs gives way after its next entry."""
    return await _change(services, call, steering.pause_agent)


async def resume(services: Services, call: Request[None]) -> Response:
    """POST /agents/:name/resume: after a pause or a stop, or where it waits for a provider or a key."""
    return await _change(services, call, steering.resume_agent)


async def continue_(services: Services, call: Request[None]) -> Response:
    """POST /agents/:name/continue: its budget once more."""
    return await _change(services, call, steering.continue_agent)


async def _change(services: Services, call: Request[None], change: Change) -> Response:
    key = agent_key(services, call.args["name"])
    await make_known(services, key)

    def make(tx: Transaction) -> AgentChanged:
        freed = change(tx, key) or ()
        # What somebody decided comes first: what runs may give way only after its next entry.
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

    return Response(200, await services.writer.commit(once, call.request_key, make, status=200))


async def make_known(services: Services, key: str) -> None:
    """Register an agent whose file came after the kernel last looked. Raises Refused (unknown_agent), BadDefinition."""
    if services.reader.now(agents.row, key) is None:
        loaded = services.catalog.agent(key)
        definition = msgspec.json.encode(loaded.definition)
        spec = AgentSpec(key=AgentKey(key), origin="file", file=loaded.path, definition=definition)
        await services.writer.commit(put_agents, [spec])


async def ps(services: Services, _call: Request[None]) -> Ps:
    """GET /ps."""
    now_ms = services.now_ms()
    processes = await services.reader.read(agents.ps, now_ms)
    activity = services.activity()
    pids = {name: live.pid for name, live in activity.items() if live.pid}
    loads: dict[str, ResourceUsage] = {}
    if pids:
        loads = await trio.to_thread.run_sync(services.processes.measure, pids, now_ms)
    rows = [_processes_row(process, activity, loads) for process in processes]
    known = {row.name for row in rows}
    survey = await trio.to_thread.run_sync(_survey, services.catalog)
    broken = (_broken(name, errors) for name, errors in survey.broken if name not in known)
    agents_now = (*(_with_diff(row, services.diff_stat(row.space, row.name)) for row in rows), *broken)
    return Ps(agents=agents_now, notice=await untrusted_notice(services))


def _survey(catalog: Catalog) -> AgentScan:
    """Every agent file; where the project file is wrong that is told elsewhere, and no agent is missing for it."""
    try:
        return catalog.survey()
    except BadDefinition:
        return AgentScan((), ())


def _broken(name: str, errors: Sequence[FileError]) -> PsRow:
    """An agent that never had a sound file: who looks for it here finds out why it does nothing."""
    first = errors[0]
    return PsRow(name=name, space=None, state="error", reason="definition", doing=f"{first.path}: {first.message}")


def _with_diff(row: PsRow, diff: DiffStat | None) -> PsRow:
    return row if diff is None else msgspec.structs.replace(row, diff=diff)


def _processes_row(
    process: agents.Process, activity: Mapping[str, AttemptActivity], loads: Mapping[str, ResourceUsage]
) -> PsRow:
    live = activity.get(process.instruction or "")
    if live is None:
        return process.shown
    load = loads.get(process.instruction or "", ResourceUsage())
    return msgspec.structs.replace(
        process.shown,
        pid=live.pid,
        doing=live.doing,
        cpu_percent=load.cpu_percent,
        rss_bytes=load.rss_bytes,
    )
