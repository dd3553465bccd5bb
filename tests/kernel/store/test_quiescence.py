"""When a run is over, whatever its agents are stuck on: the store's snapshot against a plain look at every moment."""

from dataclasses import dataclass

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.policy.run_completion import RunCompletion, run_completion
from kernel.store.database import open_database
from kernel.store.transaction import Transaction
from kernel.store.transitions.runs import end_run
from kernel.store.workflows import running_runs
from protocol.instruction import ENDED, LIVE, Status, WaitReason

NOW_MS = 10_000
SPACE = "review:main"
TIMES = st.sampled_from([0, NOW_MS - 1, NOW_MS, NOW_MS + 1, NOW_MS + 500, NOW_MS + 5000])
REASONS: list[WaitReason] = ["provider", "credentials", "quota", "approval", "budget", "hops", "paused"]


@dataclass(frozen=True)
class Piece:
    """One instruction, and the agent it is for."""

    state: Status
    waits_for: WaitReason
    not_before_ms: int
    agent: str
    hold: WaitReason | None
    hold_until_ms: int
    resume_at_ms: int

    def can_go_on_at(self, now_ms: int) -> bool:
        """Whether an attempt works on it then, or could take it."""
        if self.state in LIVE:
            return True
        if self.state in ENDED or self.agent != "active" or now_ms < self.resume_at_ms:
            return False
        held = self.hold is not None and not _over(self.hold, self.hold_until_ms, now_ms)
        waits = self.state == "waiting" and not _over(self.waits_for, self.not_before_ms, now_ms)
        return not held and not waits and now_ms >= self.not_before_ms

    def needs_somebody(self) -> bool:
        """Whether it waits for a person who could help it: limits are nobody's to lift."""
        if self.state in LIVE or self.state in ENDED:
            return False
        own = self.state == "waiting" and _endless(self.waits_for, self.not_before_ms)
        if own and self.waits_for in ("budget", "hops"):
            return False  # this is told before what its agent waits for
        return own or self.agent != "active" or (self.hold is not None and _endless(self.hold, self.hold_until_ms))


def _endless(reason: WaitReason, until_ms: int) -> bool:
    return reason == "paused" or (until_ms == 0 and reason != "provider")


def _over(reason: WaitReason, until_ms: int, now_ms: int) -> bool:
    if reason == "paused":
        return False
    return now_ms >= until_ms if until_ms else reason == "provider"


PIECES = st.lists(
    st.builds(
        Piece,
        state=st.sampled_from(["queued", "yielded", "waiting", "waiting", "waiting", "running", "done", "dead"]),
        waits_for=st.sampled_from(REASONS),
        not_before_ms=TIMES,
        agent=st.sampled_from(["active", "active", "active", "paused", "stopped", "error"]),
        hold=st.none() | st.sampled_from(["provider", "quota", "credentials"]),
        hold_until_ms=TIMES,
        resume_at_ms=TIMES,
    ),
    max_size=5,
)

EMPTY = tuple(
    f"DELETE FROM {table}"
    for table in ("workflows", "agents", "instructions", "messages", "events", "ballots", "sqlite_sequence")
)
RUN = """
INSERT INTO workflows (name, tag, space, mode, file, definition, params, vouched, state, started_ms, deadline_ms,
  hops_limit, instructions_limit)
VALUES ('review', 'main', 'review:main', 'run', 'x', x'7B7D', x'7B7D', x'5B5D', 'running', 0, ?, 9, 9)
"""
AGENT = """
INSERT INTO agents (key, name, origin, backend, model, state, hold_key, hold_reason, hold_until_ms, resume_at_ms)
VALUES (?1, ?1, 'file', 'mock', '', ?, ?, ?3, ?, ?)
"""
INSTRUCTION = """
INSERT INTO instructions (agent, name, space, run, lane, state, waits_for, not_before_ms, message, hops, enqueued_ms)
VALUES (?1, ?1, 'review:main', 1, 1, ?, ?, ?, 1, 0, 0)
"""
BALLOT = """
INSERT INTO ballots (space, run, name, type, title, description, options, rule, quorum, binding, creator, hops,
  created_ms, expires_ms, state)
VALUES ('review:main', 1, ?, 'approval', '?', '', CAST('[{"id":"yes"},{"id":"no"}]' AS BLOB), 'plurality', 1, 1, 'user',
  0, 0, ?, ?)
"""


def store(pieces: list[Piece], votes: list[tuple[str, int]], deadline_ms: int | None, conn: apsw.Connection) -> None:
    """A run of these, and nothing else."""
    for statement in EMPTY:
        conn.execute(statement)
    conn.execute(RUN, (deadline_ms,))
    for number, one in enumerate(pieces):
        key = f"a{number}"
        conn.execute(AGENT, (key, one.agent, one.hold, one.hold_until_ms, one.resume_at_ms))
        waits_for = one.waits_for if one.state == "waiting" else None
        conn.execute(INSTRUCTION, (key, one.state, waits_for, one.not_before_ms))
    for number, (state, expires_ms) in enumerate(votes):
        conn.execute(BALLOT, (f"p{number}", expires_ms, state))


DATABASE = open_database(":memory:")


@pytest.mark.promise("P26")
@settings(max_examples=2 * settings.get_profile("untimed").max_examples, deadline=None)
@given(
    PIECES,
    st.lists(st.tuples(st.sampled_from(["open", "resolved", "expired", "cancelled"]), TIMES), max_size=2),
    st.sampled_from([None, NOW_MS - 1, NOW_MS + 400, NOW_MS + 60_000]),
)
def test_a_run_ends_when_and_only_when_nothing_in_it_can_ever_go_on(
    pieces: list[Piece], votes: list[tuple[str, int]], deadline_ms: int | None
) -> None:
    """Early exits 0, hangs 0, whatever an agent is stuck on; what is put to the vote is told in time."""
    conn = DATABASE.writer()
    store(pieces, votes, deadline_ms, conn)
    moments = {NOW_MS, *(at for one in pieces for at in (one.not_before_ms, one.hold_until_ms, one.resume_at_ms))}
    alive = any(
        one.can_go_on_at(at)
        for one in pieces
        for at in moments
        if at >= NOW_MS and (deadline_ms is None or at < deadline_ms)
    )
    ends = [expires_ms for state, expires_ms in votes if state == "open"]
    due = any(at <= NOW_MS for at in ends)
    helpless = any(one.needs_somebody() for one in pieces)  # nobody watches
    alive = alive or (bool(ends) and (due or not helpless) and (deadline_ms is None or deadline_ms > NOW_MS))
    [progress] = running_runs(conn, NOW_MS)
    over = run_completion(progress, NOW_MS)
    assert isinstance(over, RunCompletion) != alive
    if isinstance(over, int):
        assert deadline_ms is None or NOW_MS + over <= deadline_ms
    with conn:
        assert end_run(Transaction(conn, NOW_MS), 1) != alive
    after = [row[0] for row in conn.execute("SELECT state FROM instructions ORDER BY id")]
    assert after == [one.state if alive or one.state in ENDED else _closed(one) for one in pieces]
    still = conn.execute("SELECT count(*) FROM ballots WHERE state = 'open'").get
    assert still == (len(ends) if alive else 0)


def _closed(one: Piece) -> Status:
    return "incomplete" if one.state == "waiting" and one.waits_for in ("budget", "hops") else "cancelled"
