"""``awk webhook``: servers elsewhere that are told what happens; how they stand, and another try."""

from typing import Final

from interface.cli.command_parser import Subcommands, generated
from interface.cli.output import Screen, one_line, table
from protocol.api.webhooks import WebhookList

VERBS: Final = Subcommands("webhook", (generated("webhook list"), generated("webhook retry")))


def webhooks_lines(found: WebhookList, screen: Screen) -> list[str]:
    rows = [
        [one.id, one.state, str(one.waiting), one_line(one.host), one_line(", ".join(one.events))]
        for one in found.webhooks
    ]
    return table(["ID", "STATE", "WAITING", "SERVER", "EVENTS"], rows, screen) if rows else ["there are no webhooks"]
