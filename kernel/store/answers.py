"""What the vote that decides over a run has come to: the ballot that its workflow's ``verdict`` names."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

import apsw

from kernel.policy.ending import Answer, Choice
from kernel.store import ballots
from kernel.store.ballots import Outcome
from protocol.ballot import NO, YES, BallotState

_WITHOUT_WINNER: Final[Mapping[BallotState, str]] = MappingProxyType(
    {
        "open": "{} was still open",
        "resolved": "{} had no winner",
        "expired": "{} had no winner when its time was up",
        "cancelled": "{} was called off",
    }
)


def of_run(conn: apsw.Connection, run: int, name: str) -> Answer:
    """The answer of the ballot called ``name`` in ``run``; why there is none, as long as there is none."""
    outcome = ballots.of_run(conn, run, name)
    if outcome is None:
        return Answer(name, why=f"nobody put {name} to the vote")
    why = _fault(name, outcome)
    return Answer(name, why=why) if why else Answer(name, cast(Choice, outcome.winner))


def _fault(name: str, outcome: Outcome) -> str | None:
    """Why the ballot decides nothing; None where it does."""
    if outcome.type != "approval":
        return f"{name} is not an approval, but of type {outcome.type}"
    if not outcome.binding:
        return f"{name} is not binding"
    return None if outcome.winner in (YES, NO) else _WITHOUT_WINNER[outcome.state].format(name)
