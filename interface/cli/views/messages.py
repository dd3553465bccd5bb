"""A channel: what was said, by whom, in order."""

from typing import Any

import msgspec

from interface.cli.escape import escape
from interface.cli.output import Screen
from protocol.api.messages import Channel
from protocol.message import FACT_KINDS, SYSTEM, Message


def lines(body: bytes, screen: Screen) -> list[str]:
    """The messages of a channel."""
    channel = msgspec.json.decode(body, type=Channel)
    said = [line for message in channel.messages for line in message_lines(message, screen)]
    return said or [f"nothing was said in {escape(channel.space)}"]


def message_lines(message: Message, screen: Screen) -> list[str]:
    """One message, its further lines indented; none for facts that people do not read."""
    if message.kind in FACT_KINDS:
        return []
    ours = message.sender == SYSTEM
    who = screen.style(escape(f"{message.sender}{_to(message)}:"), "dim" if ours else "bold")
    first, *rest = escape("(cleared)" if message.cleared else message.text).rstrip("\n").split("\n")
    return [f"{who} {first}".rstrip(), *(f"  {line}".rstrip() for line in rest)]


def _to(message: Message) -> str:
    """Whom it was sent to, where the text does not say so itself."""
    silent = [name for name in message.to if f"@{name}" not in message.text.lower()]
    return f" -> {', '.join(silent)}" if silent else ""


def decoded_lines(message: dict[str, Any], screen: Screen) -> list[str]:
    """As ``message_lines``, of a message as JSON has it."""
    return message_lines(msgspec.convert(message, type=Message), screen)
