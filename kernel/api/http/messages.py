"""Messages: say something to an agent or in a workspace, and see what became of it.

Whether a message may set an agent to work: what its file would run needs somebody's trust (promise P19).

The answer is kept for exactly the files it was given for: an edit, however small, has them read again. Without
that, every message would cost the parsing of YAML.
"""

from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from kernel.agents import trust
from kernel.agents.catalog import AGENTS, SUFFIX, Catalog
from kernel.agents.project import PROJECT_FILES
from kernel.agents.resources import resources_of
from kernel.agents.trust import TrustRequest, agent_units, demands
from kernel.api.context import Services
from kernel.api.http.route import Request
from kernel.api.http.workflows import not_running
from kernel.rule.draft import Draft
from kernel.source.diagnostics import BadDefinition
from kernel.source.files import Signature, signature
from kernel.store import agents, instructions, messages, workflows
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.idempotency import RequestKey
from kernel.store.instructions import all_unasked
from kernel.store.reader import Reader
from kernel.store.transitions.append import Appended, append
from protocol.agent import AgentDefinition
from protocol.api.messages import MessageReport, SendReceipt, SendRequest
from protocol.api.runs import RunRequest
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import AgentKey, number_of
from protocol.project import ProjectDefinition
from protocol.target import Target, TargetRejected, parse_target
from protocol.trust import TrustUnit

_definition: Final = msgspec.json.Decoder(AgentDefinition)


def require_trust(services: Services, name: str, say: TrustRequest) -> tuple[str, ...]:
    """What a message to ``name`` may have it do this time, to be kept with its work.

    Whoever makes an agent at run time vouches for it; what ``say`` says counts for a file. One that is wrong now counts
    as it was when it was right last. Raises Untrusted, and BadDefinition where it never was right.
    """
    try:
        catalog = services.catalog
        root = catalog.root
        own = signature(f"{root}/{AGENTS}/{name}{SUFFIX}")
        if own is None and name in catalog.names():  # defined elsewhere: by the project file
            return trust.require_trust(_units_of(catalog.agent(name).definition, catalog.project(), root), say)
        if own is None:
            record = services.reader.now(agents.row, name)
            if record is not None and record.origin == "file":
                services.catalog.agent(name)  # its file is gone: refused, with the names there are
            if record is None or record.definition is None or record.origin != "ephemeral":
                return ()
            return demands(_definition.decode(record.definition), services.catalog.project())
        project = tuple(signature(f"{root}/{file}") for file in PROJECT_FILES)
        return trust.require_trust(_units_of(*_read(root, name, own, project), root), say)
    except BadDefinition:
        record = services.reader.now(agents.row, name)
        if record is None or record.origin != "file" or record.definition is None:
            raise
        definition = _definition.decode(record.definition)
        return trust.require_trust(_units_of(definition, services.catalog.kept_project(), services.catalog.root), say)


@lru_cache(maxsize=1024)
def _read(
    root: Path, name: str, _own: Signature, _project: tuple[Signature | None, ...]
) -> tuple[AgentDefinition, ProjectDefinition]:
    catalog = Catalog(root)
    project = catalog.project()
    return catalog.agent(name, project).definition, project


def _units_of(definition: AgentDefinition, project: ProjectDefinition, root: Path) -> tuple[TrustUnit, ...]:
    """Other files may have a say in it, and are read each time. Raises BadDefinition for them."""
    return agent_units(definition, project, resources_of(definition, project, root))


async def send(services: Services, call: Request[SendRequest]) -> SendReceipt:
    """POST /messages: durable when it is answered."""
    body = call.body
    appended = await deliver(services, body.to, body.text, call.request_key, say_of(services, body))
    stands = services.reader.now(instructions.of, appended.instruction_ids, services.now_ms())
    held = {str(one): str(how.reason) for one, how in stands.items() if how.kind == "person"}
    keyless = [one for one, reason in held.items() if reason == "credentials"]
    return SendReceipt(
        message_id=appended.message_id,
        instruction_ids=appended.instruction_ids,
        not_woken=appended.not_woken,
        held=held,
        unasked=services.reader.now(all_unasked, keyless) if keyless else {},
    )


async def show(services: Services, call: Request[None]) -> MessageReport:
    """GET /messages/:id: the message and its receipts."""
    seq = number_of(call.args["id"], "m")
    found = None if seq is None else services.reader.now(messages.report, seq)
    if found is None:
        raise Refused("not_found", f"there is no message {call.args['id'][:40]!r}", hint="ids look like m17")
    return found


async def deliver(services: Services, to: str, text: str, key: RequestKey | None, trust: TrustRequest) -> Appended:
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
        grant = require_trust(services, target.agent or "", trust)
    draft = draft_to(services.reader, target, text, grant)
    try:
        return await services.writer.commit(append, draft, request=key)
    except Refused as refused:
        if refused.code == "workflow_not_running":
            raise not_running(services, target.space) from None
        if refused.code != "unknown_agent" or target.agent is None:
            raise
        # An agent whose file came after the kernel last looked. Raises Refused (unknown_agent), BadDefinition.
        loaded = services.catalog.agent(target.agent)
        await services.writer.commit(
            put_agents,
            [
                AgentSpec(
                    key=AgentKey(target.agent),
                    origin="file",
                    file=loaded.path,
                    definition=msgspec.json.encode(loaded.definition),
                )
            ],
        )
    return await services.writer.commit(append, draft, request=key)


def say_of(services: Services, body: SendRequest | RunRequest) -> TrustRequest:
    """What is trusted for one request."""
    return TrustRequest(body.trust or services.trusted, frozenset(body.agree), services.kept)


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
