"""Questions about landings: the queue of all runs, and what became of one's."""

from typing import Final, cast

import apsw
import msgspec

from kernel.policy.landing import LandingState, LastDelivery, Queued
from kernel.store import rows
from kernel.store.rows import Sql
from kernel.store.transaction import optional_rfc3339, rfc3339
from protocol.api.merges import MergeInfo, MergeOutcome
from protocol.names import run_id


class LandingTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The terms that were asked for: the branches of all agents, or of the one; and what happens with them."""

    agent: str | None = None
    squash: bool = False
    check: str | None = None
    give_back: bool = False


class Landing(Queued, frozen=True):
    """One landing. Of one that is checked, ``branch`` is to be moved from ``expected`` to ``tip``."""

    run: int
    space: str
    state: LandingState
    terms: LandingTerms
    delivers: bool
    after: int
    tries: int
    expected: str
    tip: str
    result: str
    outcome: MergeOutcome
    requested_ms: int
    ended_ms: int | None


_terms: Final = msgspec.json.Decoder(LandingTerms)
_outcome: Final = msgspec.json.Decoder(MergeOutcome)


def _landing(
    id: int, repository: str, branch: str, terms: bytes, delivers: int, outcome: bytes, **columns: object
) -> Landing:
    asked = _terms.decode(terms)
    return Landing(
        id=id,
        repository=repository,
        branch=branch,
        check=asked.check,
        terms=asked,
        delivers=bool(delivers),
        outcome=_outcome.decode(outcome),
        **columns,  # type: ignore[arg-type]
    )


COLUMNS: Final = """
SELECT id, run, space, repository, state, branch, terms, delivers, after, tries, expected, tip, result, outcome,
  requested_ms, ended_ms
FROM landings
"""


unfinished = Sql(f"""
{COLUMNS} WHERE state IN ('requested', 'merging', 'checked') ORDER BY id LIMIT 1000
""").rows(_landing)
"""Those that have not ended, in the order in which they were asked for: the first thousand."""


by_id = Sql(f"{COLUMNS} WHERE id = ?").row(_landing)
"""One of them."""


NEWEST: Final = f"{COLUMNS} WHERE run = :run AND (NOT :delivers OR delivers) ORDER BY id DESC LIMIT 1"


def newest(conn: apsw.Connection, run: int, *, delivers: bool = False) -> Landing | None:
    """The one of ``run`` that was asked for last; of those that its workflow's file asked for, if it ``delivers``."""
    return rows.one(conn.execute(NEWEST, {"run": run, "delivers": delivers}), NEWEST, _landing)


BEFORE: Final = f"{COLUMNS} WHERE run = ? AND id < ? AND delivers ORDER BY id DESC LIMIT 1"


def came_back_unchanged(conn: apsw.Connection, landing: Landing, agent: str, tip: str) -> bool:
    """Return whether the last delivery of the run was given back to ``agent`` already, whose branch is at ``tip``
    still: it is not given back once more.
    """
    before = rows.one(conn.execute(BEFORE, (landing.run, landing.id)), BEFORE, _landing) if landing.delivers else None
    if before is None or not before.outcome.returned_to:
        return False
    return any((one.agent, one.tip) == (agent, tip) for one in before.outcome.branches)


def last_delivery(conn: apsw.Connection, run: int) -> LastDelivery | None:
    """The newest landing that the workflow's file asked for in ``run``."""
    found = newest(conn, run, delivers=True)
    return None if found is None else LastDelivery(found.state, found.after, found.outcome.why)


newest_instruction = Sql("SELECT coalesce(max(id), 0) FROM instructions WHERE run = ?").scalar(int)
"""Return the number of the last instruction of ``run``; 0: there is none."""


WORK: Final = """
SELECT id, max(hops) OVER () FROM instructions WHERE run = ? AND name = ? ORDER BY id DESC LIMIT 50
"""


def work_of(conn: apsw.Connection, run: int, name: str) -> tuple[tuple[int, ...], int]:
    """The last instructions of the agent ``name`` in ``run``, the oldest first, and the hops they had at the most."""
    found = cast("list[tuple[int, int]]", conn.execute(WORK, (run, name)).fetchall())
    return tuple(number for number, _ in reversed(found)), max((hops for _, hops in found), default=0)


repository_of = Sql("SELECT repository FROM worktrees WHERE run = ? ORDER BY agent LIMIT 1").optional(str)
"""The repository of the working trees of ``run``, also of those that are gone; None: it never had one."""


began_on = Sql("SELECT began_on FROM workflows WHERE id = ?").scalar(str, "")
"""The branch that the working trees of ``run`` began from; "": none, or nobody noted it."""


def merge_id(landing: int) -> str:
    """``g3``."""
    return f"g{landing}"


def info_of(landing: Landing) -> MergeInfo:
    """The landing as people see it."""
    return MergeInfo(
        id=merge_id(landing.id),
        run=run_id(landing.run),
        state=landing.state,
        into=landing.branch,
        squash=landing.terms.squash,
        check=landing.terms.check,
        delivers=landing.delivers,
        tries=landing.tries,
        requested_at=rfc3339(landing.requested_ms),
        ended_at=optional_rfc3339(landing.ended_ms),
        **{name: getattr(landing.outcome, name) for name in MergeOutcome.__struct_fields__},
    )
