"""A request to the kernel that is sent again until it is answered. Knows no MCP.

Only for what may be sent twice: a call with its key, which the kernel's ledger knows again, or a read.
"""

from typing import Final

from protocol.errors import UNREACHED
from worker.http import BROKEN, Connection
from worker.models.errors import Failed
from worker.waits import Waits

RETRY_SECONDS: Final = (0.0, 0.1, 0.5, 2.0)
"""Waits before a request is sent again. The first is 0: a kept-alive connection may just have been closed."""
_BUSY: Final = frozenset({502, 503, 504})


async def insist(
    connection: Connection, waits: Waits, body: bytes, headers: tuple[tuple[str, str], ...]
) -> tuple[int, bytes]:
    """Post ``body``; the status and the body of the answer. Raises Failed where none comes."""
    trouble = ""
    for wait in (*RETRY_SECONDS, None):
        try:
            status, content = await connection.post(body, headers)
            if status not in _BUSY:
                return status, content
            trouble = f"HTTP {status}"
        except BROKEN as error:
            trouble = f"{type(error).__name__}: {error}"
        if wait is not None:
            await waits.sleep(wait)
    raise Failed("network", f"the kernel's tools cannot be reached ({trouble})", code=UNREACHED)
