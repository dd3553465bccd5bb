"""Questions about workflows whose words are kept only as long as they run (``workspace: {provider: memory}``)."""

from typing import Final

import apsw

# A space that runs again keeps its words until that has ended too.
WITH_WORDS: Final = """
SELECT w.space, max(w.ended_ms) FROM workflows AS w INDEXED BY workflows_memory
WHERE w.workspace = 'memory' AND w.state = 'stopped'
  AND EXISTS (SELECT 1 FROM messages AS m
    WHERE m.run = w.id AND m.kind NOT IN ('approval', 'due', 'done', 'failed') AND m.cleared = 0 AND m.text <> '')
  AND NOT EXISTS (SELECT 1 FROM workflows AS r WHERE r.space = w.space AND r.state = 'running')
GROUP BY w.space ORDER BY 2 LIMIT 100
"""


def ended(conn: apsw.Connection) -> tuple[tuple[str, int], ...]:
    """Spaces of such workflows that have ended with their words still there, and when; the first ones first."""
    return tuple(conn.execute(WITH_WORDS))
