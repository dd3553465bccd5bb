"""The process table: agents as the store knows them, with what their workers use right now."""

from collections.abc import Mapping, Sequence

import msgspec
import trio

from kernel.agents.catalog import Catalog, Survey
from kernel.api.context import Activity, Services
from kernel.api.http.route import Call
from kernel.api.http.untrusted import untrusted_notice
from kernel.api.process_table import Load
from kernel.source.problems import BadDefinition
from kernel.store import agents
from protocol.api.problem import FileError
from protocol.api.processes import Ps, PsRow
from protocol.api.worktrees import DiffStat


async def ps(services: Services, _call: Call[None]) -> Ps:
    """GET /ps."""
    now_ms = services.now_ms()
    processes = await services.reader.read(agents.ps, now_ms)
    activity = services.activity()
    pids = {name: live.pid for name, live in activity.items() if live.pid}
    loads: dict[str, Load] = {}
    if pids:
        loads = await trio.to_thread.run_sync(services.processes.measure, pids, now_ms)
    rows = [_row(process, activity, loads) for process in processes]
    known = {row.name for row in rows}
    survey = await trio.to_thread.run_sync(_survey, services.catalog)
    broken = (_broken(name, errors) for name, errors in survey.broken if name not in known)
    agents_now = (*(_with_diff(row, services.diff_stat(row.space, row.name)) for row in rows), *broken)
    return Ps(agents=agents_now, notice=await untrusted_notice(services))


def _survey(catalog: Catalog) -> Survey:
    """Every agent file; where the project file is wrong that is told elsewhere, and no agent is missing for it."""
    try:
        return catalog.survey()
    except BadDefinition:
        return Survey((), ())


def _broken(name: str, errors: Sequence[FileError]) -> PsRow:
    """An agent that never had a sound file: who looks for it here finds out why it does nothing."""
    first = errors[0]
    return PsRow(name=name, space=None, state="error", reason="definition", doing=f"{first.path}: {first.message}")


def _with_diff(row: PsRow, diff: DiffStat | None) -> PsRow:
    return row if diff is None else msgspec.structs.replace(row, diff=diff)


def _row(process: agents.Process, activity: Mapping[str, Activity], loads: Mapping[str, Load]) -> PsRow:
    live = activity.get(process.instruction or "")
    if live is None:
        return process.shown
    load = loads.get(process.instruction or "", Load())
    return msgspec.structs.replace(
        process.shown,
        pid=live.pid,
        doing=live.doing,
        cpu_percent=load.cpu_percent,
        rss_bytes=load.rss_bytes,
    )
