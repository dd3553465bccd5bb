"""Webhooks out: which there are and how they stand; one that has ended or keeps failing is tried again."""

import apsw
from msgspec.structs import replace

from kernel.agents.catalog import Catalog
from kernel.agents.webhooks import host_of, outgoing_unit
from kernel.api.http.route import Request
from kernel.operations.context import KernelControl, ProjectFiles, StoreAccess
from kernel.policy.webhooks import keeps_failing
from kernel.store import traces, webhooks
from kernel.store.transaction import Transaction
from protocol.api.webhooks import WebhookList, WebhookRow, WebhookState
from protocol.errors import Refused
from protocol.names import webhook_id
from protocol.project import OutgoingHook


async def list_webhooks(
    _call: Request[None], store: StoreAccess, files: ProjectFiles, kernel: KernelControl
) -> WebhookList:
    """GET /webhooks: those of the project file."""
    listed = await store.reader.read(_listed, files.catalog, store.now_ms())
    if kernel.state.safe_mode():
        held = (one if one.state == "unused" else replace(one, state="held") for one in listed.webhooks)
        return WebhookList(webhooks=tuple(held))
    return listed


async def retry_webhook(call: Request[None], store: StoreAccess, files: ProjectFiles) -> WebhookList:
    """POST /webhooks/:id/retry: what waits is told now, and what happened since a 410. Returns all of them.

    ``otel`` is the collector of spans.
    """
    otel = files.catalog.kept_project().otel
    if call.args["id"] == traces.NEED and otel is not None:
        host = host_of(otel.endpoint)

        def again(tx: Transaction) -> WebhookList:
            traces.retry(tx, host)
            return _listed(tx.conn, files.catalog, tx.now_ms)

        return await store.writer.commit(again)
    hooks = {webhook_id(outgoing_unit(hook).digest): hook for hook in files.catalog.kept_project().webhooks}
    hook = hooks.get(call.args["id"])
    if hook is None:
        text = f"there is no webhook {call.args['id'][:40]!r}"
        raise Refused("not_found", text, "awk webhook list shows them; ids look like w1a2b3c4d5e6f")

    def change(tx: Transaction) -> WebhookList:
        webhooks.retry(tx, outgoing_unit(hook).digest, host_of(hook.url))
        return _listed(tx.conn, files.catalog, tx.now_ms)

    return await store.writer.commit(change)


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
