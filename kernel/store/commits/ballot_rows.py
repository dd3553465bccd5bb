"""The rows of ballots. Part of commits, never a job: the rule decides what is written here."""

from typing import Final

import msgspec

from kernel.rule.effects import BallotEnd, BallotOpen, BallotTie, BallotVote
from kernel.store import finals
from kernel.store.clock_text import rfc3339
from kernel.store.transaction import Transaction
from protocol.ballot import NO, YES

_encode: Final = msgspec.json.Encoder().encode


def put_ballot_row(tx: Transaction, row: BallotOpen | BallotVote | BallotTie | BallotEnd) -> None:
    """Write what the rule decided about a ballot."""
    match row:
        case BallotOpen():
            _open(tx, row)
        case BallotVote():
            tx.conn.execute(VOTE, msgspec.structs.asdict(row) | {"now": tx.now_ms})
        case BallotTie():
            tx.conn.execute(TIE, (row.ballot,))
        case BallotEnd():
            _end(tx, row)


INSERT: Final = """
INSERT INTO ballots (space, run, name, type, title, description, options, rule, quorum, tie_breaker, binding, creator,
  creator_key, hops, created_ms, expires_ms, state, salt, strict)
VALUES (:space, (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1), :name, :kind,
  :title, :description, :options, :rule, :quorum, :tie_breaker, :binding, :creator, :creator_key, :hops, :now,
  :expires_ms, 'open', :salt, :strict)
"""
ELECTOR: Final = "INSERT INTO electors (ballot, name) VALUES (?, ?)"


def _open(tx: Transaction, row: BallotOpen) -> None:
    opened = row.opened
    values = {
        "space": row.space,
        "name": opened.name,
        "kind": opened.kind,
        "title": opened.title,
        "description": opened.description,
        "options": _encode(opened.options),
        "rule": opened.rule,
        "quorum": opened.quorum,
        "tie_breaker": opened.tie_breaker,
        "binding": opened.binding,
        "creator": row.creator,
        "creator_key": row.creator_key,
        "hops": row.hops,
        "now": tx.now_ms,
        "expires_ms": opened.expires_ms,
        "salt": opened.salt,
        "strict": opened.strict,
    }
    tx.conn.execute(INSERT, values)
    number = tx.conn.last_insert_rowid()
    tx.conn.executemany(ELECTOR, [(number, name) for name in row.electors])
    data = {"id": opened.name, "type": opened.kind, "expires_at": rfc3339(opened.expires_ms)}
    tx.emit("proposal.opened", space=row.space, agent=row.creator, data=data)


VOTE: Final = """
INSERT INTO votes (ballot, voter, n, choice, reason, at_ms)
VALUES (:ballot, :voter, (SELECT count(*) FROM votes AS v WHERE v.ballot = :ballot), :choice, :reason, :now)
"""

TIE: Final = "UPDATE ballots SET tie_told = 1 WHERE id = ?"

END: Final = """
UPDATE ballots SET state = :state, winner = :winner, why = :why, ended_by = :by, reason = :reason, ended_ms = :now
WHERE id = :ballot AND state = 'open' RETURNING space, name, run, type = 'approval' AND binding
"""
VERDICT: Final = "UPDATE workflows SET verdict = ? WHERE id = ?"


def _end(tx: Transaction, row: BallotEnd) -> None:
    """Once: a ballot that is over stays as it is."""
    found = tx.conn.execute(END, msgspec.structs.asdict(row) | {"now": tx.now_ms}).fetchone()
    if found is not None:
        space, name, run, decides = found
        verdict = finals.expected(tx.conn, run).verdict
        if decides and row.winner in (YES, NO) and verdict is not None and verdict.id == name:
            tx.conn.execute(VERDICT, (row.winner, run))  # the run's own: it outlives what was said
        tx.emit("proposal.ended", space=space, data={"id": name, "state": row.state, "winner": row.winner})
