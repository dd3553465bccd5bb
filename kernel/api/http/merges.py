"""Merges of what the agents of a run did, asked for by people and looked at until they have ended; and checks of it."""

import msgspec

from kernel.api.http.events import BYE
from kernel.api.http.route import Request
from kernel.operations.answer import Response
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, StoreAccess
from kernel.operations.places import run_asked
from kernel.policy.landing import TRANSITIONS
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, landings, run_outcomes
from kernel.store.landings import Landing
from kernel.store.transaction import Transaction
from kernel.store.transitions.landings import plan_landing, request_landing
from kernel.workflows.instruction_prompt import definition_for
from protocol.agent import AgentDefinition
from protocol.api.merges import CheckReport, CheckRequest, MergeInfo, MergeRequest
from protocol.errors import Refused
from protocol.events import Event
from protocol.names import number_of, run_id


async def request(call: Request[MergeRequest], store: StoreAccess, processes: ProcessControl) -> MergeInfo | Response:
    """POST /runs/:run/merge: put it into the queue of its repository. A dry run is answered with what it would be."""
    body = call.body
    record = store.reader.now(run_asked, call.args["run"])
    deliver = store.reader.now(run_outcomes.expected, record.id).deliver
    if body.dry_run:
        plan = store.reader.now(plan_landing, record, body, deliver)
        return Response(200, msgspec.json.encode(await processes.landings.preview(record, plan)))

    def make(tx: Transaction) -> MergeInfo:
        return landings.info_of(request_landing(tx, record, plan_landing(tx.conn, record, body, deliver)))

    return await store.writer.commit(make)


async def show(call: Request[None], store: StoreAccess, kernel: KernelControl) -> MergeInfo:
    """GET /runs/:run/merge?id=&wait=: the newest of the run, or the one; with ``wait=true`` once it has ended."""
    record = store.reader.now(run_asked, call.args["run"])
    waits = call.flag("wait")
    asked = call.query.get("id")

    def find() -> Landing:
        number = None if asked is None else number_of(asked, "g") or 0
        found = (
            store.reader.now(landings.newest, record.id) if number is None else store.reader.now(landings.by_id, number)
        )
        if found is None or found.run != record.id:
            text = (
                f"there is no merge {(asked or '')[:40]!r} of {run_id(record.id)}"
                if asked
                else (f"nobody asked to merge {run_id(record.id)} yet")
            )
            raise Refused("not_found", text, f"awk merge {run_id(record.id)}")
        return found

    def ends(event: Event) -> bool:
        return event.type == BYE or event.data.get("run") == run_id(record.id)

    with store.feed.subscribe(types={"merge.ended", BYE}, wanted=ends) as events:
        while TRANSITIONS[(found := find()).state] and waits:
            if kernel.shutdown.closing.is_set():
                raise Refused("stopping", "the kernel stops before it is merged; it goes on with the next one")
            await anext(events)
    return landings.info_of(found)


async def check(call: Request[CheckRequest], store: StoreAccess, files: ProjectFiles) -> CheckReport:
    """POST /runs/:run/check: run a command in the project over what was done there, once the run has ended.

    It is run as any check: in a keeper, within the limits of each agent of the run, and confined as soon as one of them
    is, or cannot be asked any more.
    """
    record = store.reader.now(run_asked, call.args["run"])
    if record.state == "running":
        raise Refused("bad_request", f"{run_id(record.id)} goes on: what it does is checked once it has ended")
    definitions: list[AgentDefinition] = []
    for member in store.reader.now(agents.members, record.space):
        try:
            definitions.append(definition_for(member.key, record.space, files.catalog, store.reader))
        except (Refused, BadDefinition):  # its file is gone or wrong: nobody knows what it was not to do
            definitions.append(AgentDefinition(name=member.name, sandbox="on"))
    outcome = await files.worktrees.checks.check_run(
        record,
        call.body.check,
        [one.limits for one in definitions],
        confined=any(one.sandbox == "on" for one in definitions),
    )
    return CheckReport(run=run_id(record.id), ok=outcome.why is None, why=outcome.why or "", output=outcome.output)
