"""``awk webhook``: servers elsewhere that are told what happens; how they stand, and another try."""

import argparse
from typing import Final

from interface.cli.command_parser import Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, decode, one_line, table

VERBS: Final = Subcommands(
    "webhook",
    (
        generated("webhook list"),
        generated("webhook retry"),
    ),
)


def configure_webhook(parser: argparse.ArgumentParser) -> None:
    VERBS.configure(parser)


def run_webhook(context: Context) -> int:
    return VERBS.run(context)


def webhooks_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each, with what waits for another try."""
    from protocol.api.webhooks import WebhookList  # noqa: PLC0415  (JSON needs no types)

    rows = [
        [one.id, one.state, str(one.waiting), one_line(one.host), one_line(", ".join(one.events))]
        for one in decode(body, WebhookList).webhooks
    ]
    return table(["ID", "STATE", "WAITING", "SERVER", "EVENTS"], rows, screen) if rows else ["there are no webhooks"]
