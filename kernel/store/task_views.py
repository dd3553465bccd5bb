"""Read models of tasks: pages of a list, one in full, tasks that may need a person, and the tasks of each agent.

kernel.store.tasks has the rows and their changes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import apsw

from kernel.policy.open_items import StuckTask
from kernel.policy.tasks import GIVEN_OUT, LOST, OVER, UNCLAIMED_MS, fate, held_by, waits_for
from kernel.store import rows
from kernel.store.rows import RowPage
from kernel.store.tasks import MADE, ROWS, TaskRow, task_id, task_query
from kernel.store.transaction import optional_rfc3339, rfc3339
from protocol.api.processes import PsTask
from protocol.names import base_space, instruction_id, place_of
from protocol.tasks import TaskInfo, TaskList, TaskState

LISTED: Final = f"{ROWS} WHERE t.space = :space AND t.n > :after ORDER BY t.n LIMIT :limit"
LISTED_IN_STATE: Final = f"""
{ROWS} INDEXED BY tasks_state WHERE t.space = :space AND t.state = :state AND t.n > :after
  AND (:for IS NULL OR t.for_name = :for OR t.holder = :for) ORDER BY t.n LIMIT :limit
"""
LISTED_FOR: Final = f"""
{ROWS} WHERE t.space = :space AND t.n > :after AND (t.for_name = :for OR t.holder = :for) ORDER BY t.n LIMIT :limit
"""
# Task numbers have no gaps, because tasks are only deleted together.
COUNT_ALL: Final = "SELECT coalesce(max(n), 0) FROM tasks WHERE space = :space"
COUNT_IN_STATE: Final = """
SELECT count(*) FROM tasks AS t INDEXED BY tasks_state WHERE t.space = :space AND t.state = :state
"""
COUNT_OTHER_STATES: Final = """
SELECT count(*) FROM tasks AS t INDEXED BY tasks_state
WHERE t.space = :space AND t.state IN ('open', 'ready', 'claimed', 'failed', 'cancelled')
"""
COUNT_FOR: Final = """
SELECT count(*) FROM tasks AS t WHERE t.space = :space AND (t.for_name = :for OR t.holder = :for)
"""
COUNT_FOR_IN_STATE: Final = """
SELECT count(*) FROM tasks AS t INDEXED BY tasks_state
WHERE t.space = :space AND t.state = :state AND (t.for_name = :for OR t.holder = :for)
"""


def listed(
    conn: apsw.Connection, space: str, page: RowPage, *, state: TaskState | None = None, name: str | None = None
) -> TaskList:
    """Return a page of tasks: in ``state``, and assigned to or held by ``name`` (None: any).

    The cost of a page depends on the number of ended tasks only with ``name``.
    """
    values = {"space": space, "after": page.after or 0, "state": state, "for": name, "limit": page.limit + 1}
    statement = LISTED_IN_STATE if state is not None else LISTED if name is None else LISTED_FOR
    found = rows.all_(conn.execute(statement, values), statement, TaskRow, **MADE)
    shown, following = page.cut(found, lambda row: row.id)
    return TaskList(tasks=tuple(map(info, shown)), total=_count(conn, values), next=following)


def _count(conn: apsw.Connection, values: Mapping[str, Any]) -> int:
    if values["for"] is not None:
        return int(conn.execute(COUNT_FOR if values["state"] is None else COUNT_FOR_IN_STATE, values).get)
    if values["state"] in (None, "done"):
        others = int(conn.execute(COUNT_OTHER_STATES, values).get) if values["state"] else 0
        return int(conn.execute(COUNT_ALL, values).get) - others
    return int(conn.execute(COUNT_IN_STATE, values).get)


def info(row: TaskRow) -> TaskInfo:
    """Return the public view of a task."""
    over = row.state in OVER
    blocks = (
        one
        for one in row.needed_by
        if one.state == "open"
        and row.state != "done"
        and not (row.state in LOST and fate(one.on_failure, row.on_failure) == "skip")
    )
    return TaskInfo(
        id=row.id,
        space=place_of(row.space),
        key=row.key,
        title=row.title,
        text=row.text,
        state=row.state,
        for_=row.for_name,
        needs=tuple(task_id(one.n) for one in row.needed),
        blocked_by=() if over else waits_for(row.on_failure, row.needs),
        blocks=tuple(task_id(one.n) for one in blocks),
        parent=None if row.parent is None else task_id(row.parent),
        found_in=None if row.found_in is None else task_id(row.found_in),
        files=row.files,
        check=row.command,
        on_failure=row.on_failure or "hold",
        creator=row.creator,
        created_at=rfc3339(row.created_ms),
        ready_at=optional_rfc3339(row.ready_ms),
        holder=row.holder,
        instruction=None if row.instruction is None else instruction_id(row.instruction),
        claimed_at=optional_rfc3339(row.claimed_ms),
        result=row.result,
        reason=row.reason,
        ended_at=optional_rfc3339(row.ended_ms),
        ended_by=row.ended_by,
    )


# Open tasks whose dependencies failed, ready tasks whose work has ended, and ready tasks without an assignee.
STUCK: Final = task_query("""
WITH found (id, space) AS (
  SELECT s.id, s.space FROM tasks AS s INDEXED BY tasks_unfinished
  WHERE s.state IN ('open', 'ready') AND s.state = 'open' AND EXISTS (
    SELECT 1 FROM task_needs AS x CROSS JOIN tasks AS o ON o.id = x.needs
    WHERE x.task = s.id AND o.state IN ('failed', 'cancelled'))
  UNION ALL
  SELECT s.id, s.space FROM tasks AS s INDEXED BY tasks_unfinished
  WHERE s.state IN ('open', 'ready') AND s.state = 'ready' AND NOT EXISTS (
    SELECT 1 FROM instructions AS i WHERE i.id = s.instruction AND i.ended_ms IS NULL)
)
SELECT found.id FROM found
-- tasks of a space that an agent opened belong to the run in which it did
LEFT JOIN subspaces AS b ON b.space = found.space
CROSS JOIN workflows AS w ON w.space = coalesce(b.base, found.space) AND w.state = 'running'
WHERE b.closed_ms IS NULL ORDER BY found.id
""")
CANCELLED: Final = "SELECT 1 FROM instructions WHERE id = ? AND state = 'cancelled'"
RUN_OF: Final = "SELECT id FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1"


def stuck(conn: apsw.Connection, now_ms: int) -> Iterable[tuple[str, StuckTask]]:
    """Yield each task of a running workflow that may need a person, with its space."""
    for row in STUCK(conn):
        held = held_by(row.on_failure, row.needs) if row.state == "open" else ()
        ended = row.instruction is not None and row.for_name is not None
        left = ended and (
            row.given_out >= GIVEN_OUT or conn.execute(CANCELLED, (row.instruction,)).fetchone() is not None
        )
        late = row.state == "ready" and (row.ready_ms or 0) <= now_ms - UNCLAIMED_MS
        if held or left or late:
            run = int(conn.execute(RUN_OF, (base_space(row.space),)).get)
            one = StuckTask(task=info(row), run=run, held_by=held, left=left)
            yield row.space, one


UNCLAIMED: Final = """
SELECT n FROM tasks INDEXED BY tasks_state
WHERE space = :space AND state = 'ready' AND for_name IS NULL ORDER BY n LIMIT :limit
"""


def unclaimed(conn: apsw.Connection, space: str, limit: int) -> tuple[str, ...]:
    """Return the ids of the first ready tasks that any member may claim: they have no assignee."""
    return tuple(task_id(int(str(n))) for (n,) in conn.execute(UNCLAIMED, {"space": space, "limit": limit}))


OF_AGENTS: Final = task_query("""
SELECT t.id FROM workflows AS w CROSS JOIN tasks AS t INDEXED BY tasks_state ON t.space = w.space
WHERE w.state = 'running' AND t.state IN ('open', 'ready', 'claimed')
  AND (t.for_name IS NOT NULL OR t.holder IS NOT NULL) ORDER BY t.id
""")


def of_agents(conn: apsw.Connection) -> Mapping[tuple[str, str], tuple[PsTask, ...]]:
    """Return unfinished tasks by space and by the member who holds or is assigned them."""
    found: defaultdict[tuple[str, str], list[PsTask]] = defaultdict(list)
    for row in OF_AGENTS(conn):
        blocked_by = waits_for(row.on_failure, row.needs)
        shown = PsTask(id=row.id, title=row.title, state=row.state, blocked_by=blocked_by)
        found[place_of(row.space), row.holder or row.for_name or ""].append(shown)
    return {key: tuple(tasks) for key, tasks in found.items()}
