"""Tasks: rows of a workspace's graph, and their steps. A task has a number there (``t3``), or a key.

An attempt holds a claimed task: the commit that ends the attempt releases the task, and the next
attempt of the same instruction claims it again, unless another agent did. kernel.policy.tasks
defines the steps; kernel.store.transitions.tasks and .task_work apply them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.tasks import OVER, TRANSITIONS, FileClaim, Needed, TaskStep, claims_against
from kernel.store import rows
from kernel.store.rows import Query, Sql
from kernel.store.transaction import Transaction
from protocol.names import number_of
from protocol.tasks import OnFailure, TaskSpec, TaskState


class Neighbour(msgspec.Struct, frozen=True, array_like=True):
    """Dependency or dependent of a task."""

    n: int
    state: TaskState
    on_failure: OnFailure | None


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """Row of the table of tasks, with the task's dependencies and dependents."""

    number: int
    space: str
    n: int
    key: str | None
    title: str
    text: str
    for_name: str | None
    parent: int | None
    found_in: int | None
    files: tuple[str, ...]
    command: str | None
    vouched: bool
    confined: bool
    on_failure: OnFailure | None
    state: TaskState
    creator: str
    hops: int
    created_ms: int
    ready_ms: int | None
    given_out: int
    instruction: int | None
    holder: str | None
    epoch: int | None
    claimed_ms: int | None
    result: str
    reason: str
    ended_ms: int | None
    ended_by: str | None
    needed: tuple[Neighbour, ...]
    needed_by: tuple[Neighbour, ...]

    @property
    def id(self) -> str:
        """Return the task's id in the space."""
        return task_id(self.n)

    @property
    def needs(self) -> tuple[Needed, ...]:
        """Return the dependencies as kernel.policy.tasks reads them."""
        return tuple(Needed(task_id(one.n), one.state, one.on_failure) for one in self.needed)


def task_id(n: int) -> str:
    """Return the id of a task, such as ``t3``."""
    return f"t{n}"


_files: Final = msgspec.json.Decoder(tuple[str, ...])
_neighbours: Final = msgspec.json.Decoder(tuple[Neighbour, ...])
MADE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "files": _files.decode,
    "vouched": bool,
    "confined": bool,
    "needed": _neighbours.decode,
    "needed_by": _neighbours.decode,
}

ROWS: Final = """
SELECT t.id AS number, t.space, t.n, t.key, t.title, t.text, t.for_name, t.parent, t.found_in, t.files, t.command,
  t.vouched, t.confined, t.on_failure, t.state, t.creator, t.hops, t.created_ms, t.ready_ms, t.given_out,
  t.instruction, t.holder, t.epoch, t.claimed_ms, t.result, t.reason, t.ended_ms, t.ended_by,
  (SELECT json_group_array(json_array(o.n, o.state, o.on_failure) ORDER BY o.n)
    FROM task_needs AS x CROSS JOIN tasks AS o ON o.id = x.needs WHERE x.task = t.id) AS needed,
  (SELECT json_group_array(json_array(o.n, o.state, o.on_failure) ORDER BY o.n)
    FROM task_needs AS x CROSS JOIN tasks AS o ON o.id = x.task WHERE x.needs = t.id) AS needed_by
FROM tasks AS t
"""
BY_NUMBER: Final = f"{ROWS} WHERE t.space = ? AND t.n = ?"
BY_KEY: Final = f"{ROWS} WHERE t.space = ? AND t.key = ? ORDER BY t.n DESC LIMIT 1"


def find(conn: apsw.Connection, space: str, name: str) -> TaskRow | None:
    """Return the task with the id ``name``, or the newest task with that key; None if missing."""
    n = number_of(name, "t")
    if n is not None:
        return rows.one(conn.execute(BY_NUMBER, (space, n)), BY_NUMBER, TaskRow, **MADE)
    return rows.one(conn.execute(BY_KEY, (space, name)), BY_KEY, TaskRow, **MADE)


BY_ROW: Final = f"{ROWS} WHERE t.id = ?"


def by_number(conn: apsw.Connection, number: int) -> TaskRow:
    """Return the task of the row ``number``, which must exist."""
    found = rows.one(conn.execute(BY_ROW, (number,)), BY_ROW, TaskRow, **MADE)
    assert found is not None, number
    return found


unfinished = Sql("SELECT count(*) FROM tasks WHERE space = ? AND state IN ('open', 'ready', 'claimed')").scalar(int)
"""Return the number of open, ready and claimed tasks of ``space``."""


EDGES: Final = """
SELECT t.n, o.n FROM tasks AS t INDEXED BY tasks_state CROSS JOIN task_needs AS x ON x.task = t.id
CROSS JOIN tasks AS o ON o.id = x.needs
WHERE t.space = ? AND t.state IN ('open', 'ready', 'claimed') AND o.state IN ('open', 'ready', 'claimed')
"""


def edges(conn: apsw.Connection, space: str) -> dict[str, list[str]]:
    """Return the dependencies of each unfinished task of ``space``, as ids of unfinished tasks."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for n, needs in cast("Iterable[tuple[int, int]]", conn.execute(EDGES, (space,))):
        found[task_id(n)].append(task_id(needs))
    return dict(found)


class NewTask(NamedTuple):
    """Planned task: its creator and hops. ``vouched``: a person vouches for its check.
    ``confined``: the agent that planned it is confined.
    """

    creator: str
    hops: int
    found_in: int | None = None
    vouched: bool = True
    confined: bool = False


INSERT: Final = """
INSERT INTO tasks (space, n, key, title, text, for_name, parent, found_in, files, command, vouched, confined,
  on_failure, state, creator, hops, created_ms)
VALUES (:space, (SELECT coalesce(max(t.n), 0) + 1 FROM tasks AS t WHERE t.space = :space), :key, :title, :text, :for,
  :parent, :found_in, :files, :command, :vouched, :confined, :on_failure, 'open', :creator, :hops, :now)
RETURNING id, n
"""


def insert(tx: Transaction, space: str, spec: TaskSpec, new: NewTask, parent: int | None) -> tuple[int, int]:
    """Store an open task. Return its row number and its number in the space."""
    values = {
        **new._asdict(),
        **msgspec.structs.asdict(spec),
        "space": space,
        "for": spec.for_,
        "parent": parent,
        "files": msgspec.json.encode(spec.files),
        "command": spec.check,
        "now": tx.now_ms,
    }
    number, n = cast("tuple[int, int]", tx.conn.execute(INSERT, values).fetchone())
    return number, n


ADD_NEED: Final = "INSERT OR IGNORE INTO task_needs (task, needs) VALUES (?, ?)"


def add_needs(tx: Transaction, needs: Iterable[tuple[int, int]]) -> None:
    """Add dependencies, as pairs of row numbers: the first task depends on the second."""
    tx.conn.executemany(ADD_NEED, needs)


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """Step of a task, by whom, and the values to store with it; None and "" mean unknown."""

    step: TaskStep
    by: str
    holder: str | None = None
    instruction: int | None = None
    epoch: int | None = None
    result: str = ""
    reason: str = ""


SET: Final = """
UPDATE tasks SET state = :state, ready_ms = CASE :state WHEN 'ready' THEN :now ELSE ready_ms END, holder = :holder,
  epoch = :epoch, instruction = CASE :step WHEN 'split' THEN NULL ELSE coalesce(:instruction, instruction) END,
  claimed_ms = CASE :state WHEN 'claimed' THEN :now END, result = :result, reason = :reason,
  given_out = CASE :step WHEN 'split' THEN 0 ELSE given_out END,
  ended_ms = CASE WHEN :over THEN :now END, ended_by = CASE WHEN :over THEN :by END
WHERE id = :number AND state = :before RETURNING id
"""


def make_step(tx: Transaction, row: TaskRow, change: TaskChange) -> bool:
    """Apply a step. Return False if the state of ``row`` does not allow it or has changed since."""
    state = TRANSITIONS[row.state].get(change.step)
    if state is None:
        return False
    values = {
        **msgspec.structs.asdict(change),
        "state": state,
        "before": row.state,
        "number": row.number,
        "now": tx.now_ms,
        "over": state in OVER,
    }
    if tx.conn.execute(SET, values).fetchone() is None:
        return False
    tx.emit("task.changed", space=row.space, agent=change.by, data={"id": row.id, "state": state})
    return True


give = Sql("UPDATE tasks SET instruction = ?, given_out = given_out + 1 WHERE id = ?").change()
"""Record the instruction that was created for the assignee of a ready task."""


SET_FOR: Final = "UPDATE tasks SET for_name = ?, instruction = NULL, given_out = 0 WHERE id = ?"


def set_for(tx: Transaction, row: TaskRow, name: str) -> None:
    """Assign an unclaimed task to the member ``name``."""
    if row.for_name != name:
        tx.conn.execute(SET_FOR, (name, row.number))


def task_query(sql: str) -> Query[list[TaskRow]]:
    """Return a query for the tasks whose row numbers the statement selects."""

    def read(found: apsw.Cursor) -> list[TaskRow]:
        numbers = cast("list[tuple[int]]", found.fetchall())
        return [by_number(found.connection, number) for (number,) in numbers]

    return Query(sql, read)


followers = task_query("""
SELECT t.id FROM task_needs AS x CROSS JOIN tasks AS t ON t.id = x.task AND t.state = 'open'
WHERE x.needs = ? ORDER BY t.n
""")
"""Return the tasks in state *open* that depend on a task."""


# Tasks with unfinished work are already assigned; tasks whose work a person cancelled are not assigned again.
to_give = task_query("""
SELECT t.id FROM tasks AS t INDEXED BY tasks_state
WHERE t.space = ? AND t.state = 'ready' AND t.for_name IS NOT NULL AND t.given_out < ?
  AND NOT EXISTS (SELECT 1 FROM instructions AS i
    WHERE i.id = t.instruction AND (i.ended_ms IS NULL OR i.state = 'cancelled')) ORDER BY t.n
""")
"""Return the ready tasks of a space that became instructions for their assignees less often than the given number."""


begin_again = Sql("UPDATE tasks SET given_out = 0, instruction = NULL WHERE space = ? AND state = 'ready'").change()
"""Let ready tasks become instructions again, because a new run continues in ``space``."""


claims = Sql("""
SELECT n AS id, holder, files FROM tasks WHERE space = ? AND state = 'claimed' AND files <> x'5b5d' ORDER BY n
""").rows(FileClaim, id=task_id, files=_files.decode)
"""Return the files of ``space`` that claimed tasks reserve."""


soon_claimed = Sql("""
SELECT n AS id, for_name AS holder, files FROM tasks AS t
WHERE t.space = ? AND t.state = 'ready' AND t.files <> x'5b5d' AND t.for_name IS NOT NULL AND EXISTS (
  SELECT 1 FROM instructions AS i WHERE i.id = t.instruction AND i.ended_ms IS NULL)
""").rows(FileClaim, id=task_id, files=_files.decode)
"""Return the files of tasks that an unfinished instruction is about to claim."""


hand_on = Sql("UPDATE tasks SET for_name = ? WHERE instruction = ? AND for_name = ? AND state = 'ready'").change()
"""Assign the ready tasks of an instruction to its new assignee, if they were assigned to the previous one."""


of_instruction = task_query("""
SELECT id FROM tasks INDEXED BY tasks_instruction WHERE instruction = ? AND state IN ('ready', 'claimed') ORDER BY n
""")
"""Return the unfinished tasks that an instruction holds or can claim again."""


hand_tasks = Sql(
    "UPDATE tasks SET handed_by = instruction WHERE instruction = ? AND state IN ('ready', 'claimed')"
).change()
"""Attach the hand-over of ``instruction`` to its tasks, for a later worker on these tasks."""


RENEW: Final = "UPDATE tasks SET epoch = ? WHERE id = ?"


def take(tx: Transaction, instruction: int, epoch: int, name: str) -> None:
    """Claim an instruction's tasks for its attempt, unless another agent reserves their files."""
    for row in of_instruction(tx.conn, instruction):
        if row.state == "claimed":
            tx.conn.execute(RENEW, (epoch, row.number))
        elif not row.files or claims_against(claims(tx.conn, row.space), row.files, name) is None:
            make_step(tx, row, TaskChange(step="claim", by=name, holder=name, instruction=instruction, epoch=epoch))
