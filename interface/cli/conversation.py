"""Messages of one space: those there are, and with ``-f`` those that come, through restarts of the kernel."""

import argparse
import json
from collections.abc import Callable
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.parsing import json_flag, jsonl_flag
from interface.client import Client, quoted
from interface.failure import Failure, Unreachable
from interface.follow import CONNECTED, Follower

DEFAULT_COUNT: Final = 50
MOST: Final = 1000
"""As many as the kernel gives at once."""
BATCH: Final = 200

Message = dict[str, Any]
"""One protocol.message.Message, as JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """How many, and whether to go on."""
    parser.add_argument(
        "-n", type=int, default=DEFAULT_COUNT, metavar="N", help=f"the last N (default: {DEFAULT_COUNT})"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on as messages come")
    json_flag(parser)
    jsonl_flag(parser)


def show(context: Context, space: str, only: str | None = None) -> int:
    """Print the last messages of ``space``; with ``only``, the last of those from and to that agent."""
    if not 1 <= context.args.n <= MOST:
        raise Failure("usage", f"-n is from 1 to {MOST}")
    if context.args.follow and context.args.json:
        raise Failure("usage", "-f does not end, so it is no one document", "use --jsonl")
    wanted: Callable[[Message], bool] = (
        (lambda message: True) if only is None else lambda message: concerns(message, only)
    )
    reach = context.args.n if only is None else MOST
    return _follow(context, space, wanted, reach) if context.args.follow else _print(context, space, wanted, reach)


def concerns(message: Message, agent: str) -> bool:
    """Whether ``agent`` said it or was meant by it."""
    return (
        agent == message.get("from") or agent in message.get("to", ()) or f"@{agent}" in message.get("text", "").lower()
    )


def _print(context: Context, space: str, wanted: Callable[[Message], bool], reach: int) -> int:
    document = fetch(context.kernel(), space, reach)
    document["messages"] = [message for message in document["messages"] if wanted(message)][-context.args.n :]
    if context.args.jsonl:
        for message in document["messages"]:
            context.out.document(_dump(message))
        return Exit.OK
    return context.answer(_dump(document).encode(), "messages")


def fetch(client: Client, space: str, count: int, since: int | None = None) -> dict[str, Any]:
    """The last ``count`` messages of ``space``, or the first after seq ``since``."""
    query = {"limit": str(count)} | ({} if since is None else {"since": str(since)})
    document: dict[str, Any] = json.loads(client.get(f"/spaces/{quoted(space)}/channel", query))
    return document


def _follow(context: Context, space: str, wanted: Callable[[Message], bool], reach: int) -> int:
    """History and stream meet without a gap: the stream is open before history is read, and seq tells doubles."""
    fetch(context.kernel(), space, 1)  # a space that does not exist is an error now, not silence for ever
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
            messages = _history(follower, space, reach, shown)
            if shown is None:
                messages = [message for message in messages if wanted(message)][-context.args.n :]
        elif event.type == "message":
            messages = [json.loads(event.data)["data"]]
        for message in messages:
            if shown is None or message["seq"] > shown:
                shown = message["seq"]
                _show_wanted(context, message, wanted)
    return Exit.OK


def _history(follower: Follower, space: str, count: int, shown: int | None) -> list[Message]:
    """The last ``count`` messages; after a reconnect, all since the last one shown."""
    assert follower.client is not None
    try:
        if shown is None:
            return list(fetch(follower.client, space, count)["messages"])
        return _all_since(follower.client, space, shown)
    except Unreachable:
        return []  # the stream breaks too, and the next connect asks again


def _all_since(client: Client, space: str, shown: int) -> list[Message]:
    found: list[Message] = []
    while True:
        batch = fetch(client, space, BATCH, shown)["messages"]
        found += batch
        if len(batch) < BATCH:
            return found
        shown = batch[-1]["seq"]


def _show_wanted(context: Context, message: Message, wanted: Callable[[Message], bool]) -> None:
    if not wanted(message):
        return
    if context.args.jsonl:
        context.out.document(_dump(message))
        return
    from interface.cli.views.messages import decoded_lines  # noqa: PLC0415  (JSON lines need no msgspec)

    context.out.lines(decoded_lines(message, context.out.screen))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
