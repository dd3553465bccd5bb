"""``awk agent notes``: what an agent wrote down, a Markdown file each."""

import argparse

from interface.cli.agent_verbs.whereabouts import answer, note_unread, place_of
from interface.cli.agent_verbs.words import Doings, name_argument, text_of
from interface.cli.context import Context
from interface.context.notes import add_note, read_notes
from interface.failure import Failure
from protocol.agent_files import NoteRow, NotesReport
from protocol.notes import Note


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME [add TEXT | show N]."""
    name_argument(parser)
    doings = Doings(parser, "[add TEXT | show N]")
    doings.add("add").add_argument("text", metavar="TEXT", help="- reads it from standard input")
    doings.add("show").add_argument("number", metavar="N", type=int)


def run(context: Context) -> int:
    """List the notes, or do what was said."""
    place = place_of(context, context.args.name)
    added: Note | None = None
    if context.args.doing == "add":
        added = add_note(place, text_of(context, context.args.text), context.clock.wall())
        note_unread(context, "the note")
    notes, skipped = read_notes(place)
    rows = tuple(
        NoteRow(n=n, file=note.file, date=note.date or None, title=note.title, text=note.text)
        for n, note in enumerate(notes, 1)
    )
    if added is not None:
        rows = tuple(row for row in rows if row.file == added.file)
    elif context.args.doing == "show":
        rows = (_chosen(rows, place.name, context.args.number),)
    return answer(context, NotesReport(agent=place.name, notes=rows, skipped=skipped), "notes", context.args.doing)


def _chosen(rows: tuple[NoteRow, ...], name: str, number: int) -> NoteRow:
    if not 1 <= number <= len(rows):
        raise Failure("not_found", f"{name} has no note {number}", f"there are {len(rows)}: awk agent notes {name}")
    return rows[number - 1]
