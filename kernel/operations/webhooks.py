"""Webhooks: list and retry outgoing webhooks; incoming hooks are signed messages of programs without a token.

Incoming text is untrusted, and prompts quote it as such (class ``web``).
"""

import hashlib
import logging
from functools import cache
from typing import Final

import apsw
import msgspec
from msgspec.structs import replace

from kernel.agents.sections import host_of, incoming_unit, outgoing_unit, signing_key
from kernel.operations.context import KernelControl, ProjectFiles, StoreAccess
from kernel.operations.messages import OutsideMessage, deliver, receipt_of
from kernel.operations.operation import Actor, CommandFront, OfId, operation
from kernel.policy.webhooks import is_genuine, keeps_failing
from kernel.store import traces, webhooks
from kernel.store.idempotency import RequestKey
from kernel.store.transaction import Transaction
from protocol.api.document import Ask
from protocol.api.kernel import WebhookList, WebhookRow, WebhookState
from protocol.api.messages import SendReceipt
from protocol.errors import Refused
from protocol.message import HOOK
from protocol.names import webhook_id
from protocol.ndjson import reject_duplicate_keys
from protocol.target import find_mentions

_NOBODYS_KEY: Final = bytes(32)
"""Key for an unknown hook, so that a request to it takes as long as to a known one."""

logger = logging.getLogger(__name__)


class HookRequest(Ask, frozen=True, kw_only=True):
    """Hook that received a message."""

    name: str


async def list_webhooks(store: StoreAccess, files: ProjectFiles, kernel: KernelControl) -> WebhookList:
    """List the webhooks of the project file."""
    listed = await store.reader.read(_listed, files, store.now_ms())
    if kernel.state.safe_mode():
        held = (one if one.state == "unused" else replace(one, state="held") for one in listed.webhooks)
        return WebhookList(webhooks=tuple(held))
    return listed


def retry_webhook(tx: Transaction, asked: OfId, files: ProjectFiles) -> WebhookList:
    """Retry pending deliveries, and deliver events since a 410. Returns all webhooks.

    ``otel`` is the trace collector.
    """
    project = files.catalog.kept_project()
    if asked.id == traces.NEED and project.otel is not None:
        traces.retry(tx, host_of(project.otel.endpoint))
        return _listed(tx.conn, files, tx.now_ms)
    hooks = {webhook_id(outgoing_unit(hook).digest): hook for hook in project.webhooks}
    hook = hooks.get(asked.id)
    if hook is None:
        text = f"webhook {asked.id[:40]!r} not found"
        raise Refused("not_found", text, "list the webhooks with `awk webhook list`; ids look like w1a2b3c4d5e6f")
    webhooks.retry(tx, outgoing_unit(hook).digest, host_of(hook.url))
    return _listed(tx.conn, files, tx.now_ms)


def _listed(conn: apsw.Connection, files: ProjectFiles, now_ms: int) -> WebhookList:
    rows: list[WebhookRow] = []
    for hook in files.catalog.kept_project().webhooks:
        digest = outgoing_unit(hook).digest
        standing = webhooks.standing(conn, digest, now_ms)
        state: WebhookState = "told"
        if standing is None or isinstance(signing_key(hook.secret, files.environ), str):
            state = "unused"
        elif standing.disabled:
            state = "ended"
        elif keeps_failing(standing.most_tries):
            state = "failing"
        name, waiting = webhook_id(digest), 0 if standing is None else standing.waiting
        rows.append(WebhookRow(id=name, host=host_of(hook.url), events=hook.events, state=state, waiting=waiting))
    return WebhookList(webhooks=tuple(rows))


async def receive_hook(asked: HookRequest, actor: Actor, store: StoreAccess, files: ProjectFiles) -> SendReceipt:
    """Receive a message that is signed according to Standard Webhooks. Its id is the idempotency key.

    An unknown hook, an untrusted hook and a wrong signature receive the same answer, so that strangers cannot discover
    hooks.
    """
    name, signed = asked.name, actor.signed
    assert signed is not None, "the route says that it is signed"
    hook = files.catalog.kept_project().hooks.get(name)
    key: bytes | None = None
    if hook is not None:
        found = files.trust.fault(incoming_unit(name, hook)) or signing_key(hook.secret, files.environ)
        if isinstance(found, str):  # Unusable hooks look like unknown ones.
            _tell_once(name, found)
        else:
            key = found
    genuine = is_genuine(key or _NOBODYS_KEY, signed, store.now_ms() // 1000)
    if hook is None or key is None or not genuine:
        raise Refused("bad_signature", "hook not found, or signature not valid")
    text, mentions = said_by(signed.body)
    said = OutsideMessage(hook.to, text, sender=f"{HOOK}{name}", mentions=mentions)
    once = RequestKey(said.sender, signed.id, hashlib.sha256(signed.body).digest())
    return receipt_of(store, (await deliver(store, files, said, once, files.trust.request(False, ())))[0])


@cache
def _tell_once(name: str, why: str) -> None:
    logger.warning("hook.unusable %s: %s", name, why)


def said_by(body: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of ``body`` and the members that it wakes: its ``text``, or the whole body. Raises DecodeError,
    DuplicateKey.

    Only mentions in ``text`` wake members, because names in other data are no mentions.
    """
    value = msgspec.json.decode(body)
    reject_duplicate_keys(body)
    text = value.get("text") if isinstance(value, dict) else None
    if isinstance(text, str) and text.strip():
        return text, find_mentions(text)
    return msgspec.json.format(body, indent=0).decode(), ()


_LIST = CommandFront("webhook list", "List the webhooks of the project file with their state", "webhooks_lines")
_RETRY = CommandFront(
    "webhook retry",
    "Retry the deliveries of a webhook, also if its server answered 410",
    "webhooks_lines",
    {"id": "WEBHOOK id from awk webhook list, or otel for the trace collector"},
)
OPERATIONS = (
    operation(list_webhooks, "GET /webhooks", cli=_LIST),
    operation(retry_webhook, "POST /webhooks/<id>/retry", cli=_RETRY),
    operation(receive_hook, "POST /hooks/<name>", status=202, signed=True, people_only=False),
)
