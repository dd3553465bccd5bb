"""What the vote that decides over a run has come to: the ballot that its workflow's ``verdict`` names."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

import apsw

from kernel.policy.ending import Answer, Choice
from kernel.store import ballots
from kernel.store.ballots import Outcome
from protocol.ballot import BallotState

_WITHOUT_WINNER: Final[Mapping[BallotState, str]] = MappingProxyType(
    {
        "open": "{} was still open",
        "resolved": "{} had no winner",
        "expired": "{} had no winner when its time was up",
        "cancelled": "{} was called off",
    }
)


VERDICT: Final = "SELECT verdict FROM workflows WHERE id = ?"


def of_run(conn: apsw.Connection, run: int, name: str) -> Answer:
    """The answer of the ballot called ``name`` in ``run``; why there is none, as long as there is none."""
    kept = cast("Choice | None", conn.execute(VERDICT, (run,)).get)
    if kept is not None:
        return Answer(name, kept)
    outcome = ballots.of_run(conn, run, name)
    if outcome is None:
        return Answer(name, why=f"nobody put {name} to the vote")
    return Answer(name, why=_fault(name, outcome))


def _fault(name: str, outcome: Outcome) -> str:
    """Why the ballot has decided nothing."""
    if outcome.type != "approval":
        return f"{name} is not an approval, but of type {outcome.type}"
    if not outcome.binding:
        return f"{name} is not binding"
    return _WITHOUT_WINNER[outcome.state].format(name)
