"""``awk feedback add``: something of the user's own."""

import argparse

from interface.cli.context import Context
from interface.cli.parsing import message_argument
from interface.client import new_key


def configure(parser: argparse.ArgumentParser) -> None:
    """MESSAGE."""
    message_argument(parser)


def run(context: Context) -> int:
    """Keep it, and print its id."""
    text = context.message()
    return context.answer(context.kernel().post("/feedback", {"text": text}, key=new_key()), "feedback_added")
