"""Events for people and programs: which are wanted, from when, and how they are printed."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from interface.cli.context import Context
from interface.cli.duration import duration
from interface.cli.parsing import jsonl_flag
from interface.follow import Follower
from interface.sse import ServerEvent

Event = dict[str, Any]
"""One protocol.events.Event, as JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """From when, and whether to go on."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on as they come; without --since from now on")
    parser.add_argument("--since", type=duration, metavar="D", help="only those of the last 10m, 2h, ...")
    jsonl_flag(parser)


def show(context: Context, space: str | None, wanted: Callable[[Event], bool]) -> int:
    """Print all that is kept and ``wanted``; with ``-f`` those that come. Returns how many there were."""
    shown = 0
    for received, _ in _received(context, space, wanted):
        _print(context, received)
        shown += 1
    return shown


def show_part(
    context: Context,
    space: str | None,
    wanted: Callable[[Event], bool],
    part: Callable[[Sequence[Event]], Sequence[int]],
) -> int:
    """Print those of all that is kept and ``wanted`` whose places ``part`` gives. Returns how many there were."""
    found = list(_received(context, space, wanted))
    places = part([event for _, event in found])
    for place in places:
        _print(context, found[place][0])
    return len(places)


def _received(
    context: Context, space: str | None, wanted: Callable[[Event], bool]
) -> Iterator[tuple[ServerEvent, Event]]:
    filters = {} if space is None else {"space": space}
    after = None if context.args.since is None else context.clock.wall() - context.args.since
    for received in _source(context, filters):
        if not received.data:
            continue
        event: Event = json.loads(received.data)
        if wanted(event) and not (after is not None and _is_before(event, after)):
            yield received, event


def _source(context: Context, filters: dict[str, str]) -> Iterator[ServerEvent]:
    history = {} if context.args.follow and context.args.since is None else {"since": "0"}
    if context.args.follow:
        context.kernel().close()
        query = {**filters, **history}
        yield from Follower(connect=context.find_kernel, query=query, clock=context.clock, say=context.out.note)
    with context.kernel().events({**filters, **history, "follow": "0"}) as stream:
        yield from stream


def _is_before(event: Event, seconds: float) -> bool:
    try:
        return datetime.fromisoformat(event["at"]).timestamp() < seconds
    except (ValueError, KeyError, TypeError):
        return False


def _print(context: Context, received: ServerEvent) -> None:
    if context.args.jsonl:
        context.out.document(received.data)
        return
    from interface.cli.views.events import decode, event_line  # noqa: PLC0415  (JSON lines need no msgspec)

    context.out.lines([event_line(decode(received.data), context.out.screen)])
