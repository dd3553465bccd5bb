"""Tasks: rows and queries of a workspace's graph. A task is found by its number there (``t3``), or by its key.

Whoever holds one does so by an attempt: what ends that, lets go of the task in the same commit, and the next attempt of
the same instruction takes it again, if nobody else has. Steps are those of kernel.policy.tasks; what leads to them is
in kernel.store.transitions.tasks and .task_plans.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.needs import StuckTask
from kernel.policy.tasks import (
    GIVEN_OUT,
    LOST,
    OVER,
    TRANSITIONS,
    UNCLAIMED_MS,
    FileClaim,
    Needed,
    TaskStep,
    claims_against,
    fate,
    held_by,
    waits_for,
)
from kernel.store import rows
from kernel.store.rows import Page
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from protocol.api.processes import PsTask
from protocol.names import instruction_id, number_of, place_of
from protocol.tasks import OnFailure, TaskInfo, TaskList, TaskSpec, TaskState


class Neighbour(msgspec.Struct, frozen=True, array_like=True):
    """A task at the other end of a need."""

    n: int
    state: TaskState
    on_failure: OnFailure | None


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of tasks, with what it needs and what needs it."""

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
        """Its name in the space."""
        return task_id(self.n)

    @property
    def needs(self) -> tuple[Needed, ...]:
        """The tasks that it needs, as policies look at them."""
        return tuple(Needed(task_id(one.n), one.state, one.on_failure) for one in self.needed)


def task_id(n: int) -> str:
    """``t3``."""
    return f"t{n}"


_files: Final = msgspec.json.Decoder(tuple[str, ...])
_neighbours: Final = msgspec.json.Decoder(tuple[Neighbour, ...])
_MADE: Final[Mapping[str, Callable[[Any], Any]]] = {
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
    """The task that is called ``name`` in ``space``: by its id, or the newest one of that key."""
    n = number_of(name, "t")
    if n is not None:
        return rows.one(conn.execute(BY_NUMBER, (space, n)), BY_NUMBER, TaskRow, **_MADE)
    return rows.one(conn.execute(BY_KEY, (space, name)), BY_KEY, TaskRow, **_MADE)


BY_ROW: Final = f"{ROWS} WHERE t.id = ?"


def by_number(conn: apsw.Connection, number: int) -> TaskRow:
    """The task of that row, which is there."""
    found = rows.one(conn.execute(BY_ROW, (number,)), BY_ROW, TaskRow, **_MADE)
    assert found is not None, number
    return found


LISTED: Final = f"{ROWS} WHERE t.space = :space AND t.n > :after ORDER BY t.n LIMIT :limit"
LISTED_IN_STATE: Final = f"""
{ROWS} INDEXED BY tasks_state WHERE t.space = :space AND t.state = :state AND t.n > :after
  AND (:for IS NULL OR t.for_name = :for OR t.holder = :for) ORDER BY t.n LIMIT :limit
"""
LISTED_FOR: Final = f"""
{ROWS} WHERE t.space = :space AND t.n > :after AND (t.for_name = :for OR t.holder = :for) ORDER BY t.n LIMIT :limit
"""
# They are numbered without a gap, and only removed all together.
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
    conn: apsw.Connection, space: str, page: Page, *, state: TaskState | None = None, name: str | None = None
) -> TaskList:
    """A page of the tasks of ``space`` in the order of their numbers: those in ``state``, and for or of ``name``.

    However many are over, a page costs as much as it has; with ``name`` all of the space, or state, are looked at.
    """
    values = {"space": space, "after": page.after or 0, "state": state, "for": name, "limit": page.limit + 1}
    statement = LISTED_IN_STATE if state is not None else LISTED if name is None else LISTED_FOR
    found = rows.all_(conn.execute(statement, values), statement, TaskRow, **_MADE)
    shown, following = page.cut(found, lambda row: row.id)
    return TaskList(tasks=tuple(map(info, shown)), total=_count(conn, values), next=following)


def _count(conn: apsw.Connection, values: Mapping[str, Any]) -> int:
    """Count what a list without a limit has. Most tasks are done, in the long run: those are not counted one by one."""
    if values["for"] is not None:
        return int(conn.execute(COUNT_FOR if values["state"] is None else COUNT_FOR_IN_STATE, values).get)
    if values["state"] in (None, "done"):
        others = int(conn.execute(COUNT_OTHER_STATES, values).get) if values["state"] else 0
        return int(conn.execute(COUNT_ALL, values).get) - others
    return int(conn.execute(COUNT_IN_STATE, values).get)


def info(row: TaskRow) -> TaskInfo:
    """The task as people see it."""
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


UNFINISHED: Final = "SELECT count(*) FROM tasks WHERE space = ? AND state IN ('open', 'ready', 'claimed')"


def unfinished(conn: apsw.Connection, space: str) -> int:
    """Return how many tasks of ``space`` are not over."""
    return int(conn.execute(UNFINISHED, (space,)).get)


EDGES: Final = """
SELECT t.n, o.n FROM tasks AS t INDEXED BY tasks_state CROSS JOIN task_needs AS x ON x.task = t.id
CROSS JOIN tasks AS o ON o.id = x.needs
WHERE t.space = ? AND t.state IN ('open', 'ready', 'claimed') AND o.state IN ('open', 'ready', 'claimed')
"""


def edges(conn: apsw.Connection, space: str) -> dict[str, list[str]]:
    """Return what each task of ``space`` needs, as far as both are not over."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for n, needs in cast("Iterable[tuple[int, int]]", conn.execute(EDGES, (space,))):
        found[task_id(n)].append(task_id(needs))
    return dict(found)


class NewTask(NamedTuple):
    """One task as it is planned: who planned it and how far from the first cause, and whose its command is."""

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
    """Write a task that waits. Returns the number of its row, and its own."""
    values = {
        **new._asdict(),
        "space": space,
        "key": spec.key,
        "title": spec.title,
        "text": spec.text,
        "for": spec.for_,
        "parent": parent,
        "files": msgspec.json.encode(spec.files),
        "command": spec.check,
        "on_failure": spec.on_failure,
        "now": tx.now_ms,
    }
    number, n = cast("tuple[int, int]", tx.conn.execute(INSERT, values).fetchone())
    return number, n


ADD_NEED: Final = "INSERT OR IGNORE INTO task_needs (task, needs) VALUES (?, ?)"


def add_needs(tx: Transaction, needs: Iterable[tuple[int, int]]) -> None:
    """Have each first row wait for the second."""
    tx.conn.executemany(ADD_NEED, needs)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a task, and what is written with it; None and "" where nothing is known of that."""

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


def make_step(tx: Transaction, row: TaskRow, change: Change) -> bool:
    """Make a step of the table; False where its state has none, or is another by now."""
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


GIVE: Final = "UPDATE tasks SET instruction = ?, given_out = given_out + 1 WHERE id = ?"


def give(tx: Transaction, row: TaskRow, instruction: int) -> None:
    """Note the instruction that a ready task was made."""
    tx.conn.execute(GIVE, (instruction, row.number))


SET_FOR: Final = "UPDATE tasks SET for_name = ?, instruction = NULL, given_out = 0 WHERE id = ?"


def set_for(tx: Transaction, row: TaskRow, name: str) -> None:
    """Have a task that nobody is at be for the member ``name``."""
    if row.for_name != name:
        tx.conn.execute(SET_FOR, (name, row.number))


FOLLOWERS: Final = """
SELECT t.id FROM task_needs AS x CROSS JOIN tasks AS t ON t.id = x.task AND t.state = 'open'
WHERE x.needs = ? ORDER BY t.n
"""


def followers(conn: apsw.Connection, number: int) -> list[TaskRow]:
    """The open tasks that need the one of that row."""
    return _these(conn, conn.execute(FOLLOWERS, (number,)))


def _these(conn: apsw.Connection, found: apsw.Cursor) -> list[TaskRow]:
    """The tasks of the rows whose numbers were ``found``."""
    numbers = cast("list[tuple[int]]", found.fetchall())
    return [by_number(conn, number) for (number,) in numbers]


# With work of theirs that has not ended they are on their way already; what a person has cancelled stays so.
TO_GIVE: Final = """
SELECT t.id FROM tasks AS t INDEXED BY tasks_state
WHERE t.space = ? AND t.state = 'ready' AND t.for_name IS NOT NULL AND t.given_out < ?
  AND NOT EXISTS (SELECT 1 FROM instructions AS i
    WHERE i.id = t.instruction AND (i.ended_ms IS NULL OR i.state = 'cancelled')) ORDER BY t.n
"""


def to_give(conn: apsw.Connection, space: str) -> list[TaskRow]:
    """The ready tasks of ``space`` that are to become work of the agents that they are for."""
    return _these(conn, conn.execute(TO_GIVE, (space, GIVEN_OUT)))


FRESH: Final = "UPDATE tasks SET given_out = 0, instruction = NULL WHERE space = ? AND state = 'ready'"


def begin_again(tx: Transaction, space: str) -> None:
    """Have what is ready in ``space`` given out as if it never was: its workflow goes on in another run."""
    tx.conn.execute(FRESH, (space,))


CLAIMS: Final = """
SELECT n AS id, holder, files FROM tasks WHERE space = ? AND state = 'claimed' AND files <> x'5b5d' ORDER BY n
"""


def claims(conn: apsw.Connection, space: str) -> list[FileClaim]:
    """Files of ``space`` that somebody holds."""
    return rows.all_(conn.execute(CLAIMS, (space,)), CLAIMS, FileClaim, id=task_id, files=_files.decode)


GIVEN: Final = """
SELECT n AS id, for_name AS holder, files FROM tasks AS t
WHERE t.space = ? AND t.state = 'ready' AND t.files <> x'5b5d' AND t.for_name IS NOT NULL AND EXISTS (
  SELECT 1 FROM instructions AS i WHERE i.id = t.instruction AND i.ended_ms IS NULL)
"""


def soon_claimed(conn: apsw.Connection, space: str) -> list[FileClaim]:
    """The same, of tasks whose work waits for its turn."""
    return rows.all_(conn.execute(GIVEN, (space,)), GIVEN, FileClaim, id=task_id, files=_files.decode)


OF_INSTRUCTION: Final = """
SELECT id FROM tasks INDEXED BY tasks_instruction WHERE instruction = ? AND state IN ('ready', 'claimed') ORDER BY n
"""


def of_instruction(conn: apsw.Connection, instruction: int) -> Sequence[TaskRow]:
    """The tasks that an instruction is at, or would go on with, and that are not over."""
    return _these(conn, conn.execute(OF_INSTRUCTION, (instruction,)))


HAND: Final = "UPDATE tasks SET handed_by = :by WHERE instruction = :by AND state IN ('ready', 'claimed')"


def hand_tasks(tx: Transaction, instruction: int) -> None:
    """Have the hand-over of ``instruction`` given to whoever takes up the tasks that it is at."""
    tx.conn.execute(HAND, {"by": instruction})


RENEW: Final = "UPDATE tasks SET epoch = ? WHERE id = ?"


def take(tx: Transaction, instruction: int, epoch: int, name: str) -> None:
    """Have an attempt that begins hold the tasks of its instruction, as far as nobody else's files are among theirs."""
    for row in of_instruction(tx.conn, instruction):
        if row.state == "claimed":
            tx.conn.execute(RENEW, (epoch, row.number))
        elif not row.files or claims_against(claims(tx.conn, row.space), row.files, name) is None:
            make_step(tx, row, Change(step="claim", by=name, holder=name, instruction=instruction, epoch=epoch))


# Open ones that wait in vain; ready ones that are for an agent whose work has ended; and ready ones that are nobody's.
STUCK: Final = """
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
CROSS JOIN workflows AS w ON w.space = found.space AND w.state = 'running' ORDER BY found.id
"""
CANCELLED: Final = "SELECT 1 FROM instructions WHERE id = ? AND state = 'cancelled'"
RUN_OF: Final = "SELECT id FROM workflows WHERE space = ? ORDER BY id DESC LIMIT 1"


def stuck(conn: apsw.Connection, now_ms: int) -> Iterable[tuple[str, StuckTask]]:
    """Tasks of running workflows that may need a person, each with its space; ``working`` is left open."""
    for row in _these(conn, conn.execute(STUCK)):
        held = held_by(row.on_failure, row.needs) if row.state == "open" else ()
        ended = row.instruction is not None and row.for_name is not None
        left = ended and (
            row.given_out >= GIVEN_OUT or conn.execute(CANCELLED, (row.instruction,)).fetchone() is not None
        )
        late = row.state == "ready" and (row.ready_ms or 0) <= now_ms - UNCLAIMED_MS
        if held or left or late:
            run = int(conn.execute(RUN_OF, (row.space,)).get)
            one = StuckTask(task=info(row), run=run, held_by=held, left=left)
            yield row.space, one


UNCLAIMED: Final = """
SELECT n FROM tasks INDEXED BY tasks_state
WHERE space = :space AND state = 'ready' AND for_name IS NULL ORDER BY n LIMIT :limit
"""


def unclaimed(conn: apsw.Connection, space: str, limit: int) -> tuple[str, ...]:
    """The first tasks that are ready and for nobody: whoever claims one has it."""
    return tuple(task_id(int(str(n))) for (n,) in conn.execute(UNCLAIMED, {"space": space, "limit": limit}))


OF_AGENTS: Final = """
SELECT t.id FROM workflows AS w CROSS JOIN tasks AS t INDEXED BY tasks_state ON t.space = w.space
WHERE w.state = 'running' AND t.state IN ('open', 'ready', 'claimed')
  AND (t.for_name IS NOT NULL OR t.holder IS NOT NULL) ORDER BY t.id
"""


def of_agents(conn: apsw.Connection) -> Mapping[tuple[str, str], tuple[PsTask, ...]]:
    """The unfinished tasks of each agent, by place and name: what it holds, and what is for it."""
    found: defaultdict[tuple[str, str], list[PsTask]] = defaultdict(list)
    for row in _these(conn, conn.execute(OF_AGENTS)):
        blocked_by = waits_for(row.on_failure, row.needs)
        shown = PsTask(id=row.id, title=row.title, state=row.state, blocked_by=blocked_by)
        found[place_of(row.space), row.holder or row.for_name or ""].append(shown)
    return {key: tuple(tasks) for key, tasks in found.items()}
