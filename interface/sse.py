"""Server-sent events: pieces of a body to events. Sans I/O."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    """One event of a stream. ``data`` is its JSON; a comment (the server's ping) has type ``""`` and no data."""

    type: str
    data: str
    id: str = ""


PING = ServerEvent("", "")


def server_events(pieces: Iterable[bytes]) -> Iterator[ServerEvent]:
    """The events in ``pieces`` (WHATWG HTML 9.2.6), each as soon as it is whole; pings show that the peer lives."""
    lines: list[str] = []
    for line in _lines(pieces):
        if line:
            lines.append(line)
            continue
        event: ServerEvent | None
        fields: dict[str, str] = {}
        for event_line in lines:
            name, _, value = event_line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
        if "data" in fields or "event" in fields:
            event = ServerEvent(fields.get("event", "message"), fields.get("data", ""), fields.get("id", ""))
        else:
            event = PING if lines else None
        lines = []
        if event is not None:
            yield event


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        if b"\n" not in piece:
            continue
        *whole, rest = buffer.split(b"\n")
        buffer = bytearray(rest)
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
