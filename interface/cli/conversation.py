"""Messages of one space: those there are, and with ``-f`` those that come, through restarts of the kernel."""

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.paging import MESSAGES, Listing, count_flag, fetch_list, tell_rest
from interface.cli.parsing import json_flag, jsonl_flag
from interface.client import quoted
from interface.failure import Failure, Unreachable
from interface.follow import CONNECTED, Follower

DEFAULT_COUNT: Final = 50
SINCE: Final = Listing("messages", "since")

Message = dict[str, Any]
"""One protocol.message.Message, as JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """How many, and whether to go on."""
    count_flag(parser, DEFAULT_COUNT, "the last N")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as messages come")
    json_flag(parser)
    jsonl_flag(parser)


def show(context: Context, space: str, only: str | None = None, run: str | None = None) -> int:
    """Print the last messages of ``space``; of ``only`` those from and to that agent, of ``run`` those said in it."""
    if context.args.follow and context.args.json:
        raise Failure("usage", "-f does not end, so it is no one document", "use --jsonl")
    if context.args.follow and run is not None:
        raise Failure("usage", "what is over cannot be followed", "leave out -f or --run")
    query = {name: value for name, value in (("agent", only), ("run", run)) if value is not None}
    return _follow(context, space, only, query) if context.args.follow else _print(context, space, query)


def concerns(message: Message, agent: str) -> bool:
    """Whether ``agent`` said it or was meant by it."""
    return (
        agent == message.get("from") or agent in message.get("to", ()) or f"@{agent}" in message.get("text", "").lower()
    )


def _print(context: Context, space: str, query: Mapping[str, str]) -> int:
    document = fetch_list(context.kernel(), _path(space), MESSAGES, context.args.n, query)
    if context.args.jsonl:
        for message in document["messages"]:
            context.out.document(_dump(message))
    else:
        context.answer(_dump(document).encode(), "messages")
    tell_rest(context, document, MESSAGES)
    return Exit.OK


def _path(space: str) -> str:
    return f"/spaces/{quoted(space)}/channel"


def _follow(context: Context, space: str, only: str | None, query: Mapping[str, str]) -> int:
    """History and stream meet without a gap: the stream is open before history is read, and seq tells doubles."""
    context.kernel().get(_path(space), {"limit": "1"})  # a space that does not exist is an error now, not silence
    follower = Follower(
        connect=context.find_kernel,
        query={"space": space, "type": "message"},
        clock=context.clock,
        say=context.out.note,
    )
    shown: int | None = None
    for event in follower:
        messages: list[Message] = []
        if event == CONNECTED:
            messages = _history(context, follower, space, query, shown)
        elif event.type == "message":
            messages = [json.loads(event.data)["data"]]
        for message in messages:
            if shown is None or message["seq"] > shown:
                shown = message["seq"]
                if only is None or concerns(message, only):
                    _show(context, message)
    return Exit.OK


def _history(
    context: Context, follower: Follower, space: str, query: Mapping[str, str], shown: int | None
) -> list[Message]:
    """The last messages; after a reconnect, all since the last one shown."""
    assert follower.client is not None
    listing, count, since = (MESSAGES, context.args.n, {}) if shown is None else (SINCE, 0, {"since": str(shown)})
    try:
        return list(fetch_list(follower.client, _path(space), listing, count, {**query, **since})["messages"])
    except Unreachable:
        return []  # the stream breaks too, and the next connect asks again


def _show(context: Context, message: Message) -> None:
    if context.args.jsonl:
        context.out.document(_dump(message))
        return
    from interface.cli.views.messages import decoded_lines  # noqa: PLC0415  (JSON lines need no msgspec)

    context.out.lines(decoded_lines(message, context.out.screen))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
