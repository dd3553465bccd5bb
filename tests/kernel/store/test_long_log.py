"""A log that is made in bulk, to measure with, has the rows that the product writes."""

from typing import Final

from kernel.rule.draft import Draft
from kernel.store import messages, task_views
from kernel.store.database import MEMORY, Database
from kernel.store.rows import RowPage
from kernel.store.transitions import tasks
from kernel.store.transitions import tasks as transitions
from kernel.store.transitions.append import append
from protocol.tasks import TaskSpec
from scripts.benchmarks import long_log
from tests.kernel.store.busy_workspace import SPACE, BusyWorkspace
from tests.kernel.store.migrated import open_migrated

COUNT: Final = 1000
SHAPES: Final = {
    "message": "SELECT kind, space, hops, cause IS NULL, run FROM messages WHERE seq > ? AND addressed = ''",
    "event": "SELECT type, space, instruction IS NULL, data FROM events WHERE message > ? AND type = 'message'",
    "delivery": """SELECT d.space, d.agent = d.name || '@' || d.space, d.name = m.addressed, d.state, i.agent = d.agent
FROM deliveries AS d JOIN messages AS m ON m.seq = d.message JOIN instructions AS i ON i.id = d.instruction
WHERE d.message > ?""",
}
TASK: Final = """
SELECT space, key, for_name, parent, found_in, files, command, vouched, confined, on_failure, state, creator, hops,
  given_out, instruction, holder, epoch, claimed_ms, ended_by, result, reason FROM tasks
"""


def shapes(database: Database, after: int) -> dict[str, set[tuple[object, ...]]]:
    return {name: set(database.writer().execute(select, (after,))) for name, select in SHAPES.items()}


def test_its_messages_are_as_members_say_them_and_are_found_again() -> None:
    ours, theirs = (BusyWorkspace(open_migrated(MEMORY)) for _ in range(2))
    for workspace in (ours, theirs):
        workspace.begin()
    before = messages.newest_seq(ours.conn)
    for to in ((), ("bob",)):
        draft = Draft(kind="said", space=SPACE, sender="alice", text="x", to=to, author=ours.author("alice"))
        ours.commit(append, draft)
    ours.conn.execute("UPDATE deliveries SET state = 'acked'")
    long_log.fill(theirs.conn, SPACE, COUNT)
    assert shapes(ours.database, before) == shapes(theirs.database, before)
    conn = theirs.conn
    (found,) = conn.execute("SELECT seq FROM messages WHERE text LIKE '%' || ?", (long_log.marker(COUNT),)).fetchall()
    assert found == (before + COUNT,)
    assert conn.execute("SELECT count(*) FROM events WHERE message > ?", (before,)).get == COUNT


def test_its_tasks_are_as_a_person_plans_and_ends_them() -> None:
    workspace = BusyWorkspace(open_migrated(MEMORY))
    workspace.begin()
    workspace.commit(tasks.plan, SPACE, [TaskSpec(title="one", text="as it was planned")])
    workspace.commit(transitions.finish, SPACE, "t1", "it is done")
    conn = workspace.conn
    wanted = set(conn.execute(TASK))
    long_log.finish_tasks(conn, SPACE, 3)
    assert set(conn.execute(TASK)) == wanted
    assert [one.id for one in task_views.listed(conn, SPACE, RowPage()).tasks] == ["t1", "t2", "t3", "t4"]
