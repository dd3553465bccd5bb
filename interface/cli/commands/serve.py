"""``awk serve``: a message, and its answer as one JSON document; for scripts."""

import argparse

from interface.cli import delivery
from interface.cli.context import Context
from interface.cli.parsing import message_argument, target_argument
from interface.cli.targets import target


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET MESSAGE."""
    target_argument(parser)
    message_argument(parser)
    parser.add_argument("--json", action="store_true", help="what it does anyway")


def run(context: Context) -> int:
    """Print the answer when it is there."""
    body = {"to": str(target(context.args.target)), "text": context.message(), "trust": context.trusts}
    answer, _ = delivery.post_once(context, "/serve", body, None)
    context.out.document(answer)
    return delivery.conclude(context, answer)
