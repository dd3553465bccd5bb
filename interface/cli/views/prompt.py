"""The prompt of an instruction, as text: the system prompt, then the messages."""

import msgspec

from interface.cli.escape import escape
from interface.cli.output import Screen
from protocol.api.instructions import PromptReport


def lines(body: bytes, screen: Screen) -> list[str]:
    """All of it, each message under its role."""
    prompt = msgspec.json.decode(body, type=PromptReport)
    shown = [*_text(prompt.system)]
    for message in prompt.messages:
        shown += ["", screen.style(f"{message.role}:", "bold"), *_text(message.text)]
    return shown


def _text(text: str) -> list[str]:
    return escape(text).rstrip("\n").split("\n") if text else []
