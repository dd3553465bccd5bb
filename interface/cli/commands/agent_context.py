"""``awk agent memory``, ``notes`` and ``todo``: what an agent knows, noted and has to do, in files of its context."""

import argparse
from functools import partial

import msgspec

from interface.cli.command_parser import AgentArguments, name_argument, text_of
from interface.cli.commands.agent import agent_location, answer_document, note_unread
from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.context.agent_dir import AgentDir
from interface.context.memory import delete, find, set_, unknown
from interface.context.notes import add_note, change_todos, read_notes, read_todos
from interface.failure import Failure
from protocol.agent_files import MemoryReport, NotesReport, TodoReport, memory_rows, note_rows, todo_rows
from protocol.agent_layout import MEMORY
from protocol.agent_memory import TIERS, VISIBILITIES, Note, matches, with_done, with_item, without
from protocol.memory_files import Memory


def configure_memory(parser: argparse.ArgumentParser) -> None:
    """NAME [get K | set K V | rm K | search Q]."""
    name_argument(parser)
    doings = AgentArguments(parser, "[get K | set K V | rm K | search Q]", "; set takes --tier and --visibility")
    for word in ("get", "set", "rm"):
        one = doings.add(word)
        one.add_argument("key", metavar="K")
        if word == "set":
            one.add_argument("value", metavar="V", help="- reads it from standard input")
            one.add_argument("--tier", choices=TIERS, help="how soon it comes to mind (default: working)")
            one.add_argument("--visibility", choices=VISIBILITIES, help="who may see it (default: private)")
    doings.add("search").add_argument("query", metavar="Q", help="words that all occur")


def run_memory(context: Context) -> int:
    """Show all that the agent knows, or one entry; set, remove or search."""
    place = agent_location(context, context.args.name)
    match context.args.doing:
        case "set":
            value = text_of(context, context.args.value).removesuffix("\n")
            stored = set_(place, context.args.key, value, context.args.tier, context.args.visibility)
            note_unread(context, "memory")
            return answer_document(context, _report(place, Memory((stored,), ())), memory_lines)
        case "rm":
            delete(place, context.args.key)
        case _:
            pass
    found = find(place)
    if context.args.doing == "get":
        one = found.find(context.args.key)
        if one is None:
            raise unknown(place.name, context.args.key)
        return answer_document(context, _report(place, Memory((one,), found.skipped)), memory_lines, True)
    query: str = getattr(context.args, "query", "")
    shown = tuple(stored for stored in found.kept if matches(stored.entry, query))
    return answer_document(context, _report(place, Memory(shown, found.skipped)), memory_lines)


def _report(place: AgentDir, memory: Memory) -> MemoryReport:
    skipped = tuple(one.shown(f"{place.directory}/{MEMORY}") for one in memory.skipped)
    return MemoryReport(agent=place.name, entries=memory_rows(memory.kept), total=len(memory.kept), skipped=skipped)


def memory_lines(body: bytes, screen: Screen, alone: bool = False) -> list[str]:
    """One line for each entry; with ``alone`` only the value of the one there is, as it stands."""
    entries = msgspec.json.decode(body, type=MemoryReport).entries
    if alone:
        return [escape(entry.value) for entry in entries]
    rows = [[row.key, row.tier, row.visibility, row.trust, row.value] for row in entries]
    return table(["KEY", "TIER", "SEEN BY", "FROM", "VALUE"], rows, screen) if rows else ["nothing"]


def configure_notes(parser: argparse.ArgumentParser) -> None:
    """NAME [add TEXT | show N]."""
    name_argument(parser)
    doings = AgentArguments(parser, "[add TEXT | show N]")
    doings.add("add").add_argument("text", metavar="TEXT", help="- reads it from standard input")
    doings.add("show").add_argument("number", metavar="N", type=int)


def run_notes(context: Context) -> int:
    """List the notes, or do what was said."""
    place = agent_location(context, context.args.name)
    added: Note | None = None
    if context.args.doing == "add":
        added = add_note(place, text_of(context, context.args.text), context.clock.wall())
        note_unread(context, "the note")
    notes, skipped = read_notes(place)
    rows = note_rows(notes)
    if added is not None:
        rows = tuple(row for row in rows if row.file == added.file)
    elif context.args.doing == "show":
        number = context.args.number
        if not 1 <= number <= len(rows):
            raise Failure(
                "not_found",
                f"{place.name} has no note {number}",
                f"there are {len(rows)}: awk agent notes {place.name}",
            )
        rows = (rows[number - 1],)
    return answer_document(
        context, NotesReport(agent=place.name, notes=rows, skipped=skipped), notes_lines, context.args.doing
    )


def notes_lines(body: bytes, screen: Screen, doing: str | None = None) -> list[str]:
    """One line for each note; all of it where one was asked for."""
    notes = msgspec.json.decode(body, type=NotesReport).notes
    if doing == "show":
        return [escape(note.text.rstrip("\n")) for note in notes]
    if not notes:
        return ["no notes"]
    rows = [[str(note.n), note.date or "-", note.title, note.file] for note in notes]
    return table(["N", "DATE", "TITLE", "FILE"], rows, screen, right=frozenset({"N"}))


def configure_todo(parser: argparse.ArgumentParser) -> None:
    """NAME [add TEXT | done N | rm N]."""
    name_argument(parser)
    doings = AgentArguments(parser, "[add TEXT | done N | rm N]")
    doings.add("add").add_argument("text", metavar="TEXT", help="- reads it from standard input")
    doings.add("done").add_argument("number", metavar="N", type=int)
    doings.add("rm").add_argument("number", metavar="N", type=int)


def run_todo(context: Context) -> int:
    """Add, tick off or remove an item, and show the list."""
    place = agent_location(context, context.args.name)
    match context.args.doing:
        case "add":
            items, skipped = change_todos(place, partial(with_item, new=text_of(context, context.args.text)))
            note_unread(context, "the list")
        case "done":
            items, skipped = change_todos(place, partial(with_done, number=context.args.number))
        case "rm":
            items, skipped = change_todos(place, partial(without, number=context.args.number))
        case _:
            items, skipped = read_todos(place)
    return answer_document(context, TodoReport(agent=place.name, items=todo_rows(items), skipped=skipped), todo_lines)


def todo_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each item, with its number."""
    lines: list[str] = []
    for item in msgspec.json.decode(body, type=TodoReport).items:
        line = f"{item.n:>3}  [{'x' if item.done else ' '}] {one_line(item.text)}"
        lines.append(screen.style(line, "dim") if item.done else line)
    return lines or ["nothing to do"]
