"""``awk agent todo``: what an agent has to do, a Markdown checklist."""

import argparse
from functools import partial

from interface.cli.agent_verbs.whereabouts import answer, note_unread, place_of
from interface.cli.agent_verbs.words import Doings, name_argument, text_of
from interface.cli.context import Context
from interface.context.place import Place
from interface.context.todo import Todos, change_todos, read_todos
from protocol.agent_files import TodoReport, TodoRow
from protocol.todo import with_done, with_item, without


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME [add TEXT | done N | rm N]."""
    name_argument(parser)
    doings = Doings(parser, "[add TEXT | done N | rm N]")
    doings.add("add").add_argument("text", metavar="TEXT", help="- reads it from standard input")
    doings.add("done").add_argument("number", metavar="N", type=int)
    doings.add("rm").add_argument("number", metavar="N", type=int)


def run(context: Context) -> int:
    """Do what was said, and show the list."""
    place = place_of(context, context.args.name)
    items, skipped = _done(context, place)
    rows = tuple(TodoRow(n=n, text=item.text, done=item.done) for n, item in enumerate(items, 1))
    return answer(context, TodoReport(agent=place.name, items=rows, skipped=skipped), "todo")


def _done(context: Context, place: Place) -> Todos:
    match context.args.doing:
        case "add":
            changed = change_todos(place, partial(with_item, new=text_of(context, context.args.text)))
            note_unread(context, "the list")
            return changed
        case "done":
            return change_todos(place, partial(with_done, number=context.args.number))
        case "rm":
            return change_todos(place, partial(without, number=context.args.number))
        case _:
            return read_todos(place)
