"""A kernel that dies at any write of a vote: one vote each, one resolution, and every call answered as before."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest

from kernel.store import voting
from kernel.store.database import open_database
from protocol.voting import BallotInfo
from tests.kernel.store.busy_workspace import SPACE, BusyWorkspace, asked
from tests.kernel.store.faulty_disk import FaultyDisk

pytestmark = pytest.mark.promise("P24")

Step = Callable[[BusyWorkspace], object]

STEPS: Final[tuple[Step, ...]] = (
    lambda workspace: workspace.create("alice", asked("decision", "abc", tie_breaker="creator-decides"), "a.0"),
    lambda workspace: workspace.vote("bob", "p1", "b", "b.0"),
    lambda workspace: workspace.vote("carol", "p1", "c", "c.0"),
    lambda workspace: workspace.vote("alice", "p1", "a", "a.1"),
    lambda workspace: workspace.vote("alice", "p1", "c", "a.2"),
    lambda workspace: workspace.create("bob", asked(name="late", seconds=5), "b.1"),
    lambda workspace: workspace.vote("carol", "late", "a", "c.1"),
    lambda workspace: workspace.create("carol", asked("approval"), "c.2"),
    lambda workspace: workspace.cancel("carol", "p2", "c.3"),
    lambda workspace: workspace.advance(6),
)
"""What happens, one commit each; every call has a key, as a worker gives it."""

TWICE: Final = """
SELECT substr(text, 1, instr(text, ']')) AS mark, sender FROM messages WHERE kind IN ('vote', 'resolved')
GROUP BY mark, sender HAVING count(*) > CASE WHEN sender = 'alice' AND kind = 'vote' THEN 2 ELSE 1 END
"""
HALVES: Final = """
SELECT (SELECT count(*) FROM ballots WHERE state <> 'open') - (SELECT count(*) FROM messages WHERE kind = 'resolved'),
  (SELECT count(*) FROM votes) + (SELECT count(*) FROM ballots WHERE why = 'creator')
    - (SELECT count(*) FROM messages WHERE kind = 'vote'),
  (SELECT count(*) FROM ballots) - (SELECT count(*) FROM messages WHERE kind = 'proposal' AND sender <> 'system')
"""


def disk_of_its_own() -> FaultyDisk:
    """Nothing is waited for, and nothing remembered."""
    disk = FaultyDisk()
    disk.remembers = False
    return disk


def outcome(workspace: BusyWorkspace) -> list[tuple[object, ...]]:
    """All that came of the votes, but for the times."""
    return [_timeless(one) for one in voting.in_space(workspace.conn, SPACE)]


def _timeless(one: BallotInfo) -> tuple[object, ...]:
    votes = tuple((vote.voter, vote.choice) for vote in one.votes)
    return (one.id, one.type, one.creator, one.state, one.winner, one.why, one.ended_by, votes)


def play(workspace: BusyWorkspace, answers: list[object]) -> None:
    """Every step, in order; what was answered is noted down."""
    for step in STEPS:
        answer = step(workspace)
        answers.append(answer)


def played_again(folder: Path, told: list[object]) -> Iterable[str]:
    """What is wrong after a restart on what is left, where everybody does once more what it had done so far."""
    disk = disk_of_its_own()
    database = open_database(str(folder / "store.db"), disk.name)
    try:
        workspace = BusyWorkspace(database, life=1)
        conn = database.writer()
        if conn.execute("PRAGMA integrity_check").get != "ok":
            yield "the file is torn"
        halves = conn.execute(HALVES).fetchone()
        if halves is not None and any(halves):
            yield f"done by half: {halves}"
        workspace.restart()
        answers: list[object] = []
        play(workspace, answers)
        if answers[: len(told)] != told:
            yield "a call that had been answered was answered otherwise"
        if twice := conn.execute(TWICE).fetchall():
            yield f"told twice: {twice}"
        if outcome(workspace) != FINAL:
            yield f"it came out otherwise: {outcome(workspace)}"
    finally:
        database.close()


FINAL: Final[list[tuple[object, ...]]] = [
    ("p1", "decision", "alice", "resolved", "c", "creator", "alice", (("bob", "b"), ("carol", "c"), ("alice", "a"))),
    ("late", "decision", "bob", "resolved", "a", "deadline", None, (("carol", "a"),)),
    ("p2", "approval", "carol", "cancelled", None, "cancelled", "carol", ()),
]


@pytest.mark.promise("P24", "P4", "P1")
@pytest.mark.long("tests/kernel/store/test_voting.py")
def test_a_kernel_may_die_at_any_write_of_a_vote(tmp_path: Path) -> None:
    """Killed before each write (the cache survives), and by a power cut at each sync.

    What is written to the log are frames, a head and a page each: between the two there is nothing to be found.
    """
    disk = FaultyDisk(lambda: len(answers))
    answers: list[object] = []
    (tmp_path / "now").mkdir()
    database = open_database(str(tmp_path / "now" / "store.db"), disk.name)
    workspace = BusyWorkspace(database)
    workspace.begin()
    killed: list[tuple[int, dict[str, bytes]]] = []
    disk.cuts.clear()
    disk.on_write = lambda: killed.append((len(answers), _files(tmp_path / "now")))
    play(workspace, answers)
    assert outcome(workspace) == FINAL
    disk.on_write = lambda: None
    assert (len(killed) > 100, len(disk.cuts) >= len(STEPS)) == (True, True)
    faults: list[str] = []
    for place, (told, files) in enumerate(killed[::2]):
        folder = tmp_path / f"killed-{place}"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        faults += [f"killed at {place}: {fault}" for fault in played_again(folder, answers[:told])]
    chance = random.Random(5)
    for place, cut in enumerate(disk.cuts):
        folder = tmp_path / f"cut-{place}"
        folder.mkdir()
        cut.write_to(folder, chance)
        faults += [f"cut at {place}: {fault}" for fault in played_again(folder, answers[: cut.told])]
    database.close()
    assert faults == []


def _files(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir() if not one.name.endswith("-shm")}


def test_the_judge_sees_what_is_done_by_half(tmp_path: Path) -> None:
    disk = disk_of_its_own()
    database = open_database(str(tmp_path / "store.db"), disk.name)
    workspace = BusyWorkspace(database)
    workspace.begin()
    answers: list[object] = []
    play(workspace, answers)
    conn = database.writer()
    conn.execute("DELETE FROM votes WHERE voter = 'bob'").fetchall()
    database.close()
    assert any("by half" in fault for fault in played_again(tmp_path, answers))
