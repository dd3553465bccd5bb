"""``awk deny``: calls of tools are not made, and their agents are told; a standing rule is taken back."""

import argparse
import re
from typing import Final

from interface.cli.context import Context
from interface.cli.deciding import NOTHING, decide, decision_arguments
from interface.client import quoted
from interface.failure import Failure

_RULE: Final = re.compile(r"r\d+", re.ASCII)


def configure(parser: argparse.ArgumentParser) -> None:
    """APPROVAL... and why."""
    decision_arguments(parser, "what awk pending lists (a3), or one standing rule (r2), which is taken back")


def run(context: Context) -> int:
    """Refuse each of them."""
    ids: list[str] = context.args.ids
    if not any(_RULE.fullmatch(one) for one in ids):
        return decide(context, "deny", NOTHING)
    if len(ids) > 1:
        raise Failure("usage", "one standing rule is taken back at a time")
    return context.answer(context.kernel().delete(f"/approvals/rules/{quoted(ids[0])}"), "approval_rules")
