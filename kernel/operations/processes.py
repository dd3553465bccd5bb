"""The process table: agents with their work and the resource usage of their workers."""

from typing import Annotated, Final

import msgspec
import trio

from kernel.operations import needs
from kernel.operations.context import ProcessControl, ProjectFiles, StoreAccess, agent_key
from kernel.operations.operation import operation
from kernel.operations.resource_usage import ResourceUsage
from kernel.policy.agent_status import urgency
from kernel.store import agents, work_notes
from kernel.store.instruction_views import queue
from kernel.store.rows import RowPage
from protocol.api.document import Ask
from protocol.api.processes import Ps, PsRow

AGES: Final = ("age_s", "step_age_s", "silent_s")
UNREAD: Final = "agent files are still being read (there are many); a message to an agent reads its file immediately"


class PsRequest(Ask, frozen=True, kw_only=True):
    """Filter of the process table."""

    all: Annotated[bool, msgspec.Meta(description="Include agents of workflows that have ended.")] = False
    idle: Annotated[
        int | None, msgspec.Meta(ge=0, description="Maximum number of idle agents to list; more are only counted.")
    ] = None
    agent: Annotated[str, msgspec.Meta(description="Only this agent, with its queue.")] | None = None


async def list_processes(asked: PsRequest, store: StoreAccess, files: ProjectFiles, processes: ProcessControl) -> Ps:
    """List the process table: all agents with the resource usage of their workers, the most urgent first.

    Order: agents in error, those that need a person, running, waiting, paused or stopped, and idle ones.
    ``all=true`` includes agents of workflows that have ended.
    """
    now_ms = store.now_ms()
    key = None if asked.agent is None else agent_key(store, asked.agent)
    if key is None:
        table, omitted = await store.reader.read(agents.ps_page, now_ms, ended=asked.all, most_idle=asked.idle)
    else:
        one, omitted = await store.reader.read(agents.process, key, now_ms), 0
        table = () if one is None else (one,)
    said = await store.reader.read(work_notes.latest, tuple(one.key for one in table))
    activity, kept = processes.attempts.activity(), processes.attempts.kept()
    alive = {one.key: activity.get(one.instruction or "") or kept.get(one.key) for one in table}
    pids: dict[str, int] = {key: live.pid for key, live in alive.items() if live is not None and live.pid}
    usage = await trio.to_thread.run_sync(processes.resources.measure, pids, now_ms) if pids else {}
    rows: list[PsRow] = []
    silent = {key for key, live in alive.items() if live is not None and live.elapsed and live.elapsed.is_quiet}
    for process in sorted(table, key=lambda one: urgency(one.status, silent=one.key in silent)):
        row, live = process.shown, alive[process.key]
        if live is not None:
            used = usage.get(process.key, ResourceUsage())
            ages = {} if live.elapsed is None else {key: round(getattr(live.elapsed, key), 1) for key in AGES}
            row = msgspec.structs.replace(
                row,
                pid=live.pid,
                doing=live.doing,
                model=live.model or row.model,
                cpu_percent=used.cpu_percent,
                rss_bytes=used.rss_bytes,
                **ages,
            )
        diff, status = files.worktrees.diffs.stat(row.space, row.name), said.get(process.key)
        rows.append(msgspec.structs.replace(row, diff=diff, status=status))
    definitions = await files.definitions()
    # Errors in the project file are reported elsewhere: they hide no agent.
    survey = definitions.scan if definitions is not None else None
    broken = () if survey is None else survey.broken
    stored = await store.reader.read(agents.all) if broken and omitted else ()
    known = {row.name for row in rows} | {one.name for one in stored}
    never_valid = [
        PsRow(name=name, space=None, state="error", reason="definition", doing=f"{errors[0].path}: {errors[0].message}")
        for name, errors in broken
        if name not in known and asked.agent in (None, name)
    ]
    waiting = await needs.untrusted_schedules(store, files.trust)
    notices = (UNREAD if definitions is None else None, needs.untrusted_notice(waiting))
    return Ps(
        agents=(*never_valid, *rows),
        idle=omitted,
        needs=await needs.number(store, files, processes, waiting),
        notice="; ".join(part for part in notices if part) or None,
        queue=None if key is None else await store.reader.read(queue, key, now_ms, RowPage()),
    )


OPERATIONS = (operation(list_processes, "GET /ps"),)
