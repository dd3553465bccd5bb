"""The screens of ``top`` as text, at 60 and 100 columns, and the picture of ``top`` in the docs.

``python -m tests.interface.top_screens`` writes both anew.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from rich.console import Console

from interface.cli.commands.live_table import drawn
from interface.cli.commands.top_view import TopView
from interface.cli.context import Context
from interface.client import Client
from protocol.api.approvals import ApprovalInfo, ApprovalRow, NeedList, Pending
from protocol.api.instructions import PromptReport, QueueReport, QueueRow
from protocol.api.overview import Overview
from protocol.api.processes import Ps
from protocol.api.runs import DiffReport, RunList, RunRow
from protocol.instruction import Usage
from protocol.tasks import TaskList
from tests.interface.samples import AT, instruction, need, ps_row, report, task, worktree

SCREENS: Final = Path(__file__).parent / "top_screens.txt"
PICTURE: Final = Path(__file__).parents[2] / "docs/images/top.svg"
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
OVERVIEW: Final = Overview(
    project="/home/me/shop", running=1, waiting=1, idle=1, needs=3, failed_today=0, runs_running=1,
    spend_today_usd=1.5, tokens_per_minute=1200.0, hours=(),
)  # fmt: skip
MANY: Final = Ps(agents=TABLE.agents[:2], needs=3, idle=97)
RUN: Final = RunRow(
    id="r12", run="review:main", mode="run", state="running", status=None, exit_code=None, started_at=AT,
    ended_at=None, duration_seconds=42.0, verdict=None, cost_usd=0.5,
)  # fmt: skip
DONE: Final = msgspec.structs.replace(RUN, id="r11", state="stopped", status="failed")
TASK: Final = task("t1", EVIL, state="claimed", holder="coder", claimed_at=AT, blocked_by=("t0",))
NEEDS: Final = (need(EVIL), need("a key", kind="credentials", id="coder"))

QUEUED: Final = QueueRow(id="i7", lane="normal", status="running", attempt=1, step=1, preempted=0, enqueued_at=AT)
DOCUMENTS: Final = {
    "/ps": msgspec.json.encode(TABLE),
    "/overview": msgspec.json.encode(OVERVIEW),
    "/ps?idle=10": msgspec.json.encode(MANY),
    "/runs": msgspec.json.encode(RunList(runs=(RUN, DONE), total=2)),
    "/runs/r12": msgspec.json.encode(report(EVIL)),
    "/needs": msgspec.json.encode(NeedList(items=NEEDS, total=2)),
    "/workflows": b'{"workflows":[{"name":"review","tag":"main"}]}',
    "/tasks": msgspec.json.encode(TaskList(tasks=(TASK,), total=1)),
    "/approvals": msgspec.json.encode(Pending(approvals=(ApprovalRow(**CALL),))),
    "/members": b'{"members":[{"name":"coder"},{"name":"reviewer"}]}',
    "/queue": msgspec.json.encode(QueueReport(agent="coder", instructions=(QUEUED,))),
    "/instructions/i7": msgspec.json.encode(instruction(status="running", text=EVIL)),
    "/prompt": msgspec.json.encode(PromptReport(id="i7", frozen=True, system=EVIL, messages=())),
    "/diff": msgspec.json.encode(DiffReport(space="review:main", worktrees=(worktree(EVIL),))),
}
"""What the kernel answers, by how the path ends."""


def steps(count: int, text: str, tool: str = "bash") -> list[dict[str, Any]]:
    """``count`` replies that each call one tool; the last call has not come back."""
    call = {"tool": tool, "input": {"command": text}}
    common = {
        "attempt": 1, "at": AT, "is_error": False, "duration_ms": 400, "usage": None, "text": None, "calls": [],
        "tool": None, "input": None, "output": None,
    }  # fmt: skip
    found: list[dict[str, Any]] = []
    for number in range(1, 2 * count, 2):
        found.append({**common, "n": number, "kind": "reply", "text": text, "calls": [call]})
        found.append({**common, **call, "n": number + 1, "kind": "tool", "output": text})
    return found[:-1]


class Kernel:
    """Answers what the views ask, of a call that waits; what was posted is kept, and which entries were asked for."""

    def __init__(self) -> None:
        self.posted: list[str] = []
        self.bodies: list[object] = []
        self.call = CALL
        self.asked: list[dict[str, str]] = []
        self.entries = steps(20, EVIL)

    def get(self, path: str, query: dict[str, str] | None = None) -> bytes:
        if path.endswith("/entries"):
            self.asked.append(query or {})
            return self._page(**(query or {}))
        if path == "/approvals/a3":
            return msgspec.json.encode(ApprovalInfo(**self.call, state="open"))
        return next(document for end, document in DOCUMENTS.items() if path.endswith(end))

    def _page(self, after: str = "0", limit: str = "100") -> bytes:
        behind = [entry for entry in self.entries if entry["n"] > int(after)]
        shown = behind[: int(limit)]
        following = str(shown[-1]["n"]) if len(shown) < len(behind) else None
        return json.dumps({"entries": shown, "total": len(self.entries), "next": following}).encode()

    def post(self, path: str, body: object, *, key: str) -> bytes:
        self.posted.append(path)
        self.bodies.append(body)
        return b'{"id":"a3","state":"granted","status":"cancelled"}'


class Window:
    """Of some size, which may change."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows

    def width(self) -> int:
        return self.columns


def view_of(columns: int, *keys: str, rows: int = 20, call: dict[str, Any] | None = None) -> tuple[TopView, Kernel]:
    """A look at TABLE in a window of that size, after some keys; ``call`` has the input of the call that waits."""
    context = SimpleNamespace(out=Window(columns, rows), clock=SimpleNamespace(wall=lambda: NOW))
    view, kernel = TopView(cast("Context", context)), Kernel()
    kernel.call = CALL if call is None else {**CALL, "input": call}
    view.table, view.overview, view.height = TABLE, OVERVIEW, rows
    for key in keys:
        view.press(key, cast("Client", kernel))
    return view, kernel


def text_of(view: TopView, columns: int) -> str:
    console = Console(width=columns, file=io.StringIO(), color_system=None)
    console.print(drawn(view, columns, NOW))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


KEYS: Final = {
    "the table": (), "the second is chosen": ("j",), "filtered": ("/", *"rev", "enter"), "the keys": ("?",),
    "a call to approve": ("a",), "the work of an agent": ("enter",), "runs": ("2", "j"), "needs": ("3",),
    "tasks": ("tab", "tab", "tab"), "idle agents folded": ("i", "i"), "a run": ("2", "enter"), "a need": ("3", "enter"),
}  # fmt: skip


def screens() -> Iterator[str]:
    """Each with its name."""
    for columns in (60, 100):
        for name, keys in KEYS.items():
            view, _ = view_of(columns, *keys)
            yield f"== {name}, {columns} columns\n{text_of(view, columns)}\n"


TEAM: Final = Ps(
    agents=(
        ps_row("reviewer", "", space="team:main", state="waiting", reason="approval", pid=4713, doing="", step=4,
               age_s=61.0, status=None, usage=Usage(input_tokens=5210, output_tokens=702, cost_usd=0.0262)),
        ps_row("coder", "", space="team:main", reason=None, doing="bash", step=7, age_s=42.0, step_age_s=12.0,
               silent_s=3.0, status=None, usage=Usage(input_tokens=18_400, output_tokens=2100, cost_usd=0.0867)),
        ps_row("tester", "", space="team:main", state="backoff", reason=None, until="2026-11-21T10:00:46Z", pid=None,
               doing="", step=2, status=None),
    ),
    needs=1, idle=12,
)  # fmt: skip


def picture() -> str:
    """``top`` while the coder of a team runs a tool and its reviewer waits for an approval."""
    view, _ = view_of(110)
    view.table = TEAM
    view.overview = msgspec.structs.replace(OVERVIEW, waiting=2, idle=12, needs=1)
    console = Console(width=110, file=io.StringIO(), record=True, force_terminal=True, color_system="truecolor")
    console.print(drawn(view, 110, NOW))
    return console.export_svg(title="awk top", unique_id="top")


if __name__ == "__main__":
    PICTURE.write_text(picture(), "utf-8")
    SCREENS.write_text("\n".join(screens()), "utf-8")
