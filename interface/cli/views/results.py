"""What instructions answered: the text of each, with its agent's name where there are several."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from interface.cli.escape import escape
from interface.cli.output import Screen
from protocol.api.messages import InstructionResult, SendReceipt, SendReport


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
    return [_complaint(result) for result in results if result.status != "done"]


def _complaint(result: InstructionResult) -> str:
    who = f"error: {escape(result.agent)}: {result.instruction_id}"
    if result.status != "waiting":
        why = f" ({escape(result.cause)})" if result.cause and result.cause != result.status else ""
        again = f"\n  hint: awk retry {result.instruction_id}" if result.status in {"dead", "failed"} else ""
        after = f" after {result.attempts} attempts" if result.attempts > 1 else ""
        return f"{who} ended {result.status}{why}{after}{again}"
    return f"{who} waits: {_wait(str(result.waits_for), result.unasked)}"


def held_lines(held: Mapping[str, str], unasked: Mapping[str, str]) -> list[str]:
    """What a message became that only a person can let go on. ``unasked``: of those, who waits for which key."""
    return [f"note: {escape(one)} waits: {_wait(reason, unasked.get(one))}" for one, reason in held.items()]


def _wait(reason: str, unasked: str | None) -> str:
    return escape(f"{unasked}; {_KEYLESS}" if unasked else _WAITS.get(reason, reason))


_KEYLESS: Final = "restart --kernel, from a shell where it is set, hands it on"
"""A kernel has the environment of whoever started it, for as long as it lives."""


_WAITS: Final = MappingProxyType(
    {
        "credentials": "its provider refused the key; set another one, then restart --kernel from that shell",
        "quota": "its provider's quota is used up; resume the agent once there is more",
        "approval": "you have to approve what it wants to do; pending lists it",
        "budget": "its budget is used up; continue grants it once more",
        "hops": "a limit of its workflow was reached; continue grants it once more",
        "paused": "it is paused; resume lets it go on",
        "stopped": "its agent was stopped; resume lets it go on",
        "error": "its agent is in error; ps shows why, reset clears it",
    }
)
"""What only a person can end -> what it is, and what to do."""


def receipt_lines(body: bytes) -> list[str]:
    """A message that was accepted and is not waited for."""
    receipt = msgspec.json.decode(body, type=SendReceipt)
    return [" ".join((receipt.message_id, *receipt.instruction_ids))]
