"""df: every byte of the state is told once, with the way to have less of it; no link is followed."""

from pathlib import Path

import apsw

from kernel.inspect.disk_usage import disk_usage
from protocol.discovery import DATABASE
from tests.kernel.store.running_store import open_store

TREE = """
INSERT INTO worktrees (run, agent, name, space, state, repository, base, branch, path, folder)
VALUES (1, 'bob', 'bob', 'review:main', 'kept', '/r', 'b', 'awk/review/r1/bob', ?, '')
"""


async def test_all_that_takes_room_is_told_once_the_largest_first(tmp_path: Path) -> None:
    root, state = tmp_path / "project", tmp_path / "state"
    tree = state / "worktrees/review/r1/bob"
    for folder in (root / ".workspace", tree, state / "aside/then", state / "sessions"):
        folder.mkdir(parents=True)
    (tree / "big").write_bytes(b"x" * 300_000)
    (state / "sessions" / "out").symlink_to("/usr")
    (state / "aside/then" / DATABASE).write_bytes(b"y" * 100_000)
    (state / "kernel.log").write_bytes(b"z" * 50_000)
    (state / f"{DATABASE}.saved-1").write_bytes(b"s" * 20_000)
    async with open_store(str(state / DATABASE)) as store:
        await store.agents("alice")
        await store.workflow("bob")
        for _ in range(20):
            await store.said("review:main", "m" * 10_000)
    connection = apsw.Connection(str(state / DATABASE))
    connection.execute(TREE, (str(tree),))
    connection.close()
    told = disk_usage(root, state, 10)
    sizes = {(row.group, row.what): row.bytes for row in told.rows}
    assert [row.bytes for row in told.rows] == sorted(sizes.values(), reverse=True)
    assert sum(sizes.values()) == told.total_bytes
    in_database = sum(row.bytes for row in told.rows if row.group == "database" and row.files is None)
    assert in_database == (state / DATABASE).stat().st_size
    assert sizes["database", "messages"] > 200_000
    assert 300_000 <= sizes["trees", "working trees"] < 400_000
    assert 100_000 <= sizes["aside", "set aside"] < 150_000
    assert 50_000 <= sizes["logs", "kernel.log, kernel.log.1"] < 60_000
    assert 20_000 <= sizes["database", "copies saved by a kernel"] < 30_000
    assert sizes.get(("sessions", "home directories of CLIs"), 0) < 10_000, "a link is not followed"
    (run,) = told.runs
    assert (run.id, run.run, run.tree_bytes >= 300_000, run.log_bytes >= 0) == ("r1", "review:main", True, True)
    assert disk_usage(root, state, 0).more_runs == 1


def test_a_project_without_state_takes_no_room(tmp_path: Path) -> None:
    told = disk_usage(tmp_path, tmp_path / "none", 10)
    assert (told.total_bytes, told.rows, told.runs) == (0, (), ())
    assert not (tmp_path / "none").exists()
