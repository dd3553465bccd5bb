"""What was done already, told to a model that cannot be shown it: the entries were made for another prompt. Pure.

Names, whether a call went well, and a little of what went in and came out, as quoted lines: it is report, not orders.
"""

from collections.abc import Sequence
from typing import Final

from kernel.agents.prompt import quoted
from protocol.ipc import Entry, ToolCall

CHARACTERS: Final = 200
"""Of one call's arguments, of one result and of one reply."""
LINES: Final = 200
"""The newest; how many were left out is said."""

_OPENING: Final = """\
# What you did before

You began this work under another setup; what was said then cannot be shown again. What is known of it, oldest first:
"""


def ledger(entries: Sequence[Entry]) -> str:
    """The account of ``entries``; a note that ends them is what is asked now. Empty where nothing was done."""
    lines = _lines(entries)
    if not lines:
        return ""
    left_out = len(lines) - LINES
    kept = [f"({left_out} earlier lines are left out)", *lines[-LINES:]] if left_out > 0 else lines
    told = quoted("\n".join(kept))
    asked = f"\n\nAnd now, for you:\n\n{quoted(entries[-1].text)}" if entries[-1].kind == "note" else ""
    return f"{_OPENING}\n{told}{asked}"


def _lines(entries: Sequence[Entry]) -> list[str]:
    lines: list[str] = []
    pending: list[ToolCall] = []
    for entry in entries:
        match entry.kind:
            case "reply":
                lines += map(_unknown, pending)
                pending = list(entry.calls)
                lines += [f"you said: {_short(entry.text)}"] if entry.text.strip() else []
            case "tool":
                call = _taken(pending, entry)
                lines.append(f"{_named(call)}: {'failed' if entry.is_error else 'ok'}: {_short(entry.text)}")
            case "note":
                lines.append(f"you were told: {_short(entry.text)}")
            case "session":
                pass
    return [*lines, *map(_unknown, pending)]


def _taken(pending: list[ToolCall], result: Entry) -> ToolCall:
    """The call that ``result`` belongs to: by its id where a program ran several at once, else the first."""
    if not pending:
        return ToolCall(id="", name=result.name or "?")
    return pending.pop(next((n for n, call in enumerate(pending) if call.id == result.call_id), 0))


def _unknown(call: ToolCall) -> str:
    return f"{_named(call)}: was begun, and nobody knows whether it was done: check first"


def _named(call: ToolCall) -> str:
    return f"{call.name} {_short(bytes(call.args).decode('utf-8', 'replace'))}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]} [cut]"
