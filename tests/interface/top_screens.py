"""The screens of ``top`` as text, at 60 and 100 columns; ``python -m tests.interface.top_screens`` prints them anew."""

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from rich.console import Console

from interface.cli.commands.events import SHOWN
from interface.cli.commands.runs import diff_lines
from interface.cli.commands.show import instruction_lines, prompt_lines
from interface.cli.context import Context
from interface.cli.live_table import drawn
from interface.cli.top_view import Details, TopView
from interface.client import Client
from protocol.api.approvals import ApprovalInfo, ApprovalRow, Pending
from protocol.api.instructions import QueueReport, QueueRow
from protocol.api.processes import Ps
from protocol.instruction import Usage
from tests.interface.samples import AT, ps_row

SCREENS: Final = Path(__file__).parent / "top_screens.txt"
NOW: Final = 1_795_255_242.0
EVIL: Final = "echo \x1b[2J\x1b[1;1H\rApprove a3? [y/N] y \u202e" + " long" * 60
CALL: Final[dict[str, Any]] = {
    "id": "a3", "agent": "coder", "space": "review:main", "tool": "bash", "requested_at": AT, "expires_at": AT,
    "instruction_id": "i7", "input": {"command": EVIL},
}  # fmt: skip
TABLE: Final = Ps(
    agents=(
        ps_row("coder", "", model="mock/coder", doing="bash", reason=None, usage=Usage(input_tokens=9, cost_usd=0.5)),
        ps_row("reviewer", "", model="mock/r", state="waiting", reason="approval", until=None, pid=None, doing=""),
        ps_row("tester", "", space=None, model="mock/t", state="idle", reason=None, until=None, pid=None, doing=""),
    ),
    needs=3,
)

DETAILS: Final = Details(instruction_lines, prompt_lines, diff_lines, SHOWN)


class Kernel:
    """Answers what the views ask; what was posted is kept."""

    def __init__(self) -> None:
        self.posted: list[str] = []

    def get(self, path: str, query: object = None) -> bytes:
        """The document at ``path``."""
        if path == "/approvals":
            return msgspec.json.encode(Pending(approvals=(ApprovalRow(**CALL),)))
        if path.startswith("/approvals/"):
            return msgspec.json.encode(ApprovalInfo(**CALL, state="open"))
        if path.endswith("/members"):
            return b'{"members":[{"name":"coder"},{"name":"reviewer"}]}'
        queued = QueueRow(id="i7", lane="normal", status="running", attempt=1, step=1, preempted=0, enqueued_at=AT)
        return msgspec.json.encode(QueueReport(agent="coder", instructions=(queued,)))

    def post(self, path: str, body: object, *, key: str) -> bytes:
        """Take it."""
        self.posted.append(path)
        return b'{"state":"granted","status":"cancelled"}'


def view_of(columns: int, *keys: str, rows: int = 20) -> tuple[TopView, Kernel]:
    """A look at TABLE in a window of that size, after some keys."""
    out = SimpleNamespace(width=lambda: columns)
    view, kernel = TopView(cast("Context", SimpleNamespace(out=out)), DETAILS), Kernel()
    view.table, view.height = TABLE, rows
    for key in keys:
        view.press(key, cast("Client", kernel))
    return view, kernel


def text_of(view: TopView, columns: int) -> str:
    """What is drawn, as text."""
    console = Console(width=columns, file=io.StringIO(), color_system=None)
    console.print(drawn(view, columns, NOW))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


KEYS: Final = {
    "the table": (), "the second is chosen": ("j",), "filtered": ("/", *"rev", "enter"), "the keys": ("?",),
    "a call to approve": ("a",),
}  # fmt: skip


def screens() -> Iterator[str]:
    """Ten of them, each with its name."""
    for columns in (60, 100):
        for name, keys in KEYS.items():
            view, _ = view_of(columns, *keys)
            yield f"== {name}, {columns} columns\n{text_of(view, columns)}\n"


if __name__ == "__main__":
    SCREENS.write_text("\n".join(screens()), "utf-8")
