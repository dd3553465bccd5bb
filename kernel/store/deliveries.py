"""Questions about inboxes: one delivery for each message and recipient."""

from typing import Final

import apsw

from protocol.api.messages import InboxRow
from protocol.mention import flag_of
from protocol.names import message_id

LIMIT: Final = 200
"""Deliveries that an agent is shown at once."""

INBOX: Final = """
SELECT d.message, m.sender, m.text, d.state FROM deliveries AS d CROSS JOIN messages AS m ON m.seq = d.message
WHERE d.agent = ? AND d.space = ? AND d.state IN ('queued', 'leased', 'injected')
  AND d.message > ? ORDER BY d.message LIMIT ?
"""


COUNT: Final = """
SELECT count(*) FROM deliveries WHERE agent = ? AND space = ? AND state IN ('queued', 'leased', 'injected')
"""


def count(conn: apsw.Connection, agent: str, space: str) -> int:
    """How many are open in the inbox of ``agent`` (its key) in ``space``."""
    return int(conn.execute(COUNT, (agent, space)).get)


def inbox(conn: apsw.Connection, agent: str, space: str, limit: int = LIMIT, after: int = 0) -> tuple[InboxRow, ...]:
    """What is open in the inbox of ``agent`` (its key) in ``space`` after message ``after``, oldest first."""
    return tuple(
        InboxRow(message_id=message_id(seq), seq=seq, sender=sender, text=text, state=state, flag=flag_of(text))
        for seq, sender, text, state in conn.execute(INBOX, (agent, space, after, limit))
    )
