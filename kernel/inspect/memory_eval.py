"""Measures what is found in conversations that a file of questions brings along.

By the index and the ranking that agents search with."""

import msgspec

from kernel.policy.recall import asked_words
from kernel.store.recall_index import Progress, open_index
from kernel.store.turn_index import Place, Turn, put_turns, ranked
from protocol.errors import Refused
from protocol.memory_eval import DEPTHS, EvalConversation, EvalFile, EvalReport, Outcome, judged

AGENT = "asked"


def memory_eval(text: bytes) -> EvalReport:
    """The figures of the conversations in a file with this text. Raises Refused (bad_request)."""
    try:
        asked = msgspec.json.decode(text, type=EvalFile)
    except msgspec.DecodeError as error:
        raise Refused(
            "bad_request", f"this is no file of questions: {error}", "docs/finding.md has the format"
        ) from error
    return judged([one for conversation in asked.conversations for one in _outcomes(conversation)])


def _outcomes(conversation: EvalConversation) -> list[Outcome]:
    conn, _ = open_index(":memory:", "eval")
    turns = conversation.turns
    put_turns(
        conn,
        [
            Turn(AGENT, Place("message", n, 0, f"eval:{one.session}", n), f"{one.sender} {one.text}")
            for n, one in enumerate(turns)
        ],
        Progress("eval", len(turns), 0, 0, 0),
    )
    outcomes: list[Outcome] = []
    for question in conversation.questions:
        best, _common = ranked(conn, AGENT, asked_words(question.question))
        units = tuple(
            tuple(turns[place.number].id for place in (one.place, one.before, one.after) if place is not None)
            for one in best[: max(DEPTHS)]
        )
        outcomes.append(Outcome(question=question, units=units))
    conn.close()
    return outcomes
