"""Events for people and programs: which are wanted, from when, and how they are printed."""

import argparse
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from interface.cli.context import Context
from interface.cli.duration import duration
from interface.cli.exits import Exit
from interface.cli.parsing import jsonl_flag
from interface.client import SILENCE_SECONDS
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
    """Print all that is kept and ``wanted``; with ``-f`` those that come."""
    filters = {} if space is None else {"space": space}
    after = None if context.args.since is None else context.clock.wall() - context.args.since
    for received in _source(context, filters):
        if not received.data:
            continue
        event: Event = json.loads(received.data)
        if wanted(event) and not (after is not None and _is_before(event, after)):
            _print(context, received)
    return Exit.OK


def _source(context: Context, filters: dict[str, str]) -> Iterable[ServerEvent]:
    history = {} if context.args.follow and context.args.since is None else {"since": "0"}
    client = context.kernel()
    if not context.args.follow:
        stream = client.events({**filters, **history, "follow": "0"})
        stream.wait_at_most(SILENCE_SECONDS)
        return stream
    client.close()
    return Follower(
        connect=context.find_kernel, query={**filters, **history}, clock=context.clock, say=context.out.note
    )


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
