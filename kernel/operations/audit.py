"""The audit: who asked whose memory for what, and what was given."""

from typing import Annotated

import apsw
import msgspec

from kernel.operations.operation import Backward, operation, page_of
from kernel.store import audit
from protocol.api.audit import AuditList


class AuditRequest(Backward, frozen=True, kw_only=True):
    """The rows to list."""

    agent: Annotated[str, msgspec.Meta(description="Name of an agent.")] | None = None


def list_audit(conn: apsw.Connection, asked: AuditRequest) -> AuditList:
    """List who asked whose memory, the newest first; of an agent, whose memory it was or who asked."""
    return audit.newest(conn, page_of(asked, audit.LETTER), asked.agent)


OPERATIONS = (operation(list_audit, "GET /audit"),)
