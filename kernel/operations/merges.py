"""Merges of the work of a run, and checks of it."""

from typing import Annotated

import msgspec

from kernel.operations.answers import BYE, Response, json_reply
from kernel.operations.context import KernelControl, ProcessControl, ProjectFiles, StoreAccess, run_asked
from kernel.operations.operation import Wait, operation
from kernel.policy.landing import TRANSITIONS
from kernel.source.diagnostics import BadDefinition
from kernel.store import agents, run_outcomes
from kernel.store.transaction import Transaction
from kernel.store.transitions import landings
from kernel.store.transitions.landings import Landing, plan_landing, request_landing
from kernel.workflows.instruction_prompt import definition_for
from protocol.agent import AgentDefinition
from protocol.api import runs
from protocol.api.document import Ask
from protocol.api.runs import CheckReport, MergeInfo
from protocol.errors import Refused
from protocol.names import number_of, run_id
from protocol.tasks import CHECK_CHARACTERS


class MergeRequest(runs.MergeRequest, frozen=True, kw_only=True):
    """POST /runs/:run/merge. Unset options come from the workflow's ``deliver``."""

    run: str


class ShowMergeRequest(Ask, frozen=True, kw_only=True):
    """Merge to show."""

    run: str
    id: Annotated[str, msgspec.Meta(description="Id of a merge, such as g3.")] | None = None
    wait: Wait = False


class CheckRequest(Ask, frozen=True, kw_only=True):
    """POST /runs/:run/check: shell command that checks the agents' changes in the project."""

    run: str
    check: Annotated[str, msgspec.Meta(min_length=1, max_length=CHECK_CHARACTERS)]


async def request_merge(asked: MergeRequest, store: StoreAccess, processes: ProcessControl) -> MergeInfo | Response:
    """Add the work of a run to the merge queue of its repository. A dry run returns the expected result."""
    record = store.reader.now(run_asked, asked.run)
    deliver = store.reader.now(run_outcomes.expected, record.id).deliver
    if asked.dry_run:
        plan = store.reader.now(plan_landing, record, asked, deliver)
        return json_reply(await processes.landings.preview(record, plan))

    def make(tx: Transaction) -> MergeInfo:
        return landings.info_of(request_landing(tx, record, plan_landing(tx.conn, record, asked, deliver)))

    return await store.writer.commit(make)


async def show_merge(asked: ShowMergeRequest, store: StoreAccess, kernel: KernelControl) -> MergeInfo:
    """Return a merge of a run, by default the newest. With ``wait=true``, answer after it has ended."""
    record = store.reader.now(run_asked, asked.run)

    def find() -> Landing:
        if asked.id is None:
            found = store.reader.now(landings.newest, record.id)
            text = f"no merge of {run_id(record.id)} was requested"
        else:
            found = store.reader.now(landings.by_id, number_of(asked.id, "g") or 0)
            text = f"merge {asked.id[:40]!r} of {run_id(record.id)} not found"
        if found is None or found.run != record.id:
            raise Refused("not_found", text, f"start one with `awk merge {run_id(record.id)}`")
        return found

    with store.feed.subscribe(
        types={"merge.ended", BYE}, wanted=lambda event: event.type == BYE or event.data.get("run") == run_id(record.id)
    ) as events:
        while TRANSITIONS[(found := find()).state] and asked.wait:
            if kernel.shutdown.closing.is_set():
                raise Refused("stopping", "the kernel is stopping; the next kernel continues the merge")
            await anext(events)
    return landings.info_of(found)


async def check_run(asked: CheckRequest, store: StoreAccess, files: ProjectFiles) -> CheckReport:
    """Run a command in the project that checks the changes of an ended run.

    The command runs like every check: in a keeper, within the limits of each agent of the run, and in a sandbox if any
    agent is confined or its setting is no longer known.
    """
    record = store.reader.now(run_asked, asked.run)
    if record.state == "running":
        raise Refused("bad_request", f"{run_id(record.id)} is still running: a check needs an ended run")
    definitions: list[AgentDefinition] = []
    for member in store.reader.now(agents.members, record.space):
        try:
            definitions.append(definition_for(member.key, record.space, files.catalog, store.reader))
        except (Refused, BadDefinition):  # Without a valid definition, the forbidden paths are unknown.
            definitions.append(AgentDefinition(name=member.name, sandbox="on"))
    outcome = await files.worktrees.checks.check_run(
        record,
        asked.check,
        [one.limits for one in definitions],
        confined=any(one.sandbox == "on" for one in definitions),
    )
    return CheckReport(run=run_id(record.id), ok=outcome.why is None, why=outcome.why or "", output=outcome.output)


OPERATIONS = (
    operation(
        request_merge,
        "POST /runs/<run>/merge",
        status=202,
        statuses=(200,),
        scope="approve",
        trusts=lambda asked: asked.check is not None,  # An empty check removes the file's check.
    ),
    operation(show_merge, "GET /runs/<run>/merge", waits=True),
    operation(check_run, "POST /runs/<run>/check", scope="admin", waits=True),
)
