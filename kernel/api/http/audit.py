"""The audit: who asked whose memory for what, and what was given."""

from kernel.api.http.route import Request, page_of
from kernel.operations.context import StoreAccess
from kernel.store import audit
from protocol.api.audit import AuditList


async def list_audit(call: Request[None], store: StoreAccess) -> AuditList:
    """GET /audit?agent=&limit=&before=: the newest first; of ``agent``, whose memory it was or who asked."""
    page = page_of(call, "before", audit.LETTER)
    return await store.reader.read(audit.newest, page, call.query.get("agent"))
