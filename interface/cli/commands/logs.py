"""``awk logs``: what workers and attempts did; the events an operator reads, without the conversation."""

import argparse
from typing import Final

from interface.cli import event_reading
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.previous import previous_attempt, previous_kernel
from interface.cli.targets import target
from interface.client import quoted
from interface.failure import Failure
from protocol.names import name_of
from protocol.target import Target

SHOWN: Final = (
    "worker.",
    "attempt.",
    "instruction.",
    "approval.",
    "agent.",
    "workflow.",
    "worktree.",
    "definition.",
    "kernel.",
    "lagged",
    "gap",
)
"""Beginnings of the types that belong in a log."""


def configure(parser: argparse.ArgumentParser) -> None:
    """[TARGET], from when, and whether to go on."""
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="alice, @review[:tag] or alice@review (default: all)"
    )
    parser.add_argument(
        "--previous", action="store_true", help="its last attempt that ended; without a target the kernel before this"
    )
    event_reading.configure(parser)


def run(context: Context) -> int:
    """Print them."""
    asked = None if context.args.target is None else target(context.args.target)
    space = asked.space if asked is not None and asked.workflow is not None else None
    shown = _show(context, asked, space)
    if asked is not None and not shown:
        _check_there(context, asked)
    return Exit.OK


def _show(context: Context, asked: Target | None, space: str | None) -> int:
    if not context.args.previous:
        return event_reading.show(context, space, lambda event: is_shown(event, asked))
    if context.args.follow:
        raise Failure("usage", "what is over cannot be followed", "leave out -f or --previous")
    part = previous_kernel if asked is None else previous_attempt
    return event_reading.show_part(context, space, lambda event: is_shown(event, asked), part)


def _check_there(context: Context, asked: Target) -> None:
    """Nothing to show of somebody who is there is fine; of a name nobody has it is a mistake. Raises Failure."""
    if asked.workflow is not None:
        context.kernel().get(f"/spaces/{quoted(asked.space)}/members")
    else:
        context.kernel().get(f"/agents/{quoted(str(asked.agent))}")


def is_shown(event: event_reading.Event, asked: Target | None) -> bool:
    """Whether ``event`` is for the log, and about who was asked for."""
    if not str(event["type"]).startswith(SHOWN):
        return False
    return asked is None or asked.agent is None or name_of(str(event.get("agent") or "")) == asked.agent
