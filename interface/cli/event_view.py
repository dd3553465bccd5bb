"""Events for people and programs: which are wanted, from when, and how they are printed.

Events as log lines: when, who, where, what.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line
from interface.cli.parsing import duration, jsonl_flag
from interface.cli.proposal_name import full_name
from interface.event_follow import Follower
from interface.sse import ServerEvent
from protocol import events
from protocol.message import Message

Event = dict[str, Any]
"""One protocol.events.Event, as JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """From when, and whether to go on."""
    parser.add_argument("-f", "--follow", action="store_true", help="go on as they come; without --since from now on")
    parser.add_argument("--since", type=duration, metavar="D", help="only those of the last 10m, 2h, ...")
    jsonl_flag(parser)


def show(context: Context, space: str | None, wanted: Callable[[Event], bool]) -> int:
    """Print all that is kept and ``wanted``; with ``-f`` those that come. Returns how many there were."""
    shown = 0
    for received, _ in _received(context, space, wanted):
        _print(context, received)
        shown += 1
    return shown


def show_part(
    context: Context,
    space: str | None,
    wanted: Callable[[Event], bool],
    part: Callable[[Sequence[Event]], Sequence[int]],
) -> int:
    """Print those of all that is kept and ``wanted`` whose places ``part`` gives. Returns how many there were."""
    found = list(_received(context, space, wanted))
    places = part([event for _, event in found])
    for place in places:
        _print(context, found[place][0])
    return len(places)


def _received(
    context: Context, space: str | None, wanted: Callable[[Event], bool]
) -> Iterator[tuple[ServerEvent, Event]]:
    filters = {} if space is None else {"space": space}
    after = None if context.args.since is None else context.clock.wall() - context.args.since
    for received in _source(context, filters):
        if not received.data:
            continue
        event: Event = json.loads(received.data)
        if wanted(event) and not (after is not None and _is_before(event, after)):
            yield received, event


def _source(context: Context, filters: dict[str, str]) -> Iterator[ServerEvent]:
    history = {} if context.args.follow and context.args.since is None else {"since": "0"}
    if context.args.follow:
        context.kernel().close()
        query = {**filters, **history}
        yield from Follower(connect=context.find_kernel, query=query, clock=context.clock, say=context.out.note)
    with context.kernel().events({**filters, **history, "follow": "0"}) as stream:
        yield from stream


def _is_before(event: Event, seconds: float) -> bool:
    try:
        return datetime.fromisoformat(event["at"]).timestamp() < seconds
    except (ValueError, KeyError, TypeError):
        return False


def _print(context: Context, received: ServerEvent) -> None:
    if context.args.jsonl:
        context.out.document(received.data)
        return

    context.out.lines([event_line(decode(received.data), context.out.screen)])


_SHOWN: dict[str, tuple[str, ...]] = {
    "message": ("from", "text"),
    "instruction.step": ("step", "kind", "name", "is_error", "refused"),
    "instruction.ended": ("status", "cause", "text"),
    "attempt.started": ("attempt", "pid", "backend", "model"),
    "attempt.ended": ("attempt", "outcome", "exit", "stderr"),
    "agent.changed": ("state", "reason"),
    "worker.log": ("level", "text"),
}
"""The data that a line shows, where that is not all of it."""
_FAILED = frozenset({"failed", "dead"})
_BAD = _FAILED | {"error", "crash"}


def event_line(event: events.Event, screen: Screen) -> str:
    """One event on one line."""
    where = " ".join(one_line(part) for part in (event.space, event.agent, event.instruction) if part)
    names = _SHOWN.get(event.type, tuple(event.data))
    facts = {facts_name: event.data[facts_name] for facts_name in names if event.data.get(facts_name) not in (None, "")}
    bad = any(str(value) in _BAD for value in facts.values())
    told = " ".join(f"{name}={_value(value)}" for name, value in facts.items())
    line = f"{one_line(event.at)} {one_line(event.type)} {where}".rstrip()
    return f"{screen.style(line, 'red' if bad else 'dim')} {told}".rstrip()


def decode(data: str) -> events.Event:
    """The event in a line of a stream."""
    return msgspec.json.decode(data.encode(), type=events.Event)


def _value(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f'"{one_line(text)}"' if " " in text or "\n" in text else one_line(text)


def asked_line(event: events.Event, program: str, *, can_approve: bool) -> str | None:
    """What a person can say to an event of a run, and how: approve something, or vote on it.

    Without ``can_approve`` it does not say how: the run ends before anybody could.
    """
    if event.type == "proposal.opened" and can_approve:
        name = one_line(full_name(str(event.data.get("id")), str(event.space)))
        return f"note: you may vote too: {program} proposal vote {name} CHOICE"
    return _approval_line(event, program, can_approve=can_approve) if event.type == "approval.requested" else None


def _approval_line(event: events.Event, program: str, *, can_approve: bool) -> str:
    who, what, name = (one_line(str(part)) for part in (event.agent, event.data.get("tool"), event.data.get("id")))
    if not can_approve:
        return f"note: {who} needs an approval to call {what}"
    return f"note: {who} waits for your approval to call {what}: {program} pending {name}, {program} approve {name}"


def failure_lines(event: events.Event) -> list[str]:
    """Why work failed, in an event that tells of that: its message to the others names the cause alone."""
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


def message_of(event: events.Event) -> Message | None:
    """The message in an event that tells of one."""
    return msgspec.convert(event.data, type=Message) if event.type == "message" else None
