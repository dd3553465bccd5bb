"""Evidence recall: whether what is found for a question is what answers it. Files of questions, and their figures.
Beside it ``awk memory growth``: how a memory grows over generated runs, most of whose items are junk. Pure.

A file is JSON. Either it brings its conversations along::

    {"conversations": [{"turns": [{"id": "D1:3", "sender": "ann", "text": "..."}],
                        "questions": [{"question": "...", "evidence": ["D1:3"], "kind": "update"}]}]}

or it asks what an agent of the running kernel finds in its own history, by ids of messages (m12) and steps (i4.3)::

    {"agent": "alice", "questions": [{"question": "...", "evidence": ["m12"]}]}

Recall at k is the share of a question's evidence among the first k units that are found (a turn with the ones beside
it), on average over the questions. A question without evidence has no answer there: it is right to find nothing for
it.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

DEPTHS: Final = (5, 10, 20)
VECTORS_DEPTH: Final = 10
"""At which recall with vectors is compared with that without."""
LEAST_QUESTIONS: Final = 20
"""Fewer say nothing about a history."""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class EvalTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn of a conversation that a file brings along. Turns of another ``session`` are not beside it."""

    id: str
    sender: str
    text: str
    session: str = ""


class EvalQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question, and the turns that answer it; ``kind`` groups questions in the report."""

    question: str
    evidence: tuple[str, ...] = ()
    kind: str = ""


class EvalConversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was said, oldest first, and what is asked of it."""

    turns: tuple[EvalTurn, ...]
    questions: tuple[EvalQuestion, ...]


class EvalFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of questions: with ``conversations``, or about the history of ``agent``."""

    conversations: tuple[EvalConversation, ...] = ()
    agent: str | None = None
    questions: tuple[EvalQuestion, ...] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was found for a question: units, the best first, each the ids of a turn and of those beside it."""

    question: EvalQuestion
    units: tuple[tuple[str, ...], ...]


class EvalFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of so many questions with evidence the recall at 5, 10 and 20; ``turns_alone`` without the turns beside."""

    questions: int
    recall: dict[str, float]
    turns_alone: dict[str, float]


class VectorFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures over all questions with vectors of ``model``, too. ``on``: the agent's searches use them now."""

    model: str
    all: EvalFigures
    on: bool


class EvalReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk memory eval``: over all questions, and of each kind. ``abstained``: of the questions without an answer
    those for which nothing was found; null: there were none. ``vectors``: the same with vectors; null: there are none.
    """

    all: EvalFigures
    kinds: dict[str, EvalFigures]
    abstained: float | None
    vectors: VectorFigures | None = None
    schema: str = "awk/memory-eval/1"


class VectorTrialRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of ``awk memory eval``: recall at 10 over ``questions`` with evidence, by words and with vectors."""

    questions: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    words: Share
    vectors: Share


class VectorTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The same as it is kept. ``on``: the agent's searches use vectors of ``model`` from now on."""

    agent: str
    model: str
    questions: int
    words: float
    vectors: float
    on: bool
    schema: str = "awk/vector-trial/1"


def gains(trial: VectorTrialRequest) -> bool:
    """Return whether what was measured is a gain, over questions enough."""
    return trial.questions >= LEAST_QUESTIONS and trial.vectors > trial.words


def judged(outcomes: Sequence[Outcome]) -> EvalReport:
    """The figures of what was found."""
    asked = [one for one in outcomes if one.question.evidence]
    unanswerable = [one for one in outcomes if not one.question.evidence]
    kinds = sorted({one.question.kind for one in asked} - {""})
    return EvalReport(
        all=_figures(asked),
        kinds={kind: _figures([one for one in asked if one.question.kind == kind]) for kind in kinds},
        abstained=sum(not one.units for one in unanswerable) / len(unanswerable) if unanswerable else None,
    )


def _figures(outcomes: Sequence[Outcome]) -> EvalFigures:
    return EvalFigures(
        questions=len(outcomes),
        recall={str(depth): _recall(outcomes, depth, None) for depth in DEPTHS},
        turns_alone={str(depth): _recall(outcomes, depth, 1) for depth in DEPTHS},
    )


def _recall(outcomes: Sequence[Outcome], depth: int, width: int | None) -> float:
    shares = [
        len({id_ for unit in one.units[:depth] for id_ in unit[:width]} & set(one.question.evidence))
        / len(set(one.question.evidence))
        for one in outcomes
    ]
    return round(sum(shares) / len(shares), 4) if shares else 0.0


Route = Literal["written", "judged", "proposed"]
"""How items come into a memory: as agents write them; the same, judged by a guard's model (``llm_curation``) that is
wrong in one of ten; proposed after each run (``auto_store``), where somebody takes all that is in the tray."""


class GrowthRow(msgspec.Struct, frozen=True, kw_only=True):
    """A memory after so many ``runs``, of which ``items`` came: ``worth`` is the share of its entries that is worth
    keeping, ``kept`` the share of what is worth keeping that is in it; ``kinds`` of its entries, junk among them.
    """

    route: Route
    runs: int
    items: int
    entries: int
    characters: int
    worth: float
    kept: float
    kinds: dict[str, int]


class GrowthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The growth by each route; ``junk`` is the share of all items that is not worth keeping, and of what kinds."""

    seed: int
    junk: float
    kinds: dict[str, int]
    rows: tuple[GrowthRow, ...]
    schema: str = "awk/memory-growth/1"
