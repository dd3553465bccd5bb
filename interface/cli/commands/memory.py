"""``awk memory``: how well agents find again what was said, and how much junk their memory takes up."""

import argparse
import json
import os
from typing import Final

import msgspec

from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.client import Client, new_key, quoted
from interface.failure import Failure
from interface.offline import memory_eval, memory_growth
from protocol.memory_eval import (
    DEPTHS,
    LEAST_QUESTIONS,
    VECTORS_DEPTH,
    EvalFigures,
    EvalFile,
    EvalReport,
    GrowthReport,
    Outcome,
    VectorFigures,
    VectorTrial,
    VectorTrialRequest,
    judged,
)

VERBS: Final = Subcommands(
    "memory",
    (
        Subcommand("eval", "measure whether what is found for questions is what answers them"),
        Subcommand("growth", "measure how much junk a memory takes up over generated runs, with and without the guard"),
    ),
)
DEFAULT_FILE: Final = "memory-eval.json"


def configure_eval(parser: argparse.ArgumentParser) -> None:
    about = f"questions with the turns that answer them, as JSON (default: {DEFAULT_FILE} of the project)"
    parser.add_argument("file", metavar="FILE", nargs="?", help=about)


def run_eval(context: Context) -> int:
    given: str | None = context.args.file
    path = os.path.join(context.project.root, DEFAULT_FILE) if given is None else os.path.join(context.cwd, given)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise Failure("not_found", f"{one_line(path)}: {error.strerror}", "its format: docs/finding.md") from error
    try:
        asked = msgspec.json.decode(text, type=EvalFile)
    except msgspec.DecodeError as error:
        raise Failure("usage", f"{one_line(path)}: {error}", "its format: docs/finding.md") from error
    if asked.agent is None:
        return context.answer(memory_eval(text), eval_lines)
    return context.answer(_of_agent(context, asked.agent, asked), eval_lines)


def configure_growth(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUNS", nargs="?", type=int, default=1000, help="from 10 to 10,000 (1,000)")
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="the same runs each time for the same N (1)")


def run_growth(context: Context) -> int:
    return context.answer(memory_growth(context.args.runs, context.args.seed), growth_lines)


def growth_lines(report: GrowthReport, screen: Screen) -> list[str]:
    titles = ["ROUTE", "RUNS", "ITEMS", "ENTRIES", "CHARACTERS", "WORTH", "KEPT", "JUNK IN IT"]
    rows = [
        [
            *(one.route, str(one.runs), str(one.items), str(one.entries), str(one.characters)),
            *(f"{one.worth:.3f}", f"{one.kept:.3f}"),
            ", ".join(f"{count} {kind}" for kind, count in one.kinds.items() if kind != "fact") or "none",
        ]
        for one in report.rows
    ]
    return [*table(titles, rows, screen, right=frozenset(titles[1:-1])), f"junk among all items: {report.junk:.3f}"]


def _of_agent(context: Context, agent: str, asked: EvalFile) -> EvalReport:
    """The report of what the agent finds in its history, asked of the running kernel; with vectors, too, if it has any.

    What these are worth is told to the kernel: its searches use them from then on, or do not.
    """
    client = context.kernel()
    report = judged(_outcomes(client, agent, asked, vectors=False))
    try:
        with_vectors = judged(_outcomes(client, agent, asked, vectors=True)).all
    except Failure as failure:
        if failure.code == "not_found":  # the project file names no endpoint
            return report
        raise
    depth = str(VECTORS_DEPTH)
    trial = VectorTrialRequest(
        questions=report.all.questions, words=report.all.recall[depth], vectors=with_vectors.recall[depth]
    )
    body = client.post(f"/agents/{quoted(agent)}/thread/trial", msgspec.structs.asdict(trial), key=new_key())
    kept = msgspec.json.decode(body, type=VectorTrial)
    figures = VectorFigures(model=kept.model, all=with_vectors, on=kept.on)
    return msgspec.structs.replace(report, vectors=figures)


def _outcomes(client: Client, agent: str, asked: EvalFile, *, vectors: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for question in asked.questions:
        query = {"query": question.question, "limit": str(max(DEPTHS)), "vectors": str(int(vectors))}
        found = json.loads(client.get(f"/agents/{quoted(agent)}/thread/search", query))["found"]
        units = [[hit.get(part) for part in ("turn", "before", "after")] for hit in found]
        ids = tuple(tuple(str(turn["id"]) for turn in unit if turn) for unit in units)
        outcomes.append(Outcome(question=question, units=ids))
    return outcomes


def eval_lines(report: EvalReport, screen: Screen) -> list[str]:
    def row(name: str, figures: EvalFigures) -> list[str]:
        shares = (f"{share[str(depth)]:.3f}" for share in (figures.recall, figures.turns_alone) for depth in DEPTHS)
        return [name, str(figures.questions), *shares]

    titles = ["KIND", "QUESTIONS", *(f"R@{depth}" for depth in DEPTHS), *(f"ALONE@{depth}" for depth in DEPTHS)]
    rows = [*(row(one_line(kind), figures) for kind, figures in report.kinds.items()), row("all", report.all)]
    vectors = report.vectors
    rows += [] if vectors is None else [row("all, with vectors", vectors.all)]
    lines = table(titles, rows, screen, right=frozenset(titles[1:]))
    if report.abstained is not None:
        lines.append(f"abstained where nothing answers: {report.abstained:.3f}")
    if vectors is not None:
        least = f"; at least {LEAST_QUESTIONS} questions are needed" if report.all.questions < LEAST_QUESTIONS else ""
        use = "searches use them from now on" if vectors.on else f"no gain, and searches do not use them{least}"
        lines.append(f"vectors of {one_line(vectors.model)}: {use}")
    return lines
