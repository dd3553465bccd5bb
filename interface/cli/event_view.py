"""Events of the kernel: selection by filter and start time, and output as the kernel's JSON or as log lines."""

import argparse
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from interface.cli.command_parser import duration
from interface.cli.context import Context
from interface.cli.output import Screen, decode, escape, one_line
from interface.cli.parsing import flag, jsonl_flag
from interface.cli.targets import typed_name
from interface.cli.transcript_view import StepReader, entry_lines, who_of
from interface.client import ServerEvent
from interface.event_follow import Follower
from protocol import message as events
from protocol.message import Message

Event = dict[str, Any]
"""protocol.message.Event as JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare -f and --since."""
    flag(parser, "-f", "--follow", about="print new events as they occur; -f alone prints no earlier events")
    parser.add_argument("--since", type=duration, metavar="D", help="only events of the last 10m, 2h, ...")
    jsonl_flag(parser)


def show(context: Context, space: str | None, wanted: Callable[[Event], bool]) -> int:
    """Print the ``wanted`` stored events, at most the last ``-n``; with ``-f`` also new events.

    Returns the number of wanted events, including stored ones that ``-n`` omits.
    """
    shown = 0
    lines = _Lines(context)
    last: int | None = getattr(context.args, "n", None)
    if not last:  # all
        for received, event in _received(context, space, wanted, follow=context.args.follow):
            lines.show(received, event)
            shown += 1
        return shown
    kept: deque[tuple[ServerEvent, Event]] = deque(maxlen=last)
    for one in _received(context, space, wanted, follow=False):
        shown += 1
        kept.append(one)
    for received, event in kept:
        lines.show(received, event)
    lines.tell_rest(len(kept), shown)
    if context.args.follow:
        # Continue after the last shown event, or with new events.
        after = kept[-1][0].id if kept else ""
        for received, event in _received(context, space, wanted, follow=True, last_id=after):
            lines.show(received, event)
            shown += 1
    return shown


def show_part(
    context: Context,
    space: str | None,
    wanted: Callable[[Event], bool],
    part: Callable[[Sequence[Event]], Sequence[int]],
) -> int:
    """Print the part of the ``wanted`` stored events at the positions that ``part`` returns, at most the last ``-n``.

    Returns the number of events in the part, including events that ``-n`` omits.
    """
    lines = _Lines(context)
    found = list(_received(context, space, wanted, follow=False))
    places = part([event for _, event in found])
    kept = places[-(context.args.n or len(places)) :]
    for place in kept:
        lines.show(*found[place])
    lines.tell_rest(len(kept), len(places))
    return len(places)


def _received(
    context: Context, space: str | None, wanted: Callable[[Event], bool], *, follow: bool, last_id: str = ""
) -> Iterator[tuple[ServerEvent, Event]]:
    """Yield each wanted event, raw and parsed: the stored events, then new events if ``follow`` is true."""
    query = {} if space is None else {"space": space}
    if not follow or (context.args.since is not None and not last_id):
        query["since"] = "0"
    after = None if context.args.since is None else context.clock.wall() - context.args.since
    for received in _source(context, query, follow=follow, last_id=last_id):
        if not received.data:
            continue
        event: Event = json.loads(received.data)
        if not wanted(event):
            continue
        if after is not None:
            try:
                if datetime.fromisoformat(event["at"]).timestamp() < after:
                    continue
            except (ValueError, KeyError, TypeError):
                pass  # an event with an invalid time is shown
        yield received, event


def _source(context: Context, query: dict[str, str], *, follow: bool, last_id: str) -> Iterator[ServerEvent]:
    if follow:
        context.kernel().close()
        yield from Follower(
            connect=context.find_kernel, query=query, clock=context.clock, say=context.out.note, last_id=last_id
        )
    with context.kernel().events({**query, "follow": "0"}) as stream:
        yield from stream


class _Lines:
    """Printer of events: raw, as one line, or with ``-v`` steps as a transcript."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._steps = StepReader(context) if context.args.verbose else None

    def show(self, received: ServerEvent, event: Event) -> None:
        out = self._context.out
        if self._context.args.jsonl:
            out.document(received.data)
            return
        entry = None if self._steps is None else self._steps.entry(event)
        if entry is not None:
            out.lines(entry_lines(entry, out.screen, who=who_of(event)))
        else:
            out.lines([event_line(event_of(received.data), out.screen)])

    def tell_rest(self, shown: int, total: int) -> None:
        """Print the total number of events if not all are shown."""
        if shown < total:
            self._context.out.note(f"{shown:,} of {total:,} (-n 0 for all)")


_GRAVE: Mapping[str, str] = {
    "definition.broken": "error",
    "kernel.service_failed": "error",
    "kernel.upgrade_failed": "warning",
    "schedule.untrusted": "warning",
    "model.fallback": "warning",
    "quota.reached": "warning",
    "lagged": "warning",
    "gap": "warning",
}


def level_of(event: Event) -> str:
    """Return the level of an event: debug, info, warning or error, as in a worker's log lines."""
    data = event.get("data") or {}
    if event["type"] == "worker.log":
        return str(data.get("level")) if data.get("level") in ("debug", "info", "warning", "error") else "info"
    if any(isinstance(value, str) and value in _BAD for value in data.values()):
        return "error"
    stopped = data.get("status") in ("incomplete", "cancelled") or bool(data.get("is_error"))
    retried = event["type"] == "instruction.queued" and bool(data.get("cause"))
    return "warning" if stopped or retried else _GRAVE.get(str(event["type"]), "info")


_SHOWN: dict[str, tuple[str, ...]] = {
    "message": ("from", "text"),
    "instruction.step": ("step", "kind", "name", "is_error", "refused"),
    "instruction.ended": ("status", "cause", "text"),
    "attempt.started": ("attempt", "pid", "backend", "model"),
    "attempt.ended": ("attempt", "outcome", "exit", "stderr"),
    "agent.changed": ("state", "reason"),
    "worker.log": ("level", "text"),
}
"""Fields of the data that a line shows."""
_FAILED = frozenset({"failed", "dead"})
_BAD = _FAILED | {"error", "crash"}


def event_of(data: str) -> events.Event:
    """Parse the event in a line of a stream."""
    return decode(data.encode(), events.Event)


def message_of(event: events.Event) -> Message | None:
    """Return the message in an event about a message."""
    return msgspec.convert(event.data, type=Message) if event.type == "message" else None


def event_line(event: events.Event, screen: Screen) -> str:
    """Return an event as one line: time, type, location and description."""
    where = " ".join(one_line(part) for part in (event.space, event.agent, event.instruction) if part)
    names = _SHOWN.get(event.type, tuple(event.data))
    facts = {name: event.data[name] for name in names if event.data.get(name) not in (None, "")}
    bad = any(str(value) in _BAD for value in facts.values())
    shown: list[str] = []
    for name, value in facts.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        quoted = " " in text or "\n" in text
        shown.append(f'{name}="{one_line(text)}"' if quoted else f"{name}={one_line(text)}")
    line = f"{one_line(event.at)} {one_line(event.type)} {where}".rstrip()
    return f"{screen.style(line, 'red' if bad else 'dim')} {' '.join(shown)}".rstrip()


def asked_line(event: events.Event, program: str, *, can_approve: bool) -> str | None:
    """Return the instruction for a person to answer an event of a run: approve a call, or vote.

    Returns None for other events, and for approvals without ``can_approve``: the run ends before a person can answer.
    """
    if event.type == "proposal.opened" and can_approve:
        name = one_line(typed_name(str(event.data.get("id")), str(event.space)))
        return f"note: you may vote too: {program} proposal vote {name} CHOICE"
    if event.type == "instruction.queued" and event.data.get("waits_for") == "person":
        who, name = one_line(str(event.agent)), one_line(str(event.instruction))
        how = f": {program} show --prompt {name}, {program} answer {name} TEXT" if can_approve else ""
        return f"note: {who} is asked, and is a person{how}"
    if event.type != "approval.requested":
        return None
    who, what, name = (one_line(str(part)) for part in (event.agent, event.data.get("tool"), event.data.get("id")))
    if not can_approve:
        return f"note: {who} needs an approval to call {what}"
    return f"note: {who} waits for your approval to call {what}: {program} needs {name}, {program} approve {name}"


def failure_lines(event: events.Event) -> list[str]:
    """Return the reason of a failure from its event, because the message to other agents contains only the cause."""
    text = str(event.data.get("text") or "").strip()
    if event.type != "instruction.ended" or event.data.get("status") not in _FAILED or not text:
        return []
    who = one_line(f"{event.agent}: {event.instruction}")
    tried = event.data.get("attempts") or 0
    after = f" after {tried} attempts" if tried > 1 else ""
    return [
        *f"error: {who} failed{after}: {escape(text)}".split("\n"),
        f"  hint: awk retry {one_line(str(event.instruction))}",
    ]
