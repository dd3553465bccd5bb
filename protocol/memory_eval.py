"""Evaluation of memory search: files of questions, and the recall of their evidence. Pure.

Also the report of ``awk memory growth``: the growth of a memory over generated runs, most of whose items are junk.

A file is JSON. It either contains its conversations::

    {"conversations": [{"turns": [{"id": "D1:3", "sender": "ann", "text": "..."}],
                        "questions": [{"question": "...", "evidence": ["D1:3"], "kind": "update"}]}]}

or queries the history of an agent of the running kernel, with ids of messages (m12) and steps (i4.3) as evidence::

    {"agent": "alice", "questions": [{"question": "...", "evidence": ["m12"]}]}

Recall at k is the share of a question's evidence in the first k results (a turn with its neighbors), averaged over the
questions. A question without evidence has no answer in the conversation, so the correct result is empty.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

DEPTHS: Final = (5, 10, 20)
VECTORS_DEPTH: Final = 10
"""Number of results for which the recall with and without vectors is compared."""
LEAST_QUESTIONS: Final = 20
"""Minimum number of questions for a conclusion about a history."""

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class EvalTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Turn of a conversation in a file. Turns of another ``session`` are not its neighbors."""

    id: str
    sender: str
    text: str
    session: str = ""


class EvalQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Question, with the turns that answer it; ``kind`` groups questions in the report."""

    question: str
    evidence: tuple[str, ...] = ()
    kind: str = ""


class EvalConversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Turns of a conversation, oldest first, and the questions about it."""

    turns: tuple[EvalTurn, ...]
    questions: tuple[EvalQuestion, ...]


class EvalFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """File of questions: with ``conversations``, or about the history of ``agent``."""

    conversations: tuple[EvalConversation, ...] = ()
    agent: str | None = None
    questions: tuple[EvalQuestion, ...] = ()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Search results for a question, the best first. Each unit contains the ids of a found turn
    and of its neighbors."""

    question: EvalQuestion
    units: tuple[tuple[str, ...], ...]


class EvalFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Recall at 5, 10 and 20 over ``questions`` with evidence; ``turns_alone`` ignores the neighbors of each turn."""

    questions: int
    recall: dict[str, float]
    turns_alone: dict[str, float]


class VectorFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures over all questions with vectors of ``model``. ``on``: the agent's searches now use the vectors."""

    model: str
    all: EvalFigures
    on: bool


class EvalReport(msgspec.Struct, frozen=True, kw_only=True):
    """``awk memory eval``: figures over all questions, and for each kind. ``abstained``: share of the questions without
    an answer whose result was empty; null without such questions. ``vectors``: figures with vectors; null without any.
    """

    all: EvalFigures
    kinds: dict[str, EvalFigures]
    abstained: float | None
    vectors: VectorFigures | None = None
    schema: str = "awk/memory-eval/1"


class VectorTrialRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Result of ``awk memory eval``: recall at 10 over ``questions`` with evidence, by words and with vectors."""

    questions: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    words: Share
    vectors: Share


class VectorTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Stored result of an evaluation. ``on``: the agent's searches use vectors of ``model`` from now on."""

    agent: str
    model: str
    questions: int
    words: float
    vectors: float
    on: bool
    schema: str = "awk/vector-trial/1"


def gains(trial: VectorTrialRequest) -> bool:
    """Return whether vectors improved recall over at least LEAST_QUESTIONS questions."""
    return trial.questions >= LEAST_QUESTIONS and trial.vectors > trial.words


def judged(outcomes: Sequence[Outcome]) -> EvalReport:
    """Return the recall and the other figures of the search results."""
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
"""Source of a memory's items: agents write them; agents write them and a guard's model (``llm_curation``) with 10 %
errors checks them; the guard proposes them after each run (``auto_store``) and a person accepts all of the tray."""


class GrowthRow(msgspec.Struct, frozen=True, kw_only=True):
    """Memory after ``runs`` runs that produced ``items`` items. ``worth``: share of the memory's
    entries that are worth storing. ``kept``: share of the worthwhile items that the memory
    contains. ``kinds``: number of entries by kind, including junk."""

    route: Route
    runs: int
    items: int
    entries: int
    characters: int
    worth: float
    kept: float
    kinds: dict[str, int]


class GrowthReport(msgspec.Struct, frozen=True, kw_only=True):
    """Growth by route. ``junk`` is the share of items that are not worth storing, ``kinds`` counts items by kind."""

    seed: int
    junk: float
    kinds: dict[str, int]
    rows: tuple[GrowthRow, ...]
    schema: str = "awk/memory-growth/1"
