"""``awk agent memory``: what an agent knows, in YAML files of its context."""

import argparse
from collections.abc import Iterable

from interface.cli.agent_verbs.whereabouts import answer, note_unread, place_of
from interface.cli.agent_verbs.words import Doings, name_argument, text_of
from interface.cli.context import Context
from interface.context.memory import Kept, forget, keep, recall, unknown
from interface.context.place import Place
from protocol.agent_files import MemoryReport, MemoryRow
from protocol.memory import TIERS, VISIBILITIES, matches


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME [get K | set K V | rm K | search Q]."""
    name_argument(parser)
    doings = Doings(parser, "[get K | set K V | rm K | search Q]", "; set takes --tier and --visibility")
    for word in ("get", "set", "rm"):
        one = doings.add(word)
        one.add_argument("key", metavar="K")
        if word == "set":
            one.add_argument("value", metavar="V", help="- reads it from standard input")
            one.add_argument("--tier", choices=TIERS, help="how soon it comes to mind (default: working)")
            one.add_argument("--visibility", choices=VISIBILITIES, help="who may see it (default: private)")
    doings.add("search").add_argument("query", metavar="Q", help="words that all occur")


def run(context: Context) -> int:
    """Show all of it, or do what was said."""
    place = place_of(context, context.args.name)
    match context.args.doing:
        case "set":
            kept = keep(
                place,
                context.args.key,
                text_of(context, context.args.value).removesuffix("\n"),
                context.args.tier,
                context.args.visibility,
            )
            note_unread(context, "memory")
            return answer(context, _report(place, [kept]), "memory")
        case "rm":
            forget(place, context.args.key)
        case "get":
            return _get(context, place, context.args.key)
        case _:
            pass
    found = recall(place)
    query: str = getattr(context.args, "query", "")
    shown = [kept for kept in found.kept if matches(kept.entry, query)]
    return answer(context, _report(place, shown, found.skipped), "memory")


def _get(context: Context, place: Place, key: str) -> int:
    found = recall(place)
    kept = next((kept for kept in found.kept if kept.entry.key == key), None)
    if kept is None:
        raise unknown(place.name, key)
    return answer(context, _report(place, [kept], found.skipped), "memory", True)


def _report(place: Place, kept: Iterable[Kept], skipped: tuple[str, ...] = ()) -> MemoryReport:
    rows = tuple(
        MemoryRow(
            key=entry.key,
            value=entry.value,
            tier=entry.tier,
            visibility=entry.visibility,
            source=entry.source or None,
            file=file,
        )
        for entry, file in kept
    )
    return MemoryReport(agent=place.name, entries=rows, skipped=skipped)
