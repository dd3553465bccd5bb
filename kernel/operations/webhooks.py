"""Webhooks out: listed, and tried again."""

import apsw
from msgspec.structs import replace

from kernel.agents.catalog import Catalog
from kernel.agents.webhooks import host_of, outgoing_unit
from kernel.operations.context import KernelControl, ProjectFiles, StoreAccess
from kernel.operations.operation import CommandFront, operation
from kernel.policy.webhooks import keeps_failing
from kernel.store import traces, webhooks
from kernel.store.transaction import Transaction
from protocol.api.document import Ask
from protocol.api.webhooks import WebhookList, WebhookRow, WebhookState
from protocol.errors import Refused
from protocol.names import webhook_id
from protocol.project import OutgoingHook


class WebhookRequest(Ask, frozen=True, kw_only=True):
    """One webhook."""

    id: str


async def list_webhooks(store: StoreAccess, files: ProjectFiles, kernel: KernelControl) -> WebhookList:
    """List the webhooks of the project file."""
    listed = await store.reader.read(_listed, files.catalog, store.now_ms())
    if kernel.state.safe_mode():
        held = (one if one.state == "unused" else replace(one, state="held") for one in listed.webhooks)
        return WebhookList(webhooks=tuple(held))
    return listed


def retry_webhook(tx: Transaction, asked: WebhookRequest, files: ProjectFiles) -> WebhookList:
    """Send again what waits, and what happened since a 410. Returns all webhooks.

    ``otel`` is the collector of spans.
    """
    project = files.catalog.kept_project()
    if asked.id == traces.NEED and project.otel is not None:
        traces.retry(tx, host_of(project.otel.endpoint))
        return _listed(tx.conn, files.catalog, tx.now_ms)
    hooks = {webhook_id(outgoing_unit(hook).digest): hook for hook in project.webhooks}
    hook = hooks.get(asked.id)
    if hook is None:
        text = f"there is no webhook {asked.id[:40]!r}"
        raise Refused("not_found", text, "awk webhook list shows them; ids look like w1a2b3c4d5e6f")
    webhooks.retry(tx, outgoing_unit(hook).digest, host_of(hook.url))
    return _listed(tx.conn, files.catalog, tx.now_ms)


def _listed(conn: apsw.Connection, catalog: Catalog, now_ms: int) -> WebhookList:
    return WebhookList(webhooks=tuple(_row(conn, hook, now_ms) for hook in catalog.kept_project().webhooks))


def _row(conn: apsw.Connection, hook: OutgoingHook, now_ms: int) -> WebhookRow:
    digest = outgoing_unit(hook).digest
    standing = webhooks.standing(conn, digest, now_ms)
    state: WebhookState = "told"
    if standing is None:
        state = "unused"
    elif standing.disabled:
        state = "ended"
    elif keeps_failing(standing.most_tries):
        state = "failing"
    waiting = 0 if standing is None else standing.waiting
    return WebhookRow(id=webhook_id(digest), host=host_of(hook.url), events=hook.events, state=state, waiting=waiting)


_LIST = CommandFront("webhook list", "list those of the project file, and how they stand", "webhook.webhooks_lines")
_RETRY = CommandFront(
    "webhook retry",
    "tell one again what it was not told, also after its server answered 410",
    "webhook.webhooks_lines",
    {"id": "WEBHOOK its id, as list and needs show it"},
)
OPERATIONS = (
    operation(list_webhooks, "GET /webhooks", cli=_LIST),
    operation(retry_webhook, "POST /webhooks/<id>/retry", cli=_RETRY),
)
