"""Messages: say something to an agent or in a workspace, and see what became of it."""

import msgspec

from kernel.agents.catalog import Catalog
from kernel.agents.trust import Say
from kernel.api.context import Services
from kernel.api.http.not_running import not_running
from kernel.api.http.route import Call
from kernel.api.http.vouch import vouched
from kernel.rule.draft import Draft
from kernel.store import messages, standing, workflows
from kernel.store.commits.append import Appended, append
from kernel.store.commits.roster import AgentSpec, put_agents
from kernel.store.reader import Reader
from kernel.store.requests import RequestKey
from kernel.store.unasked import all_unasked
from protocol.api.messages import MessageReport, SendReceipt, SendRequest
from protocol.api.runs import RunRequest
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import AgentKey, number_of
from protocol.target import Target, TargetRejected, parse_target


async def send(services: Services, call: Call[SendRequest]) -> SendReceipt:
    """POST /messages: durable when it is answered."""
    body = call.body
    appended = await say(services, body.to, body.text, call.request_key, say_of(services, body))
    stands = services.reader.now(standing.of, appended.instruction_ids, services.now_ms())
    held = {str(one): str(how.reason) for one, how in stands.items() if how.kind == "person"}
    keyless = [one for one, reason in held.items() if reason == "credentials"]
    return SendReceipt(
        message_id=appended.message_id,
        instruction_ids=appended.instruction_ids,
        not_woken=appended.not_woken,
        held=held,
        unasked=services.reader.now(all_unasked, keyless) if keyless else {},
    )


async def report(services: Services, call: Call[None]) -> MessageReport:
    """GET /messages/:id: the message and its receipts."""
    seq = number_of(call.args["id"], "m")
    found = None if seq is None else services.reader.now(messages.report, seq)
    if found is None:
        raise Refused("not_found", f"there is no message {call.args['id'][:40]!r}", hint="ids look like m17")
    return found


async def say(services: Services, to: str, text: str, key: RequestKey | None, trust: Say) -> Appended:
    """Append what the user says to ``to``. The key and its answer are recorded in the same transaction.

    What the file of an agent would run needs trust here; in a workspace the start of its workflow asked for it.
    """
    try:
        target = parse_target(to)
    except TargetRejected as error:
        raise Refused("bad_target", str(error)) from error
    if not text.strip():
        raise Refused("bad_request", "the message is empty")
    grant: tuple[str, ...] = ()
    if target.workflow is None:
        grant = vouched(services, target.agent or "", trust)
    draft = draft_to(services.reader, target, text, grant)
    try:
        return await services.writer.commit(append, draft, request=key)
    except Refused as refused:
        if refused.code == "workflow_not_running":
            raise not_running(services, target.space) from None
        if refused.code != "unknown_agent" or target.agent is None:
            raise
        await services.writer.commit(put_agents, [_new_agent(services.catalog, target.agent)])
    return await services.writer.commit(append, draft, request=key)


def say_of(services: Services, body: SendRequest | RunRequest) -> Say:
    """What is trusted for one request."""
    return Say(everything=body.trust or services.trusted, agreed=frozenset(body.agree), kept=services.kept)


def draft_to(reader: Reader, target: Target, text: str, grant: tuple[str, ...]) -> Draft:
    """What the user says to ``target``, of a workflow in the space of its newest run, and what it may have done."""
    to = () if target.agent is None else (target.agent,)
    record = None if target.workflow is None else reader.now(workflows.newest_at, target.space)
    return Draft(
        kind="said",
        space=target.space if record is None else record.space,
        sender=USER,
        text=text,
        to=to,
        vouched=grant,
    )


def _new_agent(catalog: Catalog, name: str) -> AgentSpec:
    """An agent whose file came after the kernel last looked. Raises Refused (unknown_agent), BadDefinition."""
    loaded = catalog.agent(name)
    return AgentSpec(
        key=AgentKey(name), origin="file", file=loaded.path, definition=msgspec.json.encode(loaded.definition)
    )
