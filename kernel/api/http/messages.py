"""Messages: sent to an agent or a workspace, and shown with their receipts.

A message may set an agent to work, and what the agent's file would run needs trust (promise P19). A definition is kept
for exactly the files it was read from, and an edit, however small, has them read again: without that, every message
would cost the parsing of YAML.
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
from kernel.api.context import ProjectFiles, StoreAccess
from kernel.api.http.route import Request
from kernel.api.http.workflows import not_running
from kernel.rule.draft import Draft
from kernel.source.diagnostics import BadDefinition
from kernel.source.files import Signature, signature
from kernel.store import agents, instructions, messages, workflows
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.idempotency import RequestKey
from kernel.store.instructions import all_missing_credentials
from kernel.store.reader import Reader
from kernel.store.transitions.append import Appended
from protocol.agent import AgentDefinition
from protocol.api.messages import MessageReport, SendReceipt, SendRequest
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import AgentKey, number_of
from protocol.project import ProjectDefinition
from protocol.target import Target, TargetRejected, parse_target
from protocol.trust import TrustUnit

_definition: Final = msgspec.json.Decoder(AgentDefinition)


def require_trust(store: StoreAccess, files: ProjectFiles, name: str, say: TrustRequest) -> tuple[str, ...]:
    """The demands that are granted to ``name`` for this message, to be kept with its work.

    Whoever makes an agent at run time trusts it by that; ``say`` decides over a file. One that is wrong now counts as
    it was when it was right last. Raises Untrusted, and BadDefinition where it never was right.
    """
    catalog, root = files.catalog, files.catalog.root
    try:
        own = signature(f"{root}/{AGENTS}/{name}{SUFFIX}")
        if own is None and name in catalog.names():  # defined elsewhere: by the project file
            return trust.require_trust(_units_of(catalog.agent(name).definition, catalog.project(), root), say)
        if own is None:
            record = store.reader.now(agents.row, name)
            if record is not None and record.origin == "file":
                catalog.agent(name)  # its file is gone: refused, with the names there are
            if record is None or record.definition is None or record.origin != "ephemeral":
                return ()
            return demands(_definition.decode(record.definition), catalog.project())
        project = tuple(signature(f"{root}/{file}") for file in PROJECT_FILES)
        return trust.require_trust(_units_of(*_defined_by(root, name, own, project), root), say)
    except BadDefinition:
        record = store.reader.now(agents.row, name)
        if record is None or record.origin != "file" or record.definition is None:
            raise
        definition = _definition.decode(record.definition)
        return trust.require_trust(_units_of(definition, catalog.kept_project(), root), say)


@lru_cache(maxsize=1024)
def _defined_by(
    root: Path, name: str, _own: Signature, _project: tuple[Signature | None, ...]
) -> tuple[AgentDefinition, ProjectDefinition]:
    """The definition of ``name`` and that of the project, by files that look so. Raises BadDefinition."""
    catalog = Catalog(root)
    project = catalog.project()
    return catalog.agent(name, project).definition, project


def _units_of(definition: AgentDefinition, project: ProjectDefinition, root: Path) -> tuple[TrustUnit, ...]:
    """The units of ``definition`` that need trust; its other files are read each time. Raises BadDefinition."""
    return agent_units(definition, project, resources_of(definition, project, root))


async def send(call: Request[SendRequest], store: StoreAccess, files: ProjectFiles) -> SendReceipt:
    """POST /messages: durable when it is answered."""
    body = call.body
    say = files.trust.request(body.trust, body.agree)
    appended = await deliver(store, files, body.to, body.text, call.request_key, say)
    stands = store.reader.now(instructions.of, appended.instruction_ids, store.now_ms())
    held = {str(one): str(how.reason) for one, how in stands.items() if how.kind == "person"}
    keyless = [one for one, reason in held.items() if reason == "credentials"]
    return SendReceipt(
        message_id=appended.message_id,
        instruction_ids=appended.instruction_ids,
        not_woken=appended.not_woken,
        held=held,
        unasked=store.reader.now(all_missing_credentials, keyless) if keyless else {},
    )


async def show(call: Request[None], store: StoreAccess) -> MessageReport:
    """GET /messages/:id: the message and its receipts."""
    seq = number_of(call.args["id"], "m")
    found = None if seq is None else store.reader.now(messages.report, seq)
    if found is None:
        raise Refused("not_found", f"there is no message {call.args['id'][:40]!r}", hint="ids look like m17")
    return found


async def deliver(
    store: StoreAccess, files: ProjectFiles, to: str, text: str, key: RequestKey | None, say: TrustRequest
) -> Appended:
    """Append the user's message to ``to``. The key and its answer are recorded in the same transaction.

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
        grant = require_trust(store, files, target.agent or "", say)
    draft = draft_to(store.reader, target, text, grant)
    try:
        return await store.append(draft, key)
    except Refused as refused:
        if refused.code == "workflow_not_running":
            raise not_running(store, files, target.space) from None
        if refused.code != "unknown_agent" or target.agent is None:
            raise
        # An agent whose file came after the kernel last looked. Raises Refused (unknown_agent), BadDefinition.
        loaded = files.catalog.agent(target.agent)
        await store.writer.commit(
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
    return await store.append(draft, key)


def draft_to(reader: Reader, target: Target, text: str, grant: tuple[str, ...]) -> Draft:
    """The user's message to ``target`` with its ``grant``; to a workflow in the space of its newest run."""
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
