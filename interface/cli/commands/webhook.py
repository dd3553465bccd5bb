"""``awk webhook``: servers elsewhere that are told what happens; how they stand, and another try."""

import argparse
from typing import Final

from interface.cli.command_parser import Subcommand, Subcommands
from interface.cli.context import Context
from interface.cli.output import Screen, decode, one_line, table
from interface.client import new_key, quoted

VERBS: Final = Subcommands(
    "webhook",
    (
        Subcommand("list", "list those of the project file, and how they stand"),
        Subcommand("retry", "tell one again what it was not told, also after its server answered 410"),
    ),
)


def configure_webhook(parser: argparse.ArgumentParser) -> None:
    VERBS.configure(parser)


def run_webhook(context: Context) -> int:
    return VERBS.run(context)


def configure_list(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""


def run_list(context: Context) -> int:
    return context.answer(context.kernel().get("/webhooks"), webhooks_lines)


def webhooks_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each, with what waits for another try."""
    from protocol.api.webhooks import WebhookList  # noqa: PLC0415  (JSON needs no types)

    rows = [
        [one.id, one.state, str(one.waiting), one_line(one.host), one_line(", ".join(one.events))]
        for one in decode(body, WebhookList).webhooks
    ]
    return table(["ID", "STATE", "WAITING", "SERVER", "EVENTS"], rows, screen) if rows else ["there are no webhooks"]


def configure_retry(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="WEBHOOK", help="its id, as list and needs show it")


def run_retry(context: Context) -> int:
    path = f"/webhooks/{quoted(context.args.id)}/retry"
    return context.answer(context.kernel().post(path, {}, key=new_key()), webhooks_lines)
