"""What an agent has to do."""

import msgspec

from interface.cli.escape import one_line
from interface.cli.output import Screen
from protocol.agent_files import TodoReport, TodoRow


def lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each item, with its number."""
    items = msgspec.json.decode(body, type=TodoReport).items
    return [_line(item, screen) for item in items] or ["nothing to do"]


def _line(item: TodoRow, screen: Screen) -> str:
    line = f"{item.n:>3}  [{'x' if item.done else ' '}] {one_line(item.text)}"
    return screen.style(line, "dim") if item.done else line
