"""Events of the kernel: which are wanted and from when, printed as the kernel spells them or as log lines."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from interface.cli.command_parser import duration
from interface.cli.context import Context
from interface.cli.output import Screen, decode, escape, one_line
from interface.cli.parsing import jsonl_flag
from interface.cli.targets import typed_name
from interface.client import ServerEvent
from interface.event_follow import Follower

if TYPE_CHECKING:
    from protocol import events
    from protocol.message import Message

Event = dict[str, Any]
"""One protocol.events.Event, as JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """[-f] [--since D]."""
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
    """The events that are wanted, with what each says: those that are kept, then with ``-f`` those that come."""
    query = {} if space is None else {"space": space}
    if not context.args.follow or context.args.since is not None:
        query["since"] = "0"
    after = None if context.args.since is None else context.clock.wall() - context.args.since
    for received in _source(context, query):
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
                pass  # an event without a time that we can read is shown
        yield received, event


def _source(context: Context, query: dict[str, str]) -> Iterator[ServerEvent]:
    if context.args.follow:
        context.kernel().close()
        yield from Follower(connect=context.find_kernel, query=query, clock=context.clock, say=context.out.note)
    with context.kernel().events({**query, "follow": "0"}) as stream:
        yield from stream


def _print(context: Context, received: ServerEvent) -> None:
    if context.args.jsonl:
        context.out.document(received.data)
    else:
        context.out.lines([event_line(event_of(received.data), context.out.screen)])


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


def event_of(data: str) -> "events.Event":
    """The event in a line of a stream."""
    from protocol import events  # noqa: PLC0415  (JSON needs no types)

    return decode(data.encode(), events.Event)


def message_of(event: "events.Event") -> "Message | None":
    """The message in an event that tells of one."""
    import msgspec  # noqa: PLC0415  (JSON needs no types)

    from protocol.message import Message  # noqa: PLC0415  (as above)

    return msgspec.convert(event.data, type=Message) if event.type == "message" else None


def event_line(event: "events.Event", screen: Screen) -> str:
    """One event on one line: when, what kind, where, and what happened."""
    import msgspec  # noqa: PLC0415  (JSON needs no types)

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


def asked_line(event: "events.Event", program: str, *, can_approve: bool) -> str | None:
    """The way in which a person can answer an event of a run: approve something, or vote on it.

    The words for it are left out without ``can_approve``: the run ends before anybody could.
    """
    if event.type == "proposal.opened" and can_approve:
        name = one_line(typed_name(str(event.data.get("id")), str(event.space)))
        return f"note: you may vote too: {program} proposal vote {name} CHOICE"
    if event.type != "approval.requested":
        return None
    who, what, name = (one_line(str(part)) for part in (event.agent, event.data.get("tool"), event.data.get("id")))
    if not can_approve:
        return f"note: {who} needs an approval to call {what}"
    return f"note: {who} waits for your approval to call {what}: {program} pending {name}, {program} approve {name}"


def failure_lines(event: "events.Event") -> list[str]:
    """The reason why work failed, in an event that tells of that: its message to the others names the cause alone."""
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
