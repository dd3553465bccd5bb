"""Measures of memory: search results in conversations, and the growth of a memory over generated runs.

A generated run has items of several kinds in measured proportions (KINDS), nearly all of them junk.
``kernel.policy.guard.junk`` recognizes some kinds; other junk repeats known items, or looks like
facts to all but a judge. Search uses the index and ranking of agents.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from kernel.policy.curation import Why, verdict
from kernel.policy.guard import Evidence, extracted
from kernel.policy.recall import asked_words
from kernel.store.recall_index import IndexProgress, open_index
from kernel.store.turn_index import IndexedTurn, TurnPlace, put_turns, ranked
from protocol.agent_memory import Entry, Source
from protocol.errors import Refused
from protocol.memory_eval import (
    DEPTHS,
    EvalConversation,
    EvalFile,
    EvalReport,
    GrowthReport,
    GrowthRow,
    Outcome,
    Route,
    judged,
)
from protocol.names import AgentKey

ITEMS: Final = 6
"""Number of items of one run."""
MOST_RUNS: Final = 10_000
POINTS: Final = (0.1, 0.5, 1.0)
"""Fractions of the runs after which the memory is measured."""
WRONG: Final = 0.1
"""Error rate of the modelled judge: half of its wrong answers are unreadable."""
ALICE: Final = AgentKey("alice")
SOURCE: Final = Source(messages=("m1",), class_="agent")
EVIDENCE: Final = Evidence({"m1": "agent"}, {"alice": ALICE})

_PARTS: Final = ("parser", "billing", "search", "login", "export", "cache", "mailer", "schema", "gateway", "scheduler")
_PLACES: Final = (
    "staging",
    "Oslo",
    "the blue host",
    "the nightly job",
    "the mobile client",
    "region two",
    "the archive",
)
_RULES: Final = (
    "{part} {n} writes dates as RFC {m}, since {place} reads nothing else",
    "Releases of {part} {n} go through {place} first, as decided in review {m}",
    "{part} {n} must not retry against {place} more than {m} times, or it is locked out",
    "Tests of {part} {n} need {place} with port {m}, the default one is taken",
)
_STATES: Final = (
    "Working on {part} {n} as asked, {m} files to go", "Done.", "Still waiting for {place} to answer about {part} {n}",
    "Now starting the tests of {part} {n}", "Thanks, that helps a lot with {part} {n}",
)  # fmt: skip
_FRAGMENTS: Final = ("{part} {n}", "uses {place}", "see m1", "RFC {m}")
_CUT: Final = (
    "{part} {n} depends on {place} and",
    "The settings of {part} {n} are the following:",
    "{part} {n} was moved, so…",
)
_SEEMING: Final = (
    "The run today looked at {part} {n} and at {place} for {m} minutes",
    "{place} had {m} open tickets about {part} {n} this morning",
    "Somebody may want to look at {part} {n} near line {m} some day",
)


class MeasuredItem(NamedTuple):
    """An item and its kind: ``fact`` is worth storing, all other kinds are junk."""

    kind: str
    key: str
    value: str
    message: str = "m1"


KINDS: Final = {
    "fact": 22, "known": 180, "state": 300, "fragment": 150, "cut off": 100, "made up": 100, "seeming": 148,
}  # fmt: skip
"""Number per thousand items: 22 are facts, as in a published measurement (97.8 % of 10,134 items were junk)."""
_AGAINST: Final[dict[str, Why]] = {"known": "duplicate", "state": "junk", "fragment": "junk", "seeming": "temporary"}


def memory_growth(runs: int, seed: int = 1) -> GrowthReport:
    """Return the growth over ``runs``, equal for equal ``seed``. Raises Refused (bad_request)."""
    if not 10 <= runs <= MOST_RUNS:
        raise Refused("bad_request", f"{runs} runs cannot be measured", f"use 10 to {MOST_RUNS:,} runs")
    rng = random.Random(seed)  # noqa: S311  (the same runs each time)
    generated = list(_generated(rng, runs))
    kinds = Counter(item.kind for run in generated for item in run)
    rows: list[GrowthRow] = []
    for route, take in _ROUTES.items():
        rows += _grown(route, take, generated, random.Random(seed))  # noqa: S311
    total = sum(kinds.values())
    return GrowthReport(seed=seed, junk=round(1 - kinds["fact"] / total, 4), kinds=dict(kinds), rows=tuple(rows))


def _generated(rng: random.Random, runs: int) -> Iterator[list[MeasuredItem]]:
    facts: list[MeasuredItem] = []
    texts = {"state": _STATES, "fragment": _FRAGMENTS, "cut off": _CUT, "seeming": _SEEMING}
    number = 0
    for _ in range(runs):
        run: list[MeasuredItem] = []
        for drawn in rng.choices(list(KINDS), list(KINDS.values()), k=ITEMS):
            number += 1
            kind = drawn if facts or drawn != "known" else "fact"
            key, message = f"{kind} {number}", "m9" if kind == "made up" else "m1"
            if kind == "known":
                fact = rng.choice(facts).value
                value = rng.choice((fact, f"{fact}!", fact.upper(), f"Note: {fact}"))
            else:
                text = rng.choice(texts.get(kind, _RULES))
                place, m = rng.choice(_PLACES), rng.randrange(1000, 9999)
                value = text.format(part=rng.choice(_PARTS), n=number, m=m, place=place)
            run.append(MeasuredItem(kind, key, value, message))
        facts += [item for item in run if item.kind == "fact"]
        yield run


Taker = Callable[[Sequence[MeasuredItem], Sequence[MeasuredItem], random.Random], Sequence[MeasuredItem]]
"""Function that returns the items of a run to remember, given the known ones and a generator."""


def _grown(
    route: Route, take: Taker, generated: Sequence[Sequence[MeasuredItem]], rng: random.Random
) -> Iterator[GrowthRow]:
    memory: dict[str, MeasuredItem] = {}
    facts = items = 0
    points = {max(1, round(len(generated) * point)) for point in POINTS}
    for number, run in enumerate(generated, 1):
        memory |= {item.key: item for item in take(run, tuple(memory.values()), rng)}
        facts += sum(item.kind == "fact" for item in run)
        items += len(run)
        if number in points:
            kinds = Counter(item.kind for item in memory.values())
            yield GrowthRow(
                route=route,
                runs=number,
                items=items,
                entries=len(memory),
                characters=sum(len(item.key) + len(item.value) for item in memory.values()),
                worth=round(kinds["fact"] / max(len(memory), 1), 4),
                kept=round(kinds["fact"] / max(facts, 1), 4),
                kinds=dict(sorted(kinds.items())),
            )


def _judged(run: Sequence[MeasuredItem], known: Sequence[MeasuredItem], rng: random.Random) -> Sequence[MeasuredItem]:
    del known
    kept: list[MeasuredItem] = []
    for item in run:
        luck = rng.random()
        keep = (item.kind == "fact") != (luck < WRONG)
        why = "good" if keep else _AGAINST.get(item.kind, "vague")
        judged = json.dumps({"keep": keep, "tier": "working", "why": why})
        answer = "I would rather not say." if luck < WRONG / 2 else judged
        change = verdict(answer, Entry(item.key, item.value, source=SOURCE))
        if change is None or change.kept:
            kept.append(item)
    return kept


def _proposed(run: Sequence[MeasuredItem], known: Sequence[MeasuredItem], rng: random.Random) -> Sequence[MeasuredItem]:
    del rng
    said = [
        {"for": "alice", "kind": "decision", "key": one.key, "value": one.value, "messages": [one.message]}
        for one in run
    ]
    texts = [one.value for one in known]
    taken = {one.key for one in extracted(json.dumps({"items": said}), EVIDENCE, {ALICE: texts})}
    return [item for item in run if item.key in taken]


_ROUTES: Final[dict[Route, Taker]] = {
    "written": lambda run, _known, _rng: run,
    "judged": _judged,
    "proposed": _proposed,
}


AGENT = "asked"


def memory_eval(text: bytes) -> EvalReport:
    """Return the figures of the conversations in an evaluation file. Raises Refused (bad_request)."""
    try:
        asked = msgspec.json.decode(text, type=EvalFile)
    except msgspec.DecodeError as error:
        raise Refused(
            "bad_request",
            f"not a valid file of questions: {error}",
            "format: docs/how-to/work-together/search-history.md",
        ) from error
    return judged([one for conversation in asked.conversations for one in _outcomes(conversation)])


def _outcomes(conversation: EvalConversation) -> list[Outcome]:
    conn, _ = open_index(":memory:", "eval")
    turns = conversation.turns
    put_turns(
        conn,
        [
            IndexedTurn(AGENT, TurnPlace("message", n, 0, f"eval:{one.session}", n), f"{one.sender} {one.text}")
            for n, one in enumerate(turns)
        ],
        IndexProgress("eval", len(turns), 0, 0, 0),
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
