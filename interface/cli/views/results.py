"""What instructions answered: the text of each, with its agent's name where there are several."""

import msgspec

from interface.cli.escape import escape
from interface.cli.output import Screen
from protocol.api import InstructionResult, SendReceipt, SendReport


def lines(body: bytes, screen: Screen) -> list[str]:
    """The answers."""
    results = msgspec.json.decode(body, type=SendReport).results
    if len(results) == 1:
        return text_lines(results[0])
    return [
        line for result in results for line in [screen.style(f"{escape(result.agent)}:", "bold"), *text_lines(result)]
    ]


def text_lines(result: InstructionResult) -> list[str]:
    """The text of one answer; no line for none."""
    return escape(result.text).rstrip("\n").split("\n") if result.text.strip() else []


def complaints(body: bytes) -> list[str]:
    """One line for each instruction that was not done, for stderr."""
    results = msgspec.json.decode(body, type=SendReport).results
    return [
        f"error: {escape(result.agent)}: {result.instruction_id} ended {result.status}"
        for result in results
        if result.status != "done"
    ]


def receipt_lines(body: bytes) -> list[str]:
    """A message that was accepted and is not waited for."""
    receipt = msgspec.json.decode(body, type=SendReceipt)
    return [" ".join((receipt.message_id, *receipt.instruction_ids))]
