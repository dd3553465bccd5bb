"""``awk send``: a message to an agent or a channel; with ``--wait``, until what it caused has ended."""

import argparse
import json

from interface.cli import delivery
from interface.cli.context import Context
from interface.cli.duration import duration
from interface.cli.exits import Exit
from interface.cli.parsing import json_flag, message_argument, target_argument
from interface.cli.targets import target
from interface.cli.views import results as view
from interface.client import REQUEST_SECONDS
from interface.failure import Failure


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET MESSAGE."""
    target_argument(parser)
    message_argument(parser)
    parser.add_argument("--wait", action="store_true", help="wait for the answers, and print them")
    parser.add_argument("--timeout", type=duration, metavar="D", help="with --wait: at most so long (30s, 5m)")
    json_flag(parser)


def run(context: Context) -> int:
    """Print the receipt, or the answers."""
    if context.args.timeout is not None and not context.args.wait:
        raise Failure("usage", "--timeout goes with --wait")
    body = {"to": str(target(context.args.target)), "text": context.message(), "trust": context.trusts}
    answer, client = delivery.post_once(context, "/messages", body, REQUEST_SECONDS)
    client.close()
    receipt = json.loads(answer)
    _tell_unwoken(context, receipt)
    if not context.args.wait:
        context.out.notes(view.held_lines(receipt.get("held", {}), receipt.get("unasked", {})))
        context.out.document(answer) if context.args.json else context.out.lines(view.receipt_lines(answer))
        return Exit.OK
    outcomes = delivery.await_outcomes(context, receipt["instruction_ids"], context.args.timeout)
    document = delivery.report(receipt, outcomes)
    context.answer(document, "results")
    code = delivery.conclude(context, document)
    if outcomes.open:
        context.out.error(delivery.timed_out(outcomes))
        return Exit.TIMEOUT
    return code


def _tell_unwoken(context: Context, receipt: dict[str, list[str]]) -> None:
    if receipt.get("not_woken"):
        context.out.note(f"note: over the limit of eight mentions, not woken: {', '.join(receipt['not_woken'])}")
    if not receipt["instruction_ids"]:
        context.out.note("note: this wakes nobody; mention an agent (@name) to wake it")
