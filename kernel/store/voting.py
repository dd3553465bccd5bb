"""Proposals and votes: rows and queries. The tables are called ballots, electors and votes.

A proposal belongs to a run: by its name it is found in the newest run of its space. The rule decides what is written
here, as part of its commit; the proposal that a workflow's ``verdict`` names decides over the run.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, cast

import apsw
import msgspec

from kernel.policy.open_items import PendingProposal
from kernel.policy.run_completion import Choice, FinalAnswer
from kernel.policy.voting import ProposalOpened, ProposalState, Undecided, counted, tally
from kernel.rule.effects import Creator, EndProposal, OpenProposal, RecordTie, RecordVote
from kernel.rule.view import ProposalView
from kernel.store import rows, run_outcomes
from kernel.store.rows import WHOLE, Page
from kernel.store.transaction import Transaction, optional_rfc3339, rfc3339
from protocol.names import AgentKey, is_below, place_of
from protocol.voting import (
    NO,
    YES,
    BallotInfo,
    BallotState,
    BallotType,
    Method,
    Option,
    ProposalList,
    ProposalTerms,
    Resolution,
    TieBreaker,
    Vote,
    Why,
)

LISTED: Final = 1000

_options: Final = msgspec.json.Decoder(tuple[Option, ...])


class ProposalRow(msgspec.Struct, frozen=True):
    """A row of ballots."""

    number: int
    space: str
    run: int
    opened: ProposalOpened
    creator: Creator
    created_ms: int
    state: BallotState
    tie_told: bool
    winner: str | None
    why: Why | None
    reason: str
    ended_ms: int | None
    ended_by: str | None


def _row(
    number: int, space: str, run: int, name: str, type: BallotType, title: str, description: str, options: bytes,
    rule: Method, quorum: int, tie_breaker: TieBreaker | None, binding: int, creator: str, creator_key: AgentKey | None,
    hops: int, created_ms: int, expires_ms: int, state: BallotState, tie_told: int, winner: str | None, why: Why | None,
    reason: str, ended_ms: int | None, ended_by: str | None, salt: str, strict: int,
    grants: int,
) -> ProposalRow:  # fmt: skip
    terms = ProposalTerms(
        type=type,
        title=title,
        description=description,
        options=_options.decode(options),
        resolution=Resolution(type=rule, quorum=quorum, tie_breaker=tie_breaker),
        binding=bool(binding),
        timeout_seconds=(expires_ms - created_ms) / 1000,
        id=name,
    )
    opened = ProposalOpened(
        name=name, terms=terms, expires_ms=expires_ms, salt=salt, strict=bool(strict), grants=grants
    )
    return ProposalRow(
        number=number,
        space=space,
        run=run,
        opened=opened,
        creator=Creator(name=creator, agent=creator_key, hops=hops),
        created_ms=created_ms,
        state=state,
        tie_told=bool(tie_told),
        winner=winner,
        why=why,
        reason=reason,
        ended_ms=ended_ms,
        ended_by=ended_by,
    )


ONE: Final = """
SELECT id AS number, space, run, name, type, title, description, options, rule, quorum, tie_breaker, binding, creator,
  creator_key, hops, created_ms, expires_ms, state, tie_told, winner, why, reason, ended_ms, ended_by, salt, strict,
  grants
FROM ballots
WHERE name = :name AND space = :space AND run = coalesce((SELECT s.run FROM subspaces AS s WHERE s.space = :space),
  (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1))
"""
OF_SPACE: Final = """
SELECT id AS number, space, run, name, type, title, description, options, rule, quorum, tie_breaker, binding, creator,
  creator_key, hops, created_ms, expires_ms, state, tie_told, winner, why, reason, ended_ms, ended_by, salt, strict,
  grants
FROM ballots
WHERE space = :space AND run = coalesce(:run, (SELECT s.run FROM subspaces AS s WHERE s.space = :space),
  (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1))
  AND (state = 'open' OR NOT :open) AND id > :after
ORDER BY id LIMIT :limit
"""
COUNT_OF_SPACE: Final = """
SELECT count(*) FROM ballots
WHERE space = :space AND run = coalesce(:run, (SELECT s.run FROM subspaces AS s WHERE s.space = :space),
  (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1))
"""
EVERYWHERE: Final = """
SELECT id AS number, space, run, name, type, title, description, options, rule, quorum, tie_breaker, binding, creator,
  creator_key, hops, created_ms, expires_ms, state, tie_told, winner, why, reason, ended_ms, ended_by, salt, strict,
  grants
FROM ballots WHERE (state = 'open' OR NOT :open) AND (:before IS NULL OR id < :before) ORDER BY id DESC LIMIT :limit
"""
COUNT: Final = "SELECT count(*) FROM ballots WHERE state = 'open' OR NOT :open"
ELECTORS: Final = "SELECT name FROM electors WHERE ballot = ? ORDER BY name"
VOTES: Final = "SELECT voter, choice, reason, at_ms AS at FROM votes WHERE ballot = ? ORDER BY n"


def one(conn: apsw.Connection, space: str, name: str) -> BallotInfo | None:
    """All about the ballot called ``name``."""
    row = _one(conn, space, name)
    return None if row is None else _info(conn, row)


def in_space(conn: apsw.Connection, space: str, *, open_only: bool = False) -> tuple[BallotInfo, ...]:
    """Every ballot of the newest run of ``space``, oldest first, at most 1000: ask for all of them in a thread."""
    values = {"space": space, "run": None, "open": open_only, "limit": LISTED, "after": 0}
    return _all(conn, rows.each(conn.execute(OF_SPACE, values), OF_SPACE, _row))


def of_run_there(conn: apsw.Connection, space: str, page: Page, run: int | None = None) -> ProposalList:
    """A page of the same, or those of ``run``, whatever became of them. ``next`` names one as ``everywhere`` does."""
    values = {"space": space, "run": run, "open": False, "limit": page.limit + 1, "after": page.after or 0}
    shown, following = page.cut(rows.all_(conn.execute(OF_SPACE, values), OF_SPACE, _row), _place)
    return ProposalList(
        proposals=_all(conn, shown), total=int(conn.execute(COUNT_OF_SPACE, values).get), next=following
    )


def everywhere(conn: apsw.Connection, *, open_only: bool, page: Page = WHOLE) -> ProposalList:
    """Ballots of all runs, newest first. Ask in a thread."""
    values = {"open": open_only, "limit": page.limit + 1, "before": page.after}
    shown, following = page.cut(rows.all_(conn.execute(EVERYWHERE, values), EVERYWHERE, _row), _place)
    return ProposalList(proposals=_all(conn, shown), total=int(conn.execute(COUNT, values).get), next=following)


def _place(row: ProposalRow) -> str:
    return f"p{row.number}"


def open_proposals(conn: apsw.Connection, space: str, name: str) -> ProposalView | None:
    """The same ballot, as the rule looks at it."""
    row = _one(conn, space, name)
    if row is None:
        return None
    return ProposalView(
        number=row.number,
        name=row.opened.name,
        title=row.opened.terms.title,
        labels=row.opened.terms.options,
        counting=_counting(conn, row),
        votes={vote.voter: vote.choice for vote in _votes(conn, row.number)},
        creator=row.creator.name,
        creator_key=row.creator.agent,
        hops=row.creator.hops,
        state=row.state,
        tie_told=row.tie_told,
        winner=row.winner,
    )


DEADLINES: Final = "SELECT expires_ms FROM ballots INDEXED BY ballots_open WHERE state = 'open' AND space = ?"


def open_deadlines(conn: apsw.Connection, space: str) -> tuple[int, ...]:
    """Return the deadlines of the open proposals of ``space``."""
    return tuple(int(expires_ms) for (expires_ms,) in conn.execute(DEADLINES, (space,)))


OPEN: Final = """
SELECT id AS number, space, run, name, type, title, description, options, rule, quorum, tie_breaker, binding, creator,
  creator_key, hops, created_ms, expires_ms, state, tie_told, winner, why, reason, ended_ms, ended_by, salt, strict,
  grants
FROM ballots INDEXED BY ballots_open WHERE state = 'open' ORDER BY id
"""


def open_everywhere(conn: apsw.Connection) -> tuple[PendingProposal, ...]:
    """All that is put to the vote now, the oldest first. Each space has few of them."""
    return tuple(
        PendingProposal(
            name=row.opened.name,
            title=row.opened.terms.title,
            space=row.space,
            run=row.run,
            binding=row.opened.terms.binding,
            counting=_counting(conn, row),
            votes={vote.voter: vote.choice for vote in _votes(conn, row.number)},
            creator=row.creator.name,
            opened_ms=row.created_ms,
            since=rfc3339(row.created_ms),
        )
        for row in rows.all_(conn.execute(OPEN), OPEN, _row)
    )


class ProposalOutcome(NamedTuple):
    """Outcome of a proposal, as far as a run is judged by it."""

    type: BallotType
    binding: bool
    state: BallotState


OF_RUN: Final = "SELECT type, binding, state FROM ballots WHERE run = ? AND name = ? AND instr(space, '~') = 0"


def proposals_of_run(conn: apsw.Connection, run: int, name: str) -> ProposalOutcome | None:
    """Return the outcome of the proposal called ``name`` in one run."""
    return rows.one(conn.execute(OF_RUN, (run, name)), OF_RUN, ProposalOutcome, binding=bool)


def _one(conn: apsw.Connection, space: str, name: str) -> ProposalRow | None:
    return rows.one(conn.execute(ONE, {"space": space, "name": name}), ONE, _row)


def _all(conn: apsw.Connection, found: Iterable[ProposalRow]) -> tuple[BallotInfo, ...]:
    return tuple(_info(conn, row) for row in found)


def _votes(conn: apsw.Connection, number: int) -> tuple[Vote, ...]:
    return tuple(rows.each(conn.execute(VOTES, (number,)), VOTES, Vote, at=rfc3339))


def _counting(conn: apsw.Connection, row: ProposalRow) -> ProposalState:
    terms = row.opened.terms
    return ProposalState(
        type=terms.type,
        rule=terms.resolution.type,
        options=tuple(option.id for option in terms.options),
        electors=frozenset(str(name) for (name,) in conn.execute(ELECTORS, (row.number,))),
        quorum=row.opened.quorum,
        deadline_ms=row.opened.expires_ms,
        tie_breaker=terms.resolution.tie_breaker,
        seed=f"{row.opened.salt}/{row.space}/{row.run}/{row.opened.name}",
        strict=row.opened.strict,
        grants=row.opened.grants,
    )


def _info(conn: apsw.Connection, row: ProposalRow) -> BallotInfo:
    terms = row.opened.terms
    counting = _counting(conn, row)
    votes = _votes(conn, row.number)
    choices = {vote.voter: vote.choice for vote in votes}
    stands = tally(counting, choices, row.created_ms) if row.state == "open" else None
    assigned: dict[str, tuple[str, ...]] = {}
    if terms.type == "assignment" and row.state == "resolved":
        for option in terms.options:
            assigned[option.id] = tuple(sorted(voter for voter, choice in choices.items() if choice == option.id))
    return BallotInfo(
        id=row.opened.name,
        space=place_of(row.space),
        type=terms.type,
        title=terms.title,
        description=terms.description,
        options=terms.options,
        resolution=terms.resolution,
        binding=terms.binding,
        creator=row.creator.name,
        created_at=rfc3339(row.created_ms),
        expires_at=rfc3339(row.opened.expires_ms),
        state=row.state,
        electors=tuple(sorted(counting.electors)),
        missing=tuple(sorted(counting.electors - choices.keys())),
        votes=votes,
        counts=counted(counting.options, choices),
        tied=stands.tied if isinstance(stands, Undecided) else (),
        winner=row.winner,
        assigned=assigned,
        why=row.why,
        reason=row.reason,
        ended_at=optional_rfc3339(row.ended_ms),
        ended_by=row.ended_by,
    )


_WITHOUT_WINNER: Final[Mapping[BallotState, str]] = MappingProxyType(
    {
        "open": "{} was still open",
        "resolved": "{} had no winner",
        "expired": "{} had no winner when its time was up",
        "cancelled": "{} was called off",
    }
)


VERDICT: Final = "SELECT verdict FROM workflows WHERE id = ?"


def of_run(conn: apsw.Connection, run: int, name: str) -> FinalAnswer:
    """The answer of the ballot called ``name`` in ``run``; why there is none, as long as there is none."""
    kept = cast("Choice | None", conn.execute(VERDICT, (run,)).get)
    if kept is not None:
        return FinalAnswer(name, kept)
    outcome = proposals_of_run(conn, run, name)
    if outcome is None:
        return FinalAnswer(name, why=f"nobody put {name} to the vote")
    # Why the ballot has decided nothing.
    if outcome.type != "approval":
        fault = f"{name} is not an approval, but of type {outcome.type}"
    elif not outcome.binding:
        fault = f"{name} is not binding"
    else:
        fault = _WITHOUT_WINNER[outcome.state].format(name)
    return FinalAnswer(name, why=fault)


_encode: Final = msgspec.json.Encoder().encode


def write_proposal_row(tx: Transaction, row: OpenProposal | RecordVote | RecordTie | EndProposal) -> None:
    """Write what the rule decided about a ballot."""
    match row:
        case OpenProposal():
            opened, terms = row.opened, row.opened.terms
            values = {
                "space": row.space,
                "name": opened.name,
                "kind": terms.type,
                "title": terms.title,
                "description": terms.description,
                "options": _encode(terms.options),
                "rule": terms.resolution.type,
                "quorum": terms.resolution.quorum,
                "tie_breaker": terms.resolution.tie_breaker,
                "binding": terms.binding,
                "creator": row.creator.name,
                "creator_key": row.creator.agent,
                "hops": row.creator.hops,
                "now": tx.now_ms,
                "expires_ms": opened.expires_ms,
                "salt": opened.salt,
                "strict": opened.strict,
                "grants": opened.grants,
                "binds": None if terms.binds is None else _encode(terms.binds),
            }
            tx.conn.execute(INSERT, values)
            number = tx.conn.last_insert_rowid()
            tx.conn.executemany(ELECTOR, [(number, name) for name in row.electors])
            data = {"id": opened.name, "type": terms.type, "expires_at": rfc3339(opened.expires_ms)}
            tx.emit("proposal.opened", space=row.space, agent=row.creator.name, data=data)
        case RecordVote():
            tx.conn.execute(VOTE, msgspec.structs.asdict(row) | {"now": tx.now_ms})
        case RecordTie():
            tx.conn.execute(TIE, (row.ballot,))
        case EndProposal():
            # Once: a ballot that is over stays as it is.
            found = tx.conn.execute(
                END, msgspec.structs.asdict(row.ended) | {"ballot": row.ballot, "now": tx.now_ms}
            ).fetchone()
            if found is not None:
                space, name, run, decides = found
                verdict = run_outcomes.expected(tx.conn, run).verdict
                is_runs = decides and not is_below(space)  # one of the same name below decides nothing about the run
                if is_runs and row.ended.winner in (YES, NO) and verdict is not None and verdict.id == name:
                    tx.conn.execute(IS_VERDICT, (row.ended.winner, run))  # the run's own: it outlives what was said
                ended = {"id": name, "state": row.ended.state, "winner": row.ended.winner}
                tx.emit("proposal.ended", space=space, data=ended)


INSERT: Final = """
INSERT INTO ballots (space, run, name, type, title, description, options, rule, quorum, tie_breaker, binding, creator,
  creator_key, hops, created_ms, expires_ms, state, salt, strict, binds, grants)
VALUES (:space, coalesce((SELECT s.run FROM subspaces AS s WHERE s.space = :space),
  (SELECT w.id FROM workflows AS w WHERE w.space = :space ORDER BY w.id DESC LIMIT 1)), :name, :kind,
  :title, :description, :options, :rule, :quorum, :tie_breaker, :binding, :creator, :creator_key, :hops, :now,
  :expires_ms, 'open', :salt, :strict, :binds, :grants)
"""
ELECTOR: Final = "INSERT INTO electors (ballot, name) VALUES (?, ?)"


VOTE: Final = """
INSERT INTO votes (ballot, voter, n, choice, reason, at_ms)
VALUES (:ballot, :voter, (SELECT count(*) FROM votes AS v WHERE v.ballot = :ballot), :choice, :reason, :now)
"""

TIE: Final = "UPDATE ballots SET tie_told = 1 WHERE id = ?"

END: Final = """
UPDATE ballots SET state = :state, winner = :winner, why = :why, ended_by = :by, reason = :reason, ended_ms = :now
WHERE id = :ballot AND state = 'open' RETURNING space, name, run, type = 'approval' AND binding
"""
IS_VERDICT: Final = "UPDATE workflows SET verdict = ? WHERE id = ?"
