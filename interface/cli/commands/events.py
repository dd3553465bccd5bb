"""``awk events`` and ``logs``: all that happened, or what an operator reads of it, without the conversation.

``logs --previous`` shows the last attempt that ended, or all of the kernel before this one.
"""

import argparse
from collections.abc import Sequence
from typing import Final

from interface.cli import event_view
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.targets import target
from interface.client import quoted
from interface.failure import Failure
from protocol.names import name_of
from protocol.target import Target


def configure_events(parser: argparse.ArgumentParser) -> None:
    """[-f] [--since D]."""
    event_view.configure(parser)


def run_events(context: Context) -> int:
    """Print the events that are kept, or those that come; live ones only with ``-f``."""
    event_view.show(context, None, lambda event: True)
    return Exit.OK


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


def configure_logs(parser: argparse.ArgumentParser) -> None:
    """[TARGET], from when, and whether to go on."""
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="alice, @review[:tag] or alice@review (default: all)"
    )
    parser.add_argument(
        "--previous", action="store_true", help="its last attempt that ended; without a target the kernel before this"
    )
    event_view.configure(parser)


def run_logs(context: Context) -> int:
    """Print what workers and attempts did."""
    asked = None if context.args.target is None else target(context.args.target)
    space = asked.space if asked is not None and asked.workflow is not None else None
    if not context.args.previous:
        shown = event_view.show(context, space, lambda event: is_logged(event, asked))
    else:
        if context.args.follow:
            raise Failure("usage", "what is over cannot be followed", "leave out -f or --previous")
        part = previous_kernel if asked is None else previous_attempt
        shown = event_view.show_part(context, space, lambda event: is_logged(event, asked), part)
    if asked is not None and not shown:
        # Nothing to show of somebody who is there is fine; of a name nobody has it is a mistake. Raises Failure.
        if asked.workflow is not None:
            context.kernel().get(f"/spaces/{quoted(asked.space)}/members")
        else:
            context.kernel().get(f"/agents/{quoted(str(asked.agent))}")
    return Exit.OK


def is_logged(event: event_view.Event, asked: Target | None) -> bool:
    """Return whether ``event`` is for the log, and about the agent that was asked for."""
    if not str(event["type"]).startswith(SHOWN):
        return False
    return asked is None or asked.agent is None or name_of(str(event.get("agent") or "")) == asked.agent


def previous_attempt(events: Sequence[event_view.Event]) -> tuple[int, ...]:
    """Places of what tells of the attempt that ended last; empty where none has."""
    ends = [event for event in events if event["type"] == "attempt.ended"]
    if not ends:
        return ()
    instruction, wanted = ends[-1].get("instruction"), attempt_of(ends[-1])
    own = [place for place, event in enumerate(events) if event.get("instruction") == instruction]
    named = [(place, attempt_of(events[place])) for place in own if attempt_of(events[place])]
    first = next(place for place, attempt in named if attempt == wanted)
    after = next((place for place, attempt in named if place > first and attempt != wanted), len(events))
    return tuple(place for place in own if first <= place < after)


def previous_kernel(events: Sequence[event_view.Event]) -> tuple[int, ...]:
    """Places of all that was told while the kernel before this one ran; empty where there was none."""
    starts = [place for place, event in enumerate(events) if event["type"] == "kernel.started"]
    if not starts:
        return ()
    return tuple(range(starts[-2] if len(starts) > 1 else 0, starts[-1]))


def attempt_of(event: event_view.Event) -> str:
    """The attempt that an event names; "" where it names none."""
    return str((event.get("data") or {}).get("attempt") or "")
