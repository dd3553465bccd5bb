"""Events as log lines: when, who, where, what."""

from typing import Any

import msgspec

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from interface.cli.proposal_verbs.named import full_name
from protocol.events import Event
from protocol.message import Message

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


def event_line(event: Event, screen: Screen) -> str:
    """One event on one line."""
    where = " ".join(one_line(part) for part in (event.space, event.agent, event.instruction) if part)
    facts = _facts(event)
    bad = any(str(value) in _BAD for value in facts.values())
    told = " ".join(f"{name}={_value(value)}" for name, value in facts.items())
    line = f"{one_line(event.at)} {one_line(event.type)} {where}".rstrip()
    return f"{screen.style(line, 'red' if bad else 'dim')} {told}".rstrip()


def decode(data: str) -> Event:
    """The event in a line of a stream."""
    return msgspec.json.decode(data.encode(), type=Event)


def _facts(event: Event) -> dict[str, Any]:
    names = _SHOWN.get(event.type, tuple(event.data))
    return {name: event.data[name] for name in names if event.data.get(name) not in (None, "")}


def _value(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f'"{one_line(text)}"' if " " in text or "\n" in text else one_line(text)


def asked_line(event: Event, program: str, *, attended: bool) -> str | None:
    """What a person can say to an event of a run, and how: approve something, or vote on it.

    Not how where the run is not ``attended``: it ends before anybody could.
    """
    if event.type == "proposal.opened" and attended:
        name = one_line(full_name(str(event.data.get("id")), str(event.space)))
        return f"note: you may vote too: {program} proposal vote {name} CHOICE"
    return _approval_line(event, program, attended=attended) if event.type == "approval.requested" else None


def _approval_line(event: Event, program: str, *, attended: bool) -> str:
    who, what, name = (one_line(str(part)) for part in (event.agent, event.data.get("tool"), event.data.get("id")))
    if not attended:
        return f"note: {who} needs an approval to call {what}"
    return f"note: {who} waits for your approval to call {what}: {program} pending {name}, {program} approve {name}"


def failure_lines(event: Event) -> list[str]:
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


def message_of(event: Event) -> Message | None:
    """The message in an event that tells of one."""
    return msgspec.convert(event.data, type=Message) if event.type == "message" else None
