"""``awk agent memory``, ``notes``, ``todo`` and ``soul``: an agent's memory, notes, todo list and traits."""

import argparse
import json
import os
from typing import Any, Final

import msgspec

from interface import offline
from interface.cli.command_parser import AgentArguments, Subcommand, Subcommands, name_argument, text_of
from interface.cli.commands.agent import answer_document
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.parsing import flag
from interface.cli.requests import Listing, fetch_list
from interface.client import Client, new_key, quoted
from interface.failure import Failure
from protocol.agent_files import MemoryPurged, MemoryReport, NotesReport, TodoReport
from protocol.agent_memory import CLASSES, TIERS, VISIBILITIES
from protocol.api.history import Reindexed
from protocol.api.souls import SoulReport, TrayReport
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
from protocol.yaml_writer import block

MOST_FOUND: Final = 100
"""Maximum number of results of one search."""
ENTRIES: Final = Listing("entries", "after")


def configure_agent_memory(parser: argparse.ArgumentParser) -> None:
    name_argument(parser)
    more = "; set takes --tier and --visibility"
    doings = AgentArguments(parser, "[get K | set K V | rm K | search Q | purge --source ID|CLASS | tray]", more)
    for word, about in (
        ("get", "Print the value of a key"),
        ("set", "Store a value under a key"),
        ("rm", "Delete an entry"),
    ):
        one = doings.add(word, about)
        one.add_argument("key", metavar="K", help="key of the entry")
        if word == "set":
            one.add_argument("value", metavar="V", help="text, or - to read standard input")
            one.add_argument("--tier", choices=TIERS, help="memory tier (default: working)")
            one.add_argument("--visibility", choices=VISIBILITIES, help="readers of the item (default: private)")
    search = doings.add("search", "Search the memory by words")
    search.add_argument("query", metavar="Q", help="search words; a running kernel ranks the results")
    flag(search, "--archive", about="include archived items")
    search.add_argument("-n", type=int, default=10, metavar="N", help="maximum number of results (default: 10; 0: all)")
    source = f"source: id of a message (m12), or {', '.join(CLASSES)}"
    about = "Delete all entries from a source, and everything derived from them"
    doings.add("purge", about).add_argument("--source", required=True, metavar="ID|CLASS", help=source)
    configure_agent_tray(doings.add("tray", "List suggested items, or decide whether to store one"))


def run_agent_memory(context: Context) -> int:
    name, doing = context.args.name, context.args.doing
    if doing == "tray":
        return run_agent_tray(context)
    if doing == "purge":  # the log has copies, too, and only the kernel writes the log
        path = f"/agents/{quoted(name)}/memory/purge"
        body = context.kernel().post(path, {"source": context.args.source}, key=new_key(), wait_seconds=None)
        return context.answer(body, purged_lines)
    return answer_document(context, _memory(context, context.started_kernel()), memory_lines, doing == "get")


def _memory(context: Context, client: Client) -> MemoryReport:
    args, path = context.args, f"/agents/{quoted(context.args.name)}/memory"
    query: dict[str, str] = {}
    match args.doing:
        case "set":
            value = text_of(context, args.value).removesuffix("\n")
            body = {"value": value, "tier": args.tier, "visibility": args.visibility}
            return msgspec.json.decode(client.put(f"{path}/{quoted(args.key)}", body, {}, {}), type=MemoryReport)
        case "rm":
            client.delete(f"{path}/{quoted(args.key)}")
        case "get":
            query = {"key": args.key}
        case "search":
            query = {"query": args.query, "limit": str(args.n or MOST_FOUND), "archive": str(int(args.archive))}
            return msgspec.json.decode(client.get(f"{path}/search", query), type=MemoryReport)
        case _:
            pass
    return msgspec.convert(fetch_list(client, path, ENTRIES, 0, query), MemoryReport)


def purged_lines(told: MemoryPurged, _screen: Screen) -> list[str]:
    copies = "".join(f", {count} {what}" for count, what in ((told.notes, "notes"), (told.todos, "todos")) if count)
    gone = (
        f"{told.entries} entries{copies}; {told.messages} messages and the steps of {told.instructions} instructions "
        "with them"
    )
    return [f"purged {gone}", *(f"still in {one_line(what)}" for what in told.left)]


def memory_lines(told: MemoryReport, screen: Screen, alone: bool = False) -> list[str]:
    entries = told.entries
    if alone:
        return [escape(entry.value) for entry in entries]
    rows = [[row.key, row.tier, row.visibility, row.trust, row.value] for row in entries]
    return table(["KEY", "TIER", "SEEN BY", "FROM", "VALUE"], rows, screen) if rows else ["no entries"]


def configure_agent_notes(parser: argparse.ArgumentParser) -> None:
    name_argument(parser)
    doings = AgentArguments(parser, "[add TEXT | show N]")
    doings.add("add", "Add a note").add_argument("text", metavar="TEXT", help="text, or - to read standard input")
    doings.add("show", "Print a note").add_argument("number", metavar="N", type=int, help="number of the note")


def run_agent_notes(context: Context) -> int:
    name, doing = context.args.name, context.args.doing
    path = f"/agents/{quoted(name)}/notes"
    text = text_of(context, context.args.text) if doing == "add" else ""
    client = context.started_kernel()
    body = client.post(path, {"text": text}, key=new_key()) if doing == "add" else client.get(path)
    report = msgspec.json.decode(body, type=NotesReport)
    if doing == "show":
        number, count = context.args.number, len(report.notes)
        if not 1 <= number <= count:
            hint = f"notes: {count}; list them: awk agent notes {name}"
            raise Failure("not_found", f"{name} has no note {number}", hint)
        report = msgspec.structs.replace(report, notes=(report.notes[number - 1],))
    return answer_document(context, report, notes_lines, doing)


def notes_lines(told: NotesReport, screen: Screen, doing: str | None = None) -> list[str]:
    notes = told.notes
    if doing == "show":
        return [escape(note.text.rstrip("\n")) for note in notes]
    if not notes:
        return ["no notes"]
    rows = [[str(note.n), note.date or "-", note.title, note.file] for note in notes]
    return table(["N", "DATE", "TITLE", "FILE"], rows, screen, right=frozenset({"N"}))


def configure_agent_todo(parser: argparse.ArgumentParser) -> None:
    name_argument(parser)
    doings = AgentArguments(parser, "[add TEXT | done N | rm N]")
    doings.add("add", "Add an item").add_argument("text", metavar="TEXT", help="text, or - to read standard input")
    for word, about in (("done", "Mark an item as done"), ("rm", "Delete an item")):
        doings.add(word, about).add_argument("number", metavar="N", type=int, help="number of the item")


def run_agent_todo(context: Context) -> int:
    args = context.args
    text = text_of(context, args.text) if args.doing == "add" else ""
    client = context.started_kernel()
    path = f"/agents/{quoted(args.name)}/todo"
    match args.doing:
        case "add":
            body = client.post(path, {"text": text}, key=new_key())
        case "done":
            body = client.put(f"{path}/{args.number}", {"done": True}, {}, {})
        case "rm":
            body = client.delete(f"{path}/{args.number}")
        case _:
            body = client.get(path)
    return answer_document(context, msgspec.json.decode(body, type=TodoReport), todo_lines)


def todo_lines(told: TodoReport, screen: Screen) -> list[str]:
    lines: list[str] = []
    for item in told.items:
        line = f"{item.n:>3}  [{'x' if item.done else ' '}] {one_line(item.text)}"
        lines.append(screen.style(line, "dim") if item.done else line)
    return lines or ["no items"]


def configure_agent_reindex(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="alice or alice@review[:tag] (default: all agents)")


def run_agent_reindex(context: Context) -> int:
    name: str | None = context.args.name
    path = "/reindex" if name is None else f"/agents/{quoted(name)}/reindex"
    return context.answer(context.kernel().post(path, {}, key=new_key(), wait_seconds=None), reindexed_lines)


def reindexed_lines(done: Reindexed, _screen: Screen) -> list[str]:
    whose = f"of {done.agents} agents" if done.agent is None else f"of {one_line(done.agent)}"
    return [f"{done.turns:,} turns {whose} are in the index"]


def configure_agent_tray(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verdict", metavar="approve|reject", nargs="?", choices=("approve", "reject"), help="decision")
    parser.add_argument("item", metavar="ITEM", nargs="?", help="id of the suggested item, as in awk needs (t1)")


def run_agent_tray(context: Context) -> int:
    args = context.args
    path, kernel = f"/agents/{quoted(args.name)}/tray", context.kernel()
    if args.verdict is not None and args.item is None:
        raise Failure("usage", "ITEM is missing", f"awk agent memory {args.name} tray lists the items")
    if args.verdict is None:
        return context.answer(kernel.get(path), tray_lines)
    where = f"{path}/{quoted(args.item)}/{args.verdict}"
    return context.answer(kernel.post(where, {}, key=new_key()), tray_lines)


def tray_lines(found: TrayReport, screen: Screen) -> list[str]:
    rows = [
        [one.id, one.kind, one.key, one_line(one.value), one.trust, " ".join(one.messages)]
        for one in found.rows
        if one.state == "open"
    ]
    return table(["ID", "KIND", "KEY", "SUGGESTED", "TRUST", "FROM"], rows, screen) if rows else ["no suggested items"]


def configure_agent_soul(parser: argparse.ArgumentParser) -> None:
    name_argument(parser)
    doings = AgentArguments(parser, "[show | history | approve ID | reject ID | rollback N]")
    doings.add("show", "Show the traits and the open suggestions")
    doings.add("history", "List the versions and their changes")
    for word in ("approve", "reject"):
        one = doings.add(word, f"{word.title()} a suggested trait")
        one.add_argument("id", metavar="SUGGESTION", help="id of the suggestion, as in awk needs (p1)")
        one.add_argument("--reason", metavar="TEXT", default="", help="reason, stored with the decision")
    back = doings.add("rollback", "Restore an earlier version")
    back.add_argument("version", metavar="N", type=int, help="version to restore")
    back.add_argument("--reason", metavar="TEXT", default="", help="reason, stored with the new version")


def run_agent_soul(context: Context) -> int:
    args = context.args
    path = f"/agents/{quoted(args.name)}/soul"
    kernel = context.kernel()
    match args.doing:
        case "approve" | "reject":
            where = f"{path}/{quoted(args.id)}/{args.doing}"
            body = kernel.post(where, {"reason": args.reason}, key=new_key())
        case "rollback":
            rolled = {"version": args.version, "reason": args.reason}
            body = kernel.post(f"{path}/rollback", rolled, key=new_key())
        case _:
            body = kernel.get(path)
    return context.answer(body, history_lines if args.doing == "history" else soul_lines)


def soul_lines(told: dict[str, Any], screen: Screen) -> list[str]:
    where = f"version {told['version']}, in {told['managed']}" if told["managed"] else "as in its file"
    lines = [screen.style(one_line(f"{told['agent']} ({where})"), "bold")]
    lines += ["  (the file was edited since)"] if told["edited"] else []
    lines += [f"  {escape(line)}" for line in block(told["soul"])] or ["  no traits"]
    waiting = [one for one in told["proposals"] if one["state"] == "open"]
    if waiting:
        rows = [[one["id"], one["trait"], one["value"], one["observation"]] for one in waiting]
        lines += ["", *table(["ID", "TRAIT", "SUGGESTED", "OBSERVED"], rows, screen)]
    return lines


def history_lines(found: SoulReport, screen: Screen) -> list[str]:
    lines: list[str] = []
    for one in found.versions:
        by = f"{one.author}, {one.instruction}" if one.instruction else one.author
        lines.append(screen.style(one_line(f"version {one.version}  {one.at}  by {by}: {one.reason}"), "bold"))
        lines += [f"  {escape(line)}" for line in one.diff.rstrip("\n").split("\n")[2:]]
    return lines or ["no changes"]


MEMORY_VERBS: Final = Subcommands(
    "memory",
    (
        Subcommand("eval", "Measure how often memory search finds the answer to a question"),
        Subcommand("growth", "Simulate runs and measure junk in memory, with and without the guard model"),
    ),
)
DEFAULT_FILE: Final = "memory-eval.json"
FORMAT_HINT: Final = "format: docs/how-to/work-together/search-history.md"


def configure_memory_eval(parser: argparse.ArgumentParser) -> None:
    about = f"questions with the turns that answer them, as JSON (default: {DEFAULT_FILE} of the project)"
    parser.add_argument("file", metavar="FILE", nargs="?", help=about)


def run_memory_eval(context: Context) -> int:
    given: str | None = context.args.file
    path = os.path.join(context.project.root, DEFAULT_FILE) if given is None else os.path.join(context.cwd, given)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        raise Failure("not_found", f"{one_line(path)}: {error.strerror}", FORMAT_HINT) from error
    try:
        asked = msgspec.json.decode(text, type=EvalFile)
    except msgspec.DecodeError as error:
        raise Failure("usage", f"{one_line(path)}: {error}", FORMAT_HINT) from error
    if asked.agent is None:
        return context.answer(offline.memory_measures.memory_eval(text), eval_lines)
    return context.answer(_of_agent(context, asked.agent, asked), eval_lines)


def configure_memory_growth(parser: argparse.ArgumentParser) -> None:
    about = "runs, 10 to 10,000 (default: 1,000)"
    parser.add_argument("runs", metavar="RUNS", nargs="?", type=int, default=1000, help=about)
    about = "random seed of the generated runs (default: 1)"
    parser.add_argument("--seed", metavar="N", type=int, default=1, help=about)


def run_memory_growth(context: Context) -> int:
    return context.answer(offline.memory_measures.memory_growth(context.args.runs, context.args.seed), growth_lines)


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
    """Evaluate history search through the running kernel, also with vectors if available.

    The report is also sent to the kernel: its searches use vectors only if a report showed that they help.
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
