"""Messages of one space, as lines: those there are, and with ``-f`` those that come, through restarts of the kernel."""

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, escape, one_line
from interface.cli.paging import MESSAGES, Listing, count_flag, fetch_list, tell_rest
from interface.cli.parsing import archive_flag, json_flag, jsonl_flag
from interface.cli.targets import concerns
from interface.client import quoted
from interface.event_follow import CONNECTED, Follower
from interface.failure import Failure, Unreachable
from protocol import message as protocol_message
from protocol.api.messages import Channel
from protocol.message import FACT_KINDS, SYSTEM

DEFAULT_COUNT: Final = 50
SINCE: Final = Listing("messages", "since")

Message = dict[str, Any]
"""One protocol.message.Message, as JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """[-n N] [-f]."""
    count_flag(parser, DEFAULT_COUNT, "the last N")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as messages come")
    archive_flag(parser)
    json_flag(parser)
    jsonl_flag(parser)


def show(context: Context, space: str, only: str | None = None, run: str | None = None) -> int:
    """Print the last messages of ``space``; of ``only`` those from and to that agent, of ``run`` those said in it."""
    if context.args.follow and context.args.json:
        raise Failure("usage", "-f does not end, so it is no one document", "use --jsonl")
    if context.args.follow and (run is not None or context.args.archive is not None):
        raise Failure("usage", "what is over cannot be followed", "leave out -f, or --run and --archive")
    query = {name: value for name, value in (("agent", only), ("run", run)) if value is not None}
    if context.args.follow:
        return _follow(context, space, only, query)
    document = fetch_list(context.kernel(), _path(space), MESSAGES, context.args.n, query)
    if context.args.jsonl:
        for message in document["messages"]:
            context.out.document(_dump(message))
    else:
        context.answer(_dump(document).encode(), messages_lines)
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
            # The last messages; after a reconnect, all since the last one shown.
            assert follower.client is not None
            listing, count, since = (
                (MESSAGES, context.args.n, {}) if shown is None else (SINCE, 0, {"since": str(shown)})
            )
            try:
                messages = list(
                    fetch_list(follower.client, _path(space), listing, count, {**query, **since})["messages"]
                )
            except Unreachable:
                messages = []  # the stream breaks too, and the next connect asks again
        elif event.type == "message":
            messages = [json.loads(event.data)["data"]]
        for message in messages:
            if shown is None or message["seq"] > shown:
                shown = message["seq"]
                if only is None or concerns(message, only):
                    if context.args.jsonl:
                        context.out.document(_dump(message))
                    else:
                        context.out.lines(decoded_lines(message, context.out.screen))
    return Exit.OK


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def messages_lines(channel: Channel, screen: Screen) -> list[str]:
    """The messages of a channel."""
    said = [line for message in channel.messages for line in message_lines(message, screen)]
    return said or [f"nothing was said in {one_line(channel.space)}"]


def message_lines(message: protocol_message.Message, screen: Screen) -> list[str]:
    """One message, its further lines indented; none for facts that people do not read."""
    if message.kind in FACT_KINDS:
        return []
    silent = [name for name in message.to if f"@{name}" not in message.text.lower()]
    to = f" -> {', '.join(silent)}" if silent else ""  # those that the text does not name itself
    ours = message.sender == SYSTEM
    who = screen.style(one_line(f"{message.sender}{to}:"), "dim" if ours else "bold")
    first, *rest = escape("(cleared)" if message.cleared else message.text).rstrip("\n").split("\n")
    return [f"{who} {first}".rstrip(), *(f"  {line}".rstrip() for line in rest)]


def decoded_lines(message: Message, screen: Screen) -> list[str]:
    """As ``message_lines``, of a message as JSON has it."""
    return message_lines(msgspec.convert(message, type=protocol_message.Message), screen)
