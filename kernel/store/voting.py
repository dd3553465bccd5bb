"""Proposals and votes: rows and queries. The tables are called ballots, electors and votes.

A proposal belongs to a run: a name refers to the newest run of its space. The proposal that a workflow's ``verdict``
names decides the run.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.open_items import PendingProposal
from kernel.policy.run_completion import Choice, FinalAnswer
from kernel.policy.voting import Ballot, Undecided, counted, tally
from kernel.rule.effects import OpenProposal
from kernel.store import rows, run_outcomes
from kernel.store.rows import WHOLE, RowPage, Sql
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from protocol.names import is_below, place_of
from protocol.voting import NO, YES, BallotInfo, BallotState, BallotType, Option, ProposalList, Resolution, Vote, Why

LISTED: Final = 1000

_options = msgspec.json.Decoder(tuple[Option, ...])


def _sql(statement: str) -> str:
    return statement.format(
        columns="""id AS number, space, run, name, type, title, description, options, rule, quorum, tie_breaker,
  binding, creator, creator_key, hops, created_ms, expires_ms AS deadline_ms, state, tie_told, winner, why,
  reason, ended_ms, ended_by, salt, strict, grants""",
        run="""coalesce((SELECT s.run FROM subspaces AS s WHERE s.space = :space),
  (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1))""",
    )


def _row(*, options: bytes, salt: str, **columns: Any) -> Ballot:
    labels = _options.decode(options)
    seed = "{}/{space}/{run}/{name}".format(salt, **columns)
    ids = tuple(option.id for option in labels)
    return Ballot(labels=labels, options=ids, seed=seed, electors=frozenset(), **columns)


ONE: Final = _sql("SELECT {columns} FROM ballots WHERE name = :name AND space = :space AND run = {run}")
OF_SPACE: Final = _sql("""
SELECT {columns} FROM ballots
WHERE space = :space AND run = coalesce(:run, {run}) AND (state = 'open' OR NOT :open) AND id > :after
ORDER BY id LIMIT :limit
""")
COUNT_OF_SPACE: Final = _sql("SELECT count(*) FROM ballots WHERE space = :space AND run = coalesce(:run, {run})")
EVERYWHERE: Final = _sql("""
SELECT {columns} FROM ballots
WHERE (state = 'open' OR NOT :open) AND (:before IS NULL OR id < :before) ORDER BY id DESC LIMIT :limit
""")
COUNT: Final = "SELECT count(*) FROM ballots WHERE state = 'open' OR NOT :open"
NAMES: Final = _sql("SELECT name FROM ballots WHERE space = :space AND run = {run} ORDER BY id DESC LIMIT 64")
OPEN: Final = _sql("SELECT {columns} FROM ballots INDEXED BY ballots_open WHERE state = 'open' ORDER BY id")
ELECTORS: Final = "SELECT name FROM electors WHERE ballot = ? ORDER BY name"
VOTES: Final = "SELECT voter, choice, reason, at_ms AS at FROM votes WHERE ballot = ? ORDER BY n"


def _found(conn: apsw.Connection, statement: str, values: Mapping[str, Any]) -> list[Ballot]:
    return [
        msgspec.structs.replace(
            row,
            electors=frozenset(str(name) for (name,) in conn.execute(ELECTORS, (row.number,))),
            votes=tuple(rows.each(conn.execute(VOTES, (row.number,)), VOTES, Vote, at=rfc3339)),
        )
        for row in rows.all_(conn.execute(statement, values), statement, _row, binding=bool, tie_told=bool, strict=bool)
    ]


def find(conn: apsw.Connection, space: str, name: str) -> Ballot | None:
    """Return the ballot ``name`` of the newest run of ``space``, or None."""
    return next(iter(_found(conn, ONE, {"space": space, "name": name})), None)


def names(conn: apsw.Connection, space: str) -> tuple[str, ...]:
    """Return at most 64 names of ballots of the newest run of ``space``, newest first."""
    return tuple(str(name) for (name,) in conn.execute(NAMES, {"space": space}))


def open_in(conn: apsw.Connection, space: str) -> list[Ballot]:
    """Return the open ballots of the newest run of ``space``, the oldest first."""
    return _found(conn, OF_SPACE, {"space": space, "run": None, "open": True, "limit": LISTED, "after": 0})


def one(conn: apsw.Connection, space: str, name: str) -> BallotInfo | None:
    """Return the public view of the ballot ``name`` in the newest run of ``space``, or None."""
    found = find(conn, space, name)
    return None if found is None else info(found)


def in_space(conn: apsw.Connection, space: str, *, open_only: bool = False) -> tuple[BallotInfo, ...]:
    """Return at most 1000 ballots of the newest run of ``space``, oldest first. Call in a thread."""
    found = (
        open_in(conn, space)
        if open_only
        else _found(conn, OF_SPACE, {"space": space, "run": None, "open": False, "limit": LISTED, "after": 0})
    )
    return tuple(map(info, found))


def of_run_there(conn: apsw.Connection, space: str, page: RowPage, run: int | None = None) -> ProposalList:
    """Return a page of the ballots of ``run``, or (None) of the newest run of ``space``."""
    values = {"space": space, "run": run, "open": False, "limit": page.limit + 1, "after": page.after or 0}
    return _list(page, _found(conn, OF_SPACE, values), int(conn.execute(COUNT_OF_SPACE, values).get))


def everywhere(conn: apsw.Connection, *, open_only: bool, page: RowPage = WHOLE) -> ProposalList:
    """Return a page of the ballots of all runs, newest first. Call in a thread."""
    values = {"open": open_only, "limit": page.limit + 1, "before": page.after}
    return _list(page, _found(conn, EVERYWHERE, values), int(conn.execute(COUNT, values).get))


def _list(page: RowPage, found: Sequence[Ballot], total: int) -> ProposalList:
    shown, following = page.cut(found, lambda row: f"p{row.number}")
    return ProposalList(proposals=tuple(map(info, shown)), total=total, next=following)


open_deadlines = Sql(
    "SELECT expires_ms FROM ballots INDEXED BY ballots_open WHERE state = 'open' AND space = ?"
).column(int)
"""Return the deadlines of the open proposals of ``space``."""


def open_everywhere(conn: apsw.Connection) -> tuple[PendingProposal, ...]:
    """Return the open proposals, the oldest first. Each space has few of them."""
    return tuple(
        PendingProposal(ballot=row, space=place_of(row.space), since=rfc3339(row.created_ms))
        for row in _found(conn, OPEN, {})
    )


def info(row: Ballot) -> BallotInfo:
    """Return the public view of a ballot."""
    choices = row.choices
    stands = tally(row, choices, row.created_ms) if row.state == "open" else None
    assigned: dict[str, tuple[str, ...]] = {}
    if row.type == "assignment" and row.state == "resolved":
        for option in row.options:
            assigned[option] = tuple(sorted(voter for voter, choice in choices.items() if choice == option))
    return BallotInfo(
        id=row.name,
        space=place_of(row.space),
        type=row.type,
        title=row.title,
        description=row.description,
        options=row.labels,
        resolution=Resolution(type=row.rule, quorum=row.quorum, tie_breaker=row.tie_breaker),
        binding=row.binding,
        creator=row.creator,
        created_at=rfc3339(row.created_ms),
        expires_at=rfc3339(row.deadline_ms),
        state=row.state,
        electors=tuple(sorted(row.electors)),
        missing=tuple(sorted(row.electors - choices.keys())),
        votes=row.votes,
        counts=counted(row.options, choices),
        tied=stands.tied if isinstance(stands, Undecided) else (),
        winner=row.winner,
        assigned=assigned,
        why=row.why,
        reason=row.reason,
        ended_at=optional_rfc3339(row.ended_ms),
        ended_by=row.ended_by,
    )


_WITHOUT_WINNER: Mapping[BallotState, str] = {
    "open": "{} was still open",
    "resolved": "{} had no winner",
    "expired": "{} had no winner at its deadline",
    "cancelled": "{} was cancelled",
}
VERDICT: Final = "SELECT verdict FROM workflows WHERE id = ?"
OF_RUN: Final = "SELECT type, binding, state FROM ballots WHERE run = ? AND name = ? AND instr(space, '~') = 0"


def of_run(conn: apsw.Connection, run: int, name: str) -> FinalAnswer:
    """Return the result of the ballot ``name`` in ``run``, or why it decides nothing."""
    kept = cast("Choice | None", conn.execute(VERDICT, (run,)).get)
    if kept is not None:
        return FinalAnswer(name, kept)
    row = cast("tuple[BallotType, int, BallotState] | None", conn.execute(OF_RUN, (run, name)).fetchone())
    if row is None:
        return FinalAnswer(name, why=f"proposal {name} was never created")
    type_, binding, state = row
    if type_ != "approval":
        fault = f"{name} is not an approval but has type {type_}"
    elif not binding:
        fault = f"{name} is not binding"
    else:
        fault = _WITHOUT_WINNER[state].format(name)
    return FinalAnswer(name, why=fault)


_encode = msgspec.json.Encoder().encode
INSERT: Final = _sql("""
INSERT INTO ballots (space, run, name, type, title, description, options, rule, quorum, tie_breaker, binding, creator,
  creator_key, hops, created_ms, expires_ms, state, salt, strict, binds, grants)
VALUES (:space, {run}, :name, :kind, :title, :description, :options, :rule, :quorum, :tie_breaker, :binding, :creator,
  :creator_key, :hops, :now, :expires_ms, 'open', :salt, :strict, :binds, :grants)
""")
ELECTOR: Final = "INSERT INTO electors (ballot, name) VALUES (?, ?)"


def put_open(tx: Transaction, row: OpenProposal) -> None:
    """Store a new open ballot."""
    opened, terms = row.opened, row.opened.terms
    values = {
        **msgspec.structs.asdict(terms),
        **msgspec.structs.asdict(opened),
        **msgspec.structs.asdict(row),
        "kind": terms.type,
        "options": _encode(terms.options),
        "rule": terms.resolution.type,
        "quorum": terms.resolution.quorum,
        "tie_breaker": terms.resolution.tie_breaker,
        "now": tx.now_ms,
        "binds": None if terms.binds is None else _encode(terms.binds),
    }
    tx.conn.execute(INSERT, values)
    number = tx.conn.last_insert_rowid()
    tx.conn.executemany(ELECTOR, [(number, name) for name in row.electors])
    data = {"id": opened.name, "type": terms.type, "expires_at": rfc3339(opened.expires_ms)}
    tx.emit("proposal.opened", space=row.space, agent=row.creator, data=data)


VOTE: Final = """
INSERT INTO votes (ballot, voter, n, choice, reason, at_ms)
VALUES (:ballot, :voter, (SELECT count(*) FROM votes AS v WHERE v.ballot = :ballot), :choice, :reason, :now)
"""


def put_vote(tx: Transaction, ballot: Ballot, voter: str, choice: str, reason: str) -> None:
    """Record one vote."""
    values = {"ballot": ballot.number, "voter": voter, "choice": choice, "reason": reason, "now": tx.now_ms}
    tx.conn.execute(VOTE, values)


put_tie = Sql("UPDATE ballots SET tie_told = 1 WHERE id = ?").change()
"""Record that the creator was asked to break the tie, so that this happens once."""


class EndedBallot(NamedTuple):
    """End of a ballot. ``by``: who cancelled it or broke the tie, or None."""

    state: BallotState
    winner: str | None
    why: Why
    by: str | None = None
    reason: str = ""


END: Final = """
UPDATE ballots SET state = :state, winner = :winner, why = :why, ended_by = :by, reason = :reason, ended_ms = :now
WHERE id = :ballot AND state = 'open'
"""
IS_VERDICT: Final = "UPDATE workflows SET verdict = ? WHERE id = ?"


def put_end(tx: Transaction, ballot: Ballot, ended: EndedBallot) -> None:
    """End an open ballot; if it is the run's verdict, store the winner in the run's row."""
    tx.conn.execute(END, ended._asdict() | {"ballot": ballot.number, "now": tx.now_ms})
    verdict = run_outcomes.expected(tx.conn, ballot.run).verdict
    # A proposal of the same name in a space below decides nothing about the run.
    decides = ballot.type == "approval" and ballot.binding and not is_below(ballot.space)
    if decides and ended.winner in (YES, NO) and verdict is not None and verdict.id == ballot.name:
        tx.conn.execute(IS_VERDICT, (ended.winner, ballot.run))  # stored in the run's row, which outlives the ballot
    data = {"id": ballot.name, "state": ended.state, "winner": ended.winner}
    tx.emit("proposal.ended", space=ballot.space, data=data)
