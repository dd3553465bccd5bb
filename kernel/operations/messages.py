"""Messages: sending to an agent or a workspace, and display with receipts.

A message may start an agent, and programs of the agent's file need trust (promise P19). A parsed definition is cached
for exactly the content of its files; any change causes a new read. Without the cache, each message would parse YAML.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents import trust
from kernel.agents.catalog import AGENTS, SUFFIX, Catalog
from kernel.agents.project import PROJECT_FILES
from kernel.agents.registration import file_spec
from kernel.agents.resources import resources_of
from kernel.agents.trust import TrustRequest, agent_units, demands
from kernel.git.runner import uncommitted
from kernel.operations.context import ProjectFiles, StoreAccess, not_running
from kernel.operations.operation import Actor, OfId, ToolFront, operation
from kernel.rule.draft import Draft
from kernel.source.diagnostics import BadDefinition
from kernel.source.files import Signature, signature
from kernel.store import agents, instructions, messages, workflows
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.database import Reader
from kernel.store.idempotency import RequestKey, find_response
from kernel.store.instruction_views import all_missing_credentials
from kernel.store.transitions.append import Appended, append_all
from kernel.store.transitions.runs import open_for_person
from kernel.workflows.find import workflow_names
from protocol.agent import AgentDefinition
from protocol.api.messages import (
    BatchMessage,
    BatchOutcome,
    BatchReceipt,
    MessageReport,
    Refusal,
    SendReceipt,
    SendRequest,
)
from protocol.errors import Refused
from protocol.message import USER
from protocol.names import GLOBAL, number_of, workflow_space
from protocol.project import ProjectDefinition
from protocol.target import Target, TargetRejected, parse_target
from protocol.text import encode_json
from protocol.trust import TrustUnit

GLOBAL_SPACE: Final = workflow_space(GLOBAL)
_definition: Final = msgspec.json.Decoder(AgentDefinition)


def require_agent_trust(
    store: StoreAccess, files: ProjectFiles, name: str, say: TrustRequest
) -> tuple[tuple[str, ...], BadDefinition | None]:
    """Return the trust demands of the agent ``name`` that this message may use; its work stores them.

    Demands of an agent created at run time are granted; an agent's file needs a grant, or consent in ``say``. For an
    invalid file, whose error is returned, the last valid definition counts. Raises Untrusted, BadDefinition.
    """
    catalog, root = files.catalog, files.catalog.root
    try:
        own = signature(f"{root}/{AGENTS}/{name}{SUFFIX}")
        # Defined elsewhere: by the project file, or in the user's own folder.
        if own is None and catalog.defines(name):
            return trust.require_trust(_units_of(catalog.agent(name).definition, catalog.project(), root), say), None
        if own is None:
            record = store.reader.now(agents.row, name)
            if record is not None and record.origin == "file":
                catalog.agent(name)  # The file is gone: refuse and list the available names.
            if record is None or record.definition is None or record.origin != "ephemeral":
                return (), None
            return demands(_definition.decode(record.definition), catalog.project()), None
        project = tuple(signature(f"{root}/{file}") for file in PROJECT_FILES)
        return trust.require_trust(_units_of(*_defined_by(catalog, name, own, project), root), say), None
    except BadDefinition as error:
        record = store.reader.now(agents.row, name)
        if record is None or record.origin != "file" or record.definition is None:
            raise
        definition = _definition.decode(record.definition)
        return trust.require_trust(_units_of(definition, catalog.kept_project(), root), say), error


@lru_cache(maxsize=1024)
def _defined_by(
    catalog: Catalog, name: str, _own: Signature, _project: tuple[Signature | None, ...]
) -> tuple[AgentDefinition, ProjectDefinition]:
    """Return the definitions of the agent ``name`` and of the project. Raises BadDefinition.

    ``_own`` and ``_project`` are keys of the cache only: signatures of the files' content.
    """
    project = catalog.project()
    return catalog.agent(name, project).definition, project


def _units_of(definition: AgentDefinition, project: ProjectDefinition, root: Path) -> tuple[TrustUnit, ...]:
    return agent_units(definition, project, resources_of(definition, project, root))


async def send(asked: SendRequest, actor: Actor, store: StoreAccess, files: ProjectFiles) -> SendReceipt | BatchReceipt:
    """Send a message as the user to an agent or a workflow. The recipient and agents mentioned in the text receive it
    as work. Returns the ids of the message and of the instructions. Without to: to the project's default agent.

    A message is durable before the answer. Several messages are one commit with a result for each.
    """
    say = files.trust.request(asked.trust, asked.agree)
    if asked.messages is not None and asked.to is None and asked.text is None:
        return await _send_all(actor, asked.messages, store, files, say)
    to = files.catalog.kept_project().default_agent if asked.to is None else asked.to
    if asked.messages is not None or asked.text is None:
        text = "text is missing" if asked.messages is None else "messages cannot be combined with to or text"
        raise Refused("bad_request", text, "give to and text for one message, or messages for several")
    if to is None:
        raise Refused("bad_request", "message has no recipient", "name one, or set default_agent in the project file")
    said = OutsideMessage(to, asked.text)
    appended, invalid = await deliver(store, files, said, actor.request_key, say)
    receipt = receipt_of(store, appended)
    if invalid is not None:
        first = invalid.errors[0]
        receipt = msgspec.structs.replace(receipt, outdated=f"{first.path}:{first.line}:{first.column}")
    if store.reader.now(instructions.any_elsewhere, receipt.instruction_ids):
        left_behind = await uncommitted(files.worktrees.repository.git, files.catalog.root)
        return msgspec.structs.replace(receipt, left_behind=left_behind)
    return receipt


def receipt_of(store: StoreAccess, appended: Appended) -> SendReceipt:
    """Return the receipt for a message: the work that it created, and the work that waits for a person."""
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


async def _send_all(
    actor: Actor, asked: Sequence[BatchMessage], store: StoreAccess, files: ProjectFiles, say: TrustRequest
) -> BatchReceipt:
    """Append each message as a single request would, all in one commit.

    Each message has a key: its own, or the request's key with its position. If the request is
    repeated, accepted messages get the same answer, and refused messages are tried again.
    """
    recipients = _Recipients(store, files, say)
    outcomes: list[Appended | Refused | None] = []
    drafts: list[tuple[Draft, RequestKey | None]] = []
    for place, message in enumerate(asked):
        await trio.lowlevel.checkpoint()  # Each message may read the files of its agent.
        key = message.key
        if key is None and actor.request_key is not None:
            key = f"{actor.request_key.key}\n{place}"  # No header field contains a line break.
        what = hashlib.sha256(b"message\0" + encode_json([message.to, message.text])).digest()
        request = None if key is None else RequestKey(actor.access.name, key, what)
        try:
            target, draft = recipients.draft(message)
            closed = target.space == GLOBAL_SPACE and store.reader.now(workflows.running_at, GLOBAL_SPACE) is None
            if closed and (request is None or store.reader.now(find_response, request, store.now_ms()) is None):
                draft = await _in_global(store, files, target, draft) or draft
        except Refused as refused:
            outcomes.append(refused)
            continue
        drafts.append((draft, request))
        outcomes.append(None)
    if drafts:
        appended = iter(await store.writer.commit(append_all, drafts, tuple(recipients.fresh.values())))
        outcomes = [next(appended) if one is None else one for one in outcomes]
    results: list[BatchOutcome] = []
    for message, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, Appended):
            results.append(BatchOutcome(sent=receipt_of(store, outcome)))
            continue
        why = outcome
        assert why is not None
        if why.code == "workflow_not_running":
            why = not_running(store, files, _target(message.to, message.text).space)
        refusal = Refusal(status=why.meaning.http_status, code=why.code, detail=why.text, hint=why.hint)
        results.append(BatchOutcome(refused=refusal))
    refused_count = sum(one.refused is not None for one in results)
    return BatchReceipt(accepted=len(results) - refused_count, refused=refused_count, results=tuple(results))


class _Recipients:
    """Recipients of several messages. Trust and existence are checked once for each agent."""

    def __init__(self, store: StoreAccess, files: ProjectFiles, say: TrustRequest) -> None:
        self._store = store
        self._files = files
        self._say = say
        self._grants: dict[str, tuple[str, ...] | Refused] = {}
        self.fresh: dict[str, AgentSpec] = {}
        """Agents whose files are newer than the kernel's last scan."""

    def draft(self, message: BatchMessage) -> tuple[Target, Draft]:
        target = _target(message.to, message.text)
        grant = () if target.workflow is not None else self._grant(target.agent or "")
        if isinstance(grant, Refused):
            raise grant
        return target, draft_to(self._store.reader, target, message.text, grant)

    def _grant(self, name: str) -> tuple[str, ...] | Refused:
        if name not in self._grants:
            try:
                self._grants[name], _invalid = require_agent_trust(self._store, self._files, name, self._say)
                if self._store.reader.now(agents.row, name) is None:
                    self.fresh[name] = file_spec(self._files.catalog.agent(name))
            except Refused as refused:
                self._grants[name] = refused
        return self._grants[name]


async def show(asked: OfId, store: StoreAccess) -> MessageReport:
    """Return a message with its receipts."""
    seq = number_of(asked.id, "m")
    found = None if seq is None else store.reader.now(messages.report, seq)
    if found is None:
        raise Refused("not_found", f"message {asked.id[:40]!r} not found", hint="ids look like m17")
    return found


def _target(to: str, text: str) -> Target:
    """Return the target ``to`` of the message ``text``. Raises Refused (bad_target, bad_request)."""
    try:
        target = parse_target(to)
    except TargetRejected as error:
        raise Refused("bad_target", str(error)) from error
    if not text.strip():
        raise Refused("bad_request", "the message is empty")
    return target


class OutsideMessage(msgspec.Struct, frozen=True):
    """External message. ``mentions`` None: the mentions in its text."""

    to: str
    text: str
    sender: str = USER
    mentions: tuple[str, ...] | None = None


async def deliver(
    store: StoreAccess, files: ProjectFiles, said: OutsideMessage, key: RequestKey | None, say: TrustRequest
) -> tuple[Appended, BadDefinition | None]:
    """Append an external message. The key and the answer are recorded in the same transaction.

    Checks trust for programs in agents' files, and returns also the error of a file that is invalid. Trust for a
    workflow was checked at its start.
    """
    target = _target(said.to, said.text)
    grant: tuple[str, ...] = ()
    invalid: BadDefinition | None = None
    if target.workflow is None:
        grant, invalid = require_agent_trust(store, files, target.agent or "", say)
    draft = draft_to(store.reader, target, said.text, grant)
    draft = msgspec.structs.replace(draft, sender=said.sender, mentions=said.mentions)
    try:
        return await store.append(draft, key), invalid
    except Refused as refused:
        if refused.code == "workflow_not_running":
            if (opened := await _in_global(store, files, target, draft)) is None:
                raise not_running(store, files, target.space) from None
            return await store.append(opened, key), invalid
        if refused.code != "unknown_agent" or target.agent is None:
            raise
        # The agent's file may be newer than the kernel's last scan. Raises Refused (unknown_agent), BadDefinition.
        await store.writer.commit(put_agents, [file_spec(files.catalog.agent(target.agent))])
    return await store.append(draft, key), invalid


async def _in_global(store: StoreAccess, files: ProjectFiles, target: Target, draft: Draft) -> Draft | None:
    """Open ``@global`` for ``draft``, and return it there; None if its ``target`` is another space, or a workflow."""
    if target.space != GLOBAL_SPACE or GLOBAL in workflow_names(files.catalog, files.catalog.kept_project()):
        return None
    with suppress(Refused):  # Another message has opened it.
        await store.writer.commit(open_for_person, GLOBAL)
    return msgspec.structs.replace(draft, space=store.reader.now(workflows.space_at, GLOBAL_SPACE) or draft.space)


def draft_to(reader: Reader, target: Target, text: str, grant: tuple[str, ...]) -> Draft:
    """Return the user's message to ``target`` with its ``grant``. For a workflow: in the space of its newest run."""
    to = () if target.agent is None else (target.agent,)
    found = None if target.workflow is None else reader.now(workflows.space_at, target.space)
    return Draft(kind="said", space=found or target.space, sender=USER, text=text, to=to, vouched=grant)


SEND = operation(
    send,
    "POST /messages",
    answers=SendReceipt,
    also=(BatchReceipt,),
    status=202,
    body_optional=False,
    keeps_key=True,
    people_only=False,
    trusts=lambda asked: asked.trust or bool(asked.agree),
    manage=ToolFront("send", idempotent=False, without=("messages", "trust", "agree"), needs=("to", "text")),
)
OPERATIONS = (SEND, operation(show, "GET /messages/<id>"))
